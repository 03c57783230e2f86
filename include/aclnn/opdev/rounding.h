// How fp16_t and bfloat16 round: once, to nearest even, from whatever they are made of.
#ifndef GRADUS_ACLNN_OPDEV_ROUNDING_H
#define GRADUS_ACLNN_OPDEV_ROUNDING_H

#ifdef __cplusplus

#include <stdint.h>
#include <cstring>
#include <type_traits>

namespace op {
namespace rounding {

// The IEEE number of `FromExp` exponent and `FromMan` mantissa bits in the shorter format of 16 bits. Works on bits, so
// that the payload of a NaN survives, signalling or not.
template <int FromExp, int FromMan, int ToExp, int ToMan>
uint16_t narrow(uint64_t bits) {
    static_assert(1 + ToExp + ToMan == 16 && FromMan > ToMan, "narrows to 16 bits");
    const uint64_t sign = (bits >> (FromExp + FromMan)) << 15;
    const int field = static_cast<int>((bits >> FromMan) & ((UINT64_C(1) << FromExp) - 1));
    const uint64_t mantissa = bits & ((UINT64_C(1) << FromMan) - 1);
    const uint64_t infinity = ((UINT64_C(1) << ToExp) - 1) << ToMan;
    if (field == (1 << FromExp) - 1) {
        if (mantissa == 0) return static_cast<uint16_t>(sign | infinity);
        uint64_t payload = mantissa >> (FromMan - ToMan);
        if (payload == 0) payload = UINT64_C(1) << (ToMan - 1);  // must not turn into an infinity
        return static_cast<uint16_t>(sign | infinity | payload);
    }
    const uint64_t significand = field == 0 ? mantissa : mantissa | UINT64_C(1) << FromMan;
    int exponent = (field == 0 ? 1 : field) - (1 << (FromExp - 1)) + (1 << (ToExp - 1));
    int shift = FromMan - ToMan;
    if (exponent < 1) {  // subnormal in the target: fewer bits of the significand stay
        shift += 1 - exponent;
        exponent = 1;
    }
    if (shift > FromMan + 1) return static_cast<uint16_t>(sign);  // below half of the smallest subnormal
    const uint64_t half = UINT64_C(1) << (shift - 1);
    const uint64_t rest = significand & (2 * half - 1);
    uint64_t kept = significand >> shift;
    if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
    // Added, not or-ed: the implicit bit, and a carry out of the mantissa, step the exponent.
    const uint64_t magnitude = (static_cast<uint64_t>(exponent - 1) << ToMan) + kept;
    return static_cast<uint16_t>(sign | (magnitude < infinity ? magnitude : infinity));
}

template <int ToExp, int ToMan>
uint16_t from(float number) {
    uint32_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    return narrow<8, 23, ToExp, ToMan>(bits);
}

template <int ToExp, int ToMan>
uint16_t from(double number) {
    uint64_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    return narrow<11, 52, ToExp, ToMan>(bits);
}

// An integer beyond 2^53 does not fit a double. What would be cut off is folded into one lowest bit, which is all that
// the rounding to 16 bits can tell of it.
template <int ToExp, int ToMan, typename Integer>
typename std::enable_if<std::is_integral<Integer>::value, uint16_t>::type from(Integer number) {
    const bool negative = number < Integer(1) && number != Integer(0);
    uint64_t magnitude = static_cast<uint64_t>(number);
    if (negative) magnitude = 0 - magnitude;
    if (magnitude >> 53 != 0) magnitude = (magnitude >> 11 | ((magnitude & 0x7ff) != 0 ? 1 : 0)) << 11;
    const double exact = static_cast<double>(magnitude);
    return from<ToExp, ToMan>(negative ? -exact : exact);
}

}  // namespace rounding
}  // namespace op

#endif  // __cplusplus

#endif  // GRADUS_ACLNN_OPDEV_ROUNDING_H
