// The IEEE half (5 exponent bits, 10 of mantissa) as a C++ value.
#ifndef GRADUS_ACLNN_OPDEV_FP16_T_H
#define GRADUS_ACLNN_OPDEV_FP16_T_H

#ifdef __cplusplus

#include "rounding.h"

namespace op {

// Made from any number by one rounding to nearest even, overflow to infinity; turns into float without loss, and by
// that computes, compares and prints as one.
struct fp16_t {
    uint16_t val;

    fp16_t() : val(0) {}
    fp16_t(float number) : val(rounding::from<5, 10>(number)) {}
    fp16_t(double number) : val(rounding::from<5, 10>(number)) {}
    template <typename Integer, typename = typename std::enable_if<std::is_integral<Integer>::value>::type>
    fp16_t(Integer number) : val(rounding::from<5, 10>(number)) {}

    static fp16_t from_bits(uint16_t bits) {
        fp16_t half;
        half.val = bits;
        return half;
    }

    operator float() const {
        const uint32_t sign = static_cast<uint32_t>(val >> 15) << 31;
        const uint32_t exponent = (val >> 10) & 0x1fU;
        const uint32_t mantissa = val & 0x3ffU;
        uint32_t bits = 0;
        if (exponent == 0) {
            const float magnitude = static_cast<float>(mantissa) * (1.0f / (1 << 24));
            std::memcpy(&bits, &magnitude, sizeof bits);
        } else {
            const uint32_t wide = exponent == 0x1f ? 0xffU : exponent - 15 + 127;
            bits = wide << 23 | mantissa << 13;
        }
        bits |= sign;
        float number;
        std::memcpy(&number, &bits, sizeof number);
        return number;
    }
};

}  // namespace op

#endif  // __cplusplus

#endif  // GRADUS_ACLNN_OPDEV_FP16_T_H
