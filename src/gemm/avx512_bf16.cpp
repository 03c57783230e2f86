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
        if (kRows == kDotRows && source.k_stride == 1 && source.k == kTileK) return pack_six_rows(source, to);
        constexpr auto kWords = static_cast<__mmask16>((1u << std::min(kRows, kTile)) - 1);
        const Vectors v = as_pairs(source);
        for (int64_t pair = 0; pair < ceil_div(source.k, 2); ++pair)
            _mm512_mask_storeu_epi32(to + pair * kRows * 2, kWords, v.at[pair]);
    }

    // Of rows side by side: one strip, or eight of six rows; `strip` is how far it is from one to the next.
    template <int64_t kRows>
    static void pack_side_by_side(const TileSource& source, uint16_t* to, int64_t strip) {
        const auto mask = ~uint64_t{0} >> (64 - source.rows);
        for (int64_t k = 0; k < source.k; k += 2, to += 2 * kRows) {
            const Element16* const x = source.from + k * source.k_stride;
            const bool two = k + 1 < source.k;
            const Words low = pairs(x, two, source.k_stride, static_cast<__mmask32>(mask));
            const Words high = pairs(x + 32, two, source.k_stride, static_cast<__mmask32>(mask >> 32));
            kRows == kDotRows ? put_strips(low.first, low.second, high.first, to, strip, ceil_div(source.rows, kRows))
                              : put_strip(low, high, to);
        }
    }

  private:
    using Words = std::pair<__m512i, __m512i>;  // 32 of 32 bits

    // 32 elements at x, each with the one a stride behind it.
    static Words pairs(const Element16* x, bool two, int64_t stride, __mmask32 mask) {
        const __m512i even = _mm512_maskz_loadu_epi16(mask, x);
        const __m512i odd = two ? _mm512_maskz_loadu_epi16(mask, x + stride) : _mm512_setzero_si512();
        const __m512i words = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        const __m512i order = _mm512_or_si512(words, _mm512_slli_epi32(words, 16));
        const __m512i first = _mm512_add_epi16(order, _mm512_set1_epi32(32 << 16));
        const __m512i second = _mm512_add_epi16(first, _mm512_set1_epi16(16));
        return {_mm512_permutex2var_epi16(even, first, odd), _mm512_permutex2var_epi16(even, second, odd)};
    }
    static void put_strip(const Words& low, const Words& high, uint16_t* to) {
        _mm512_storeu_si512(to, low.first), _mm512_storeu_si512(to + 32, low.second);
        _mm512_storeu_si512(to + 64, high.first), _mm512_storeu_si512(to + 96, high.second);
    }
    // 48 pairs, six to a strip.
    static void put_strips(__m512i a, __m512i b, __m512i c, uint16_t* to, int64_t strip, int64_t strips) {
        const auto put = [&](int i, __m512i six) {
            if (i < strips) _mm256_mask_storeu_epi32(to + i * strip, 0x3F, _mm512_castsi512_si256(six));
        };
        put(0, a), put(1, _mm512_alignr_epi32(a, a, 6)), put(2, _mm512_alignr_epi32(b, a, 12));
        put(3, _mm512_alignr_epi32(b, b, 2)), put(4, _mm512_alignr_epi32(b, b, 8));
        put(5, _mm512_alignr_epi32(c, b, 14));
        put(6, _mm512_alignr_epi32(c, c, 4)), put(7, _mm512_alignr_epi32(c, c, 10));
    }

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
