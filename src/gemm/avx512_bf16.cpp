// vdpbf16ps: sums of products of bf16 pairs, at twice the rate of f32 FMA on Zen 4. Rounds to nearest even after each
// of the two additions, and takes subnormal bf16 numbers as zero.
#include "gemm/gemm.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "gemm/pack.h"

// Everything above is compiled for any CPU; what follows, for those that the path is chosen on.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")
#endif
#include "gemm/dot_bf16.h"

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
