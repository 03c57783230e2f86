// 16 rows and 32 k of 16-bit elements in 16 vectors, as both bf16 instructions pack them: a vector is a row's 32 k, or
// a pair of k of 16 rows. Included where the code is compiled for AVX-512.
#pragma once

#include <immintrin.h>

#include "gemm/pack_pairs.h"

// GCC 12's own headers begin vectors with "undefined" ones.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace gradus::gemm {
// Without linkage: each file compiles it for its own instruction set, and the linker must not mix them.
namespace {

struct Vectors {
    __m512i at[kTile];
};

// Rows become pairs and pairs become rows: both are the transposition of 16 × 16 words of 32 bits.
inline void transpose(Vectors& v) {
    Vectors t;
    for (int i = 0; i < 16; i += 2) {
        t.at[i] = _mm512_unpacklo_epi32(v.at[i], v.at[i + 1]);
        t.at[i + 1] = _mm512_unpackhi_epi32(v.at[i], v.at[i + 1]);
    }
    for (int i = 0; i < 16; i += 4)
        for (int j = 0; j < 2; ++j) {
            v.at[i + 2 * j] = _mm512_unpacklo_epi64(t.at[i + j], t.at[i + j + 2]);
            v.at[i + 2 * j + 1] = _mm512_unpackhi_epi64(t.at[i + j], t.at[i + j + 2]);
        }
    for (int i = 0; i < 16; i += 8)
        for (int j = 0; j < 4; ++j) {
            t.at[i + j] = _mm512_shuffle_i32x4(v.at[i + j], v.at[i + j + 4], 0x88);
            t.at[i + j + 4] = _mm512_shuffle_i32x4(v.at[i + j], v.at[i + j + 4], 0xDD);
        }
    for (int j = 0; j < 8; ++j) {
        v.at[j] = _mm512_shuffle_i32x4(t.at[j], t.at[j + 8], 0x88);
        v.at[j + 8] = _mm512_shuffle_i32x4(t.at[j], t.at[j + 8], 0xDD);
    }
}

// Of a source whose k lie side by side. Rows are more streams than a CPU foresees: lines are asked for four tiles
// ahead.
inline Vectors rows_of(const TileSource& s) {
    Vectors v;
    const auto lanes = static_cast<__mmask32>((uint64_t{1} << s.k) - 1);
    for (int64_t i = 0; i < kTile; ++i) {
        v.at[i] = i < s.rows ? _mm512_maskz_loadu_epi16(lanes, s.from + i * s.row_stride) : _mm512_setzero_si512();
        if (i < s.rows) __builtin_prefetch(s.from + i * s.row_stride + 4 * kTileK);
    }
    return v;
}

// Of a source whose rows lie side by side.
inline Vectors pairs_of(const TileSource& s) {
    Vectors v;
    const auto lanes = static_cast<__mmask16>((1u << s.rows) - 1);
    const auto wide = [&](int64_t k) {
        if (k >= s.k) return _mm512_setzero_si512();
        return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, s.from + k * s.k_stride));
    };
    for (int64_t pair = 0; pair < kTile; ++pair)
        v.at[pair] = _mm512_or_si512(wide(2 * pair), _mm512_slli_epi32(wide(2 * pair + 1), 16));
    return v;
}

// Of any source; where neither lies side by side, one element at a time.
inline Vectors load(const TileSource& source, bool by_rows) {
    Vectors v;
    if (source.k_stride != 1 && source.row_stride == 1) {
        v = pairs_of(source);
        if (by_rows) transpose(v);
        return v;
    }
    uint16_t dense[kTileElements];
    TileSource from = source;
    if (source.k_stride != 1) {
        for (int64_t i = 0; i < source.rows; ++i)
            for (int64_t k = 0; k < source.k; ++k)
                dense[i * kTileK + k] =
                    load_element<uint16_t>(source.from + i * source.row_stride + k * source.k_stride);
        from.from = dense, from.row_stride = kTileK;
    }
    v = rows_of(from);
    if (!by_rows) transpose(v);
    return v;
}
inline Vectors as_rows(const TileSource& source) { return load(source, true); }
inline Vectors as_pairs(const TileSource& source) { return load(source, false); }

}  // namespace
}  // namespace gradus::gemm
