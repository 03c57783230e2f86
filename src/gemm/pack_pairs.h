// Packing for the bf16 instructions: tiles of 16-bit elements, bf16 as it is, f16 as two planes of bf16.
#pragma once

#include <bit>
#include <cstring>
#include <type_traits>

#include "gemm/pack.h"

namespace gradus::gemm {
// Without linkage: each file compiles it for its own instruction set, and the linker must not mix them.
namespace {

using Element16 [[gnu::aligned(1), gnu::may_alias]] = uint16_t;  // a tensor may begin at an odd address

// 16 rows and 32 k of a matrix; behind `rows` and `k` there are zeros.
inline constexpr int64_t kTile = 16, kTileK = 32, kTileElements = kTile * kTileK;
struct TileSource {
    const Element16* from;
    int64_t row_stride, k_stride, rows, k;
};

// An f16 number is exactly the sum of two bf16 numbers: itself rounded to 8 bits, and a rest of at most 4. Infinities
// and NaN stay in the first. No branches, so that compilers make vectors of it.
struct Split {
    uint16_t high, low;
};
inline Split split(uint16_t half) {
    const uint32_t magnitude = half & 0x7FFFu;
    const bool special = magnitude >= 0x7C00u;
    // f16's bits moved up are an f32 whose exponent is 112 too small; the product with 2^112 is exact, subnormals
    // included
    const float value = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
    // a NaN's first bit is set: the others may be among those that are cut off
    const uint32_t bits = special ? 0x7F800000u | (magnitude & 0x3FFu) << 13 | (magnitude > 0x7C00u ? 0x00400000u : 0u)
                                  : std::bit_cast<uint32_t>(value);
    const uint32_t high = special ? bits : (bits + 0x7FFFu + (bits >> 16 & 1u)) & 0xFFFF0000u;
    const float rest = special ? 0.0f : value - std::bit_cast<float>(high);
    const uint32_t sign = (half & 0x8000u) << 16;
    return {static_cast<uint16_t>((high | sign) >> 16),
            static_cast<uint16_t>((std::bit_cast<uint32_t>(rest) ^ sign) >> 16)};
}

}  // namespace
}  // namespace gradus::gemm
