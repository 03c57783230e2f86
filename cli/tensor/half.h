// The 16-bit types as IEEE has them. The library's aclFloat16ToFloat saturates as CANN's does: Inf and NaN would be
// lost.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace gradus::cli {

inline float from_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

inline float from_f16(uint16_t bits) {
    // the exponent moves by a multiplication, which also normalises subnormals
    uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fffU) << 13;
    if (magnitude >= 0x0f800000U)
        magnitude |= 0x7f800000U;
    else
        magnitude = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112F);
    return std::bit_cast<float>(magnitude | static_cast<uint32_t>(bits & 0x8000U) << 16);
}

// Of a number that f16 holds exactly, or one beyond its range.
inline uint16_t to_f16(double exact) {
    const uint16_t sign = std::signbit(exact) ? 0x8000 : 0;
    const double magnitude = std::abs(exact);
    if (std::isnan(exact)) return sign | 0x7e00;
    if (magnitude >= 0x1p16) return sign | 0x7c00;
    const auto moved = std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-112F);
    return static_cast<uint16_t>(sign | moved >> 13);
}

}  // namespace gradus::cli
