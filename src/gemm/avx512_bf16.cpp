// vdpbf16ps: sums of products of bf16 pairs, at twice the rate of f32 FMA on Zen 4. Rounds to nearest even after each
// of the two additions, and takes subnormal bf16 numbers as zero.
#include "gemm/gemm.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "gemm/pack.h"

// Everything above is compiled for any CPU; what follows, for those that the path is chosen on.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,prfchw"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,prfchw")
#endif
#include "gemm/dot_bf16.h"
#include "gemm/vectors_avx512.h"

namespace gradus::gemm {
namespace {

struct Instruction {
    using Sum = __m512;
    using Pairs = __m512bh;

    static Sum zero() { return _mm512_setzero_ps(); }
    static Pairs load_pairs(const uint16_t* from) { return reinterpret_cast<Pairs>(_mm512_loadu_si512(from)); }
    static Pairs broadcast_pair(const uint16_t* from) {
        int32_t pair;
        std::memcpy(&pair, from, sizeof pair);
        return reinterpret_cast<Pairs>(_mm512_set1_epi32(pair));
    }
    static Sum dot(Sum sum, Pairs x, Pairs y) { return _mm512_dpbf16_ps(sum, x, y); }
    static Sum load(const float* from) { return _mm512_loadu_ps(from); }
    static Sum add(Sum x, Sum y) { return _mm512_add_ps(x, y); }
    static void store(float* to, Sum x) { _mm512_storeu_ps(to, x); }

    // A tile's pairs of k, those of a strip's kRows rows side by side.
    template <int64_t kRows>
    static void pack(const TileSource& source, uint16_t* to) {
        if constexpr (kRows == kDotRows) {
            if (source.k_stride == 1 && source.k == kTileK) return pack_six_rows(source, to);
            if (source.k_stride != 1 && source.row_stride == 1) return pack_six_side_by_side(source, to);
        }
        constexpr auto kWords = static_cast<__mmask16>((1u << std::min(kRows, kTile)) - 1);
        const Vectors v = as_pairs(source);
        for (int64_t pair = 0; pair < ceil_div(source.k, 2); ++pair)
            _mm512_mask_storeu_epi32(to + pair * kRows * 2, kWords, v.at[pair]);
    }

  private:
    // The transposition of 6 × 16 words in a third of the steps of one of 16 × 16.
    static void pack_six_rows(const TileSource& source, uint16_t* to) {
        __m512i row[6];
        for (int i = 0; i < 6; ++i)
            row[i] = i < source.rows ? _mm512_loadu_si512(source.from + i * source.row_stride) : _mm512_setzero_si512();
        // of every four words, in a lane each: the first two and the last two of rows 0 and 1, 2 and 3, 4 and 5
        const auto first = [&](int i) { return _mm512_unpacklo_epi32(row[i], row[i + 1]); };
        const auto last = [&](int i) { return _mm512_unpackhi_epi32(row[i], row[i + 1]); };
        const auto four = [](__m512i x, __m512i y) {
            return std::pair(_mm512_unpacklo_epi64(x, y), _mm512_unpackhi_epi64(x, y));
        };
        const auto [w0, w1] = four(first(0), first(2));
        const auto [w2, w3] = four(last(0), last(2));
        const __m512i low = first(4), high = last(4);
        const __m512i parts[] = {w0, _mm512_unpacklo_epi64(low, w1),  _mm512_unpackhi_epi64(w1, low),
                                 w2, _mm512_unpacklo_epi64(high, w3), _mm512_unpackhi_epi64(w3, high)};
        const auto put = [&]<int kLane>(std::integral_constant<int, kLane>) {
            for (int i = 0; i < 6; ++i)
                _mm_storeu_si128(reinterpret_cast<__m128i*>(to + (6 * kLane + i) * 8),
                                 _mm512_extracti32x4_epi32(parts[i], kLane));
        };
        put(std::integral_constant<int, 0>()), put(std::integral_constant<int, 1>());
        put(std::integral_constant<int, 2>()), put(std::integral_constant<int, 3>());
    }
    static void pack_six_side_by_side(const TileSource& source, uint16_t* to) {
        const auto lanes = static_cast<__mmask8>((1u << source.rows) - 1);
        for (int64_t k = 0; k < source.k; k += 2, to += 2 * kDotRows) {
            const Element16* const from = source.from + k * source.k_stride;
            const __m128i x = _mm_maskz_loadu_epi16(lanes, from);
            const __m128i y =
                k + 1 < source.k ? _mm_maskz_loadu_epi16(lanes, from + source.k_stride) : _mm_setzero_si128();
            _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_unpacklo_epi16(x, y));
            _mm_storel_epi64(reinterpret_cast<__m128i*>(to + 8), _mm_unpackhi_epi16(x, y));
        }
    }
};

}  // namespace

const Path& path_avx512_bf16() {
    static constexpr Path path = dot_path<Instruction>("avx512_bf16");
    return path;
}

}  // namespace gradus::gemm

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
