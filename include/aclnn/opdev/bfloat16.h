// bfloat16 (8 exponent bits, 7 of mantissa: the upper half of a float) as a C++ value.
#ifndef GRADUS_ACLNN_OPDEV_BFLOAT16_H
#define GRADUS_ACLNN_OPDEV_BFLOAT16_H

#ifdef __cplusplus

#include "rounding.h"

namespace op {

// Made from any number by one rounding to nearest even, overflow to infinity; turns into float without loss, and by
// that computes, compares and prints as one.
struct bfloat16 {
    uint16_t value;

    bfloat16() : value(0) {}
    bfloat16(float number) : value(rounding::from<8, 7>(number)) {}
    bfloat16(double number) : value(rounding::from<8, 7>(number)) {}
    template <typename Integer, typename = typename std::enable_if<std::is_integral<Integer>::value>::type>
    bfloat16(Integer number) : value(rounding::from<8, 7>(number)) {}

    static bfloat16 from_bits(uint16_t bits) {
        bfloat16 half;
        half.value = bits;
        return half;
    }

    operator float() const {
        const uint32_t bits = static_cast<uint32_t>(value) << 16;
        float number;
        std::memcpy(&number, &bits, sizeof number);
        return number;
    }
};

}  // namespace op

#endif  // __cplusplus

#endif  // GRADUS_ACLNN_OPDEV_BFLOAT16_H
