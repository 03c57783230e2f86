// tdpbf16ps: 16 × 16 sums of 32 products of bf16 in one instruction. Rounds to nearest even, takes subnormal numbers as
// zero. Chosen only where the CPU has it and the kernel gave this process the tiles (base/cpu.h).
#include "gemm/gemm.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "gemm/pack.h"

// Everything above is compiled for any CPU; what follows, for those that the path is chosen on.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,amx-tile,amx-bf16"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,amx-tile,amx-bf16")
#endif
#include "gemm/tiles_amx.h"
#include "gemm/vectors_avx512.h"

namespace gradus::gemm {
namespace {

// Palette 1, which is architectural: eight tiles of 16 rows of 64 bytes. CPUID's own words on it are zero behind some
// hypervisors, and are not asked.
struct alignas(64) Configuration {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};
constexpr Configuration kConfiguration = {1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

// split() of pack_pairs.h, 16 at a time.
struct SplitVector {
    __m256i high, low;
};
inline SplitVector split(__m256i half) {
    const __m512 value = _mm512_cvtph_ps(half);
    const __m512i bits = _mm512_castps_si512(value), one = _mm512_set1_epi32(1);
    const __mmask16 finite =
        _mm512_cmpneq_epi32_mask(_mm512_and_si512(bits, _mm512_set1_epi32(0x7F800000)), _mm512_set1_epi32(0x7F800000));
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), one);
    const __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    const __m512i high =
        _mm512_and_si512(_mm512_mask_mov_epi32(bits, finite, up), _mm512_set1_epi32(static_cast<int>(0xFFFF0000u)));
    const __m512 low = _mm512_maskz_sub_ps(finite, value, _mm512_castsi512_ps(high));
    return {_mm512_cvtepi32_epi16(_mm512_srli_epi32(high, 16)),
            _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(low), 16))};
}
inline Vectors take_low(Vectors& v) {
    Vectors low;
    for (int i = 0; i < kTile; ++i) {
        const SplitVector x = split(_mm512_castsi512_si256(v.at[i])), y = split(_mm512_extracti64x4_epi64(v.at[i], 1));
        v.at[i] = _mm512_inserti64x4(_mm512_castsi256_si512(x.high), y.high, 1);
        low.at[i] = _mm512_inserti64x4(_mm512_castsi256_si512(x.low), y.low, 1);
    }
    return low;
}

inline void store_vectors(const Vectors& v, uint16_t* to) {
    for (int i = 0; i < kTile; ++i) _mm512_storeu_si512(to + i * kTileK, v.at[i]);
}

// Sums in tiles 0 to 3, A in 4 and 5, B in 6 and 7. The intrinsics want the numbers literally, and do not tell the
// compiler that they read memory.
class Instruction {
  public:
    template <typename T>
    static void pack(const TileSource& source, bool is_a, uint16_t* first, uint16_t* second);

    static void enter() noexcept { _tile_loadconfig(&kConfiguration); }
    static void leave() noexcept { _tile_release(); }

    void zero() {
        __asm__ volatile("" ::: "memory");
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    void load_a0(const uint16_t* from) { _tile_loadd(4, from, 64); }
    void load_a1(const uint16_t* from) { _tile_loadd(5, from, 64); }
    void load_b0(const uint16_t* from) { _tile_loadd(6, from, 64); }
    void load_b1(const uint16_t* from) { _tile_loadd(7, from, 64); }
    void dot_00() { _tile_dpbf16ps(0, 4, 6); }
    void dot_01() { _tile_dpbf16ps(1, 4, 7); }
    void dot_10() { _tile_dpbf16ps(2, 5, 6); }
    void dot_11() { _tile_dpbf16ps(3, 5, 7); }
    void store(float* sums) {
        constexpr int64_t kStride = 2 * kTile * sizeof(float);
        _tile_stored(0, sums, kStride);
        _tile_stored(1, sums + kTile, kStride);
        _tile_stored(2, sums + 2 * kTile * kTile, kStride);
        _tile_stored(3, sums + 2 * kTile * kTile + kTile, kStride);
        __asm__ volatile("" ::: "memory");
    }

    // Of a row of sums: whether all are finite; and into C.
    template <int64_t kColumns>
    static bool finite(const float* sums) {
        const __m512i top = _mm512_set1_epi32(0x7F800000);
        __mmask16 special = 0;
        for (int64_t j = 0; j < kColumns; j += kTile)
            special |= _mm512_cmpeq_epi32_mask(_mm512_and_si512(_mm512_loadu_si512(sums + j), top), top);
        return special == 0;
    }
    template <int64_t kColumns>
    static void put(const float* sums, float* c, bool add) {
        for (int64_t j = 0; j < kColumns; j += kTile) {
            const __m512 x = _mm512_loadu_ps(sums + j);
            _mm512_storeu_ps(c + j, add ? _mm512_add_ps(_mm512_loadu_ps(c + j), x) : x);
        }
    }
};

template <typename T>
void Instruction::pack(const TileSource& source, bool is_a, uint16_t* first, uint16_t* second) {
    Vectors v = is_a ? as_rows(source) : as_pairs(source);
    if constexpr (std::is_same_v<T, f16>) store_vectors(take_low(v), second);
    store_vectors(v, first);
}

}  // namespace

const Path& path_amx(DType dtype) {
    static constexpr Path of_f16 = tile_path<Instruction, f16>("amx, f16 in two parts");
    static constexpr Path of_bf16 = tile_path<Instruction, bf16>("amx");
    return dtype == DType::f16 ? of_f16 : of_bf16;
}

}  // namespace gradus::gemm

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
