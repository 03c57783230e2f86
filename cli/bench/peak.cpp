#include "cli/bench/peak.h"

#include <algorithm>
#include <cstring>
#include <ctime>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace gradus::bench {
namespace {

// Of this thread alone: others that are at work on the machine do not count.
double cpu_seconds() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

constexpr int kSteps = 64;  // of every sum in one call
// Sums and factors that are neither zero nor special, and stay so.
constexpr float kStart = 0.75f, kFactor = 0.9990234375f, kTerm = 0.0009765625f;

template <typename V>
__attribute__((always_inline)) inline uint64_t fold(const V& v) {
    uint64_t word = 0;
    std::memcpy(&word, &v, sizeof word);
    return word;
}

// Twelve sums hide the latency of an FMA on two pipes. The empty assembly keeps them in registers and in the loop.
#define GRADUS_PEAK_BODY(V, SET, STEP, KEEP)                                               \
    V s[12];                                                                               \
    for (int i = 0; i < 12; ++i) s[i] = SET(kStart + 0.001f * static_cast<float>(i));      \
    V x = SET(kFactor), y = SET(kTerm);                                                    \
    for (int64_t c = 0; c < calls; ++c)                                                    \
        for (int n = 0; n < kSteps; ++n) {                                                 \
            _Pragma("GCC unroll 12") for (int i = 0; i < 12; ++i) s[i] = STEP(s[i], x, y); \
            __asm__ volatile("" : KEEP(x));                                                \
        }                                                                                  \
    uint64_t sum = 0;                                                                      \
    for (int i = 0; i < 12; ++i) sum += fold(s[i]);                                        \
    return sum;

#if defined(__x86_64__)

__attribute__((target("avx2,fma"))) uint64_t run_avx2(int64_t calls) noexcept {
    GRADUS_PEAK_BODY(__m256, _mm256_set1_ps, _mm256_fmadd_ps, "+x")
}
__attribute__((target("avx512f"))) uint64_t run_avx512(int64_t calls) noexcept {
    GRADUS_PEAK_BODY(__m512, _mm512_set1_ps, _mm512_fmadd_ps, "+v")
}

// Sums of products of pairs: 2 · 16 lanes · 2 operations. Their latency is longer than an FMA's: with twelve sums Zen 5
// is at 0.93 of what it does.
constexpr int kPairSums = 24;
__attribute__((target("avx512f,avx512bf16"))) uint64_t run_bf16(int64_t calls) noexcept {
    __m512 s[kPairSums];
    for (int i = 0; i < kPairSums; ++i) s[i] = _mm512_set1_ps(kStart + static_cast<float>(i));
    __m512i x = _mm512_set1_epi32(0x3C803B90), y = _mm512_set1_epi32(0x3C81BC82);
    for (int64_t c = 0; c < calls; ++c)
        for (int n = 0; n < kSteps; ++n) {
            _Pragma("GCC unroll 24") for (int i = 0; i < kPairSums; ++i) s[i] =
                _mm512_dpbf16_ps(s[i], reinterpret_cast<__m512bh>(x), reinterpret_cast<__m512bh>(y));
            __asm__ volatile("" : "+v"(x));
        }
    uint64_t sum = 0;
    for (int i = 0; i < kPairSums; ++i) sum += fold(s[i]);
    return sum;
}

// Palette 1: eight tiles of 16 rows of 64 bytes. Four sums, two factors each way: 16·16·32 products an instruction.
struct alignas(64) TileConfig {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
__attribute__((target("amx-tile,amx-bf16"))) uint64_t run_amx(int64_t calls) noexcept {
    static const TileConfig config;
    _tile_loadconfig(&config);
    alignas(64) uint16_t factors[512];
    for (int i = 0; i < 512; ++i) factors[i] = static_cast<uint16_t>(0x3C00 + i % 97 + ((i & 1) << 15));
    __asm__ volatile("" : : "r"(factors) : "memory");  // the loads do not say that they read it
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, factors, 64);
    _tile_loadd(5, factors, 64);
    _tile_loadd(6, factors, 64);
    _tile_loadd(7, factors, 64);
    for (int64_t c = 0; c < calls; ++c)
        for (int n = 0; n < kSteps; ++n) {
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    alignas(64) float sum[256];
    _tile_stored(0, sum, 64);
    _tile_release();
    return fold(sum);
}

#elif defined(__aarch64__)

uint64_t run_neon(int64_t calls) noexcept {
    const auto step = [](float32x4_t s, float32x4_t x, float32x4_t y) { return vfmaq_f32(y, s, x); };
    GRADUS_PEAK_BODY(float32x4_t, vdupq_n_f32, step, "+w")
}

#endif

typedef float Four __attribute__((vector_size(16)));
uint64_t run_four(int64_t calls) noexcept {
    const auto set = [](float x) { return Four{x, x, x, x}; };
    const auto step = [](Four s, Four x, Four y) { return s * x + y; };
#if defined(__x86_64__)
    GRADUS_PEAK_BODY(Four, set, step, "+x")
#else
    GRADUS_PEAK_BODY(Four, set, step, "+w")
#endif
}

}  // namespace

double Peak::flops_per_second(double seconds) const {
    [[maybe_unused]] static uint64_t volatile sink;
    int64_t calls = 64;
    for (;;) {
        const double begin = cpu_seconds();
        sink = run(calls);
        const double took = cpu_seconds() - begin;
        if (took >= seconds / 2) return flops * static_cast<double>(calls) / took;
        calls = took > 0 ? static_cast<int64_t>(static_cast<double>(calls) * std::min(16.0, seconds / took)) + 1
                         : calls * 16;
    }
}

Peak fma_peak(const std::string& isa) {
#if defined(__x86_64__)
    if (isa == "amx" || isa.starts_with("avx512")) return {"f32 FMA in AVX-512", 12.0 * kSteps * 32, run_avx512};
    if (isa == "avx2") return {"f32 FMA in AVX2", 12.0 * kSteps * 16, run_avx2};
#elif defined(__aarch64__)
    if (isa == "neon") return {"f32 FMA in NEON", 12.0 * kSteps * 8, run_neon};
#endif
    return {"f32 in 128 bits", 12.0 * kSteps * 8, run_four};
}

Peak matrix_peak(const std::string& isa, [[maybe_unused]] bool f16) {
#if defined(__x86_64__)
    if (isa == "amx")
        return {f16 ? "tdpbf16ps / 4" : "tdpbf16ps", 4.0 * kSteps * 2 * 16 * 16 * 32 / (f16 ? 4 : 1), run_amx};
    if (isa == "avx512_bf16" && !f16) return {"vdpbf16ps", double{kPairSums} * kSteps * 64, run_bf16};
#endif
    return fma_peak(isa);
}

}  // namespace gradus::bench
