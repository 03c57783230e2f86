// acl: conversions and sizes.
#include <bit>
#include <cmath>

#include "base/dtype.h"
#include "runtime/api.h"

using namespace gradus;

namespace {

// As the device does, every exponent is a number's: Inf reads as 2^16, and NaNs as the finite numbers above it.
float to_float(aclFloat16 value) {
    const int exponent = value >> 10 & 0x1F;
    const float fraction = static_cast<float>(value & 0x3FF);
    const float magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024.0F, exponent - 25);
    return value >> 15 != 0 ? -magnitude : magnitude;
}

aclFloat16 to_half(float value) {
    constexpr uint32_t kLargest = 0x7BFF;  // 65504
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
    const int exponent = static_cast<int>(magnitude >> 23) - 127;
    // below 2^-14 the halves are equally spaced, 2^-24 apart; at 2^-25 and less, nothing but zero is near
    const int dropped = exponent < -14 ? -14 - exponent + 13 : 13;
    uint32_t half = 0;
    if (exponent >= 16) {
        half = kLargest;
    } else if (dropped < 32) {
        const uint32_t mantissa = (magnitude & 0x7FFFFF) | 0x800000;
        half = mantissa >> dropped;
        const uint32_t rest = mantissa & ((1U << dropped) - 1), middle = 1U << (dropped - 1);
        if (rest > middle || (rest == middle && (half & 1) != 0)) ++half;
        if (exponent >= -14) half += static_cast<uint32_t>(exponent + 14) << 10;  // the implicit bit adds one more
        if (half > kLargest) half = kLargest;
    }
    return static_cast<aclFloat16>(sign | half);
}

}  // namespace

extern "C" {

float aclFloat16ToFloat(aclFloat16 value) {
    return guarded_value(__func__, kAcl, 0.0F, [&]() -> Result<float> { return to_float(value); });
}

aclFloat16 aclFloatToFloat16(float value) {
    return guarded_value(__func__, kAcl, aclFloat16{0}, [&]() -> Result<aclFloat16> { return to_half(value); });
}

size_t aclDataTypeSize(aclDataType dataType) {
    return guarded_value(__func__, kAcl, size_t{0}, [&]() -> Result<size_t> {
        return static_cast<size_t>(dtype_size(static_cast<DType>(dataType)));
    });
}

}  // extern "C"
