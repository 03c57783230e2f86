// Packing for the bf16 instructions: 16-bit elements in groups of k, bf16 as it is, f16 as two planes of bf16.
#pragma once

#include <bit>
#include <cstring>
#include <type_traits>

#include "gemm/pack.h"

namespace gradus::gemm {
// Without linkage: each file compiles it for its own instruction set, and the linker must not mix them.
namespace {

using Element16 [[gnu::aligned(1), gnu::may_alias]] = uint16_t;  // a tensor may begin at an odd address

// to[k / kGroup][row][k % kGroup] from a matrix of 16-bit elements. Whole groups are copied where k has unit stride;
// where the rows have it, neighbouring rows are read together.
template <int64_t kRows, int64_t kGroup>
inline void place(const Element16* from, int64_t row_stride, int64_t k_stride, int64_t rows, int64_t k, int64_t padded,
                  uint16_t* to) {
    const int64_t groups = (k + kGroup - 1) / kGroup;
    if (rows < kRows || padded > k) std::memset(to, 0, static_cast<size_t>(padded * kRows) * sizeof(uint16_t));
    if (row_stride == 1 && k_stride != 1) {
        for (int64_t p = 0; p < k; ++p) {
            uint16_t* const at = to + p / kGroup * kRows * kGroup + p % kGroup;
            for (int64_t i = 0; i < rows; ++i) at[i * kGroup] = from[p * k_stride + i];
        }
        return;
    }
    for (int64_t i = 0; i < rows; ++i) {
        const Element16* const row = from + i * row_stride;
        for (int64_t group = 0; group < groups; ++group) {
            uint16_t* const at = to + (group * kRows + i) * kGroup;
            const int64_t n = std::min(kGroup, k - group * kGroup);
            if (k_stride == 1 && n == kGroup)
                std::memcpy(at, row + group * kGroup, kGroup * sizeof(uint16_t));
            else
                for (int64_t p = 0; p < n; ++p) at[p] = row[(group * kGroup + p) * k_stride];
        }
    }
}

template <int64_t kRows, int64_t kGroup>
inline void pack_bf16(const StripRun& run) {
    place<kRows, kGroup>(static_cast<const Element16*>(run.source.data), run.source.row_stride,
                         run.source.column_stride, run.rows, run.k, run.padded,
                         reinterpret_cast<uint16_t*>(run.strip) + run.first_k * kRows);
}

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
