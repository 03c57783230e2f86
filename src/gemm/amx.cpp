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
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,amx-tile,amx-bf16")
#include "gemm/tiles_amx.h"

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

// Sums in tiles 0 to 3, A in 4 and 5, B in 6 and 7. The intrinsics want the numbers literally, and do not tell the
// compiler that they read memory.
class Instruction {
  public:
    Instruction() {
        __asm__ volatile("" ::: "memory");
        _tile_loadconfig(&kConfiguration);
    }
    ~Instruction() { _tile_release(); }
    Instruction(const Instruction&) = delete;
    Instruction& operator=(const Instruction&) = delete;

    void zero() {
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
};

}  // namespace

const Path& path_amx(DType dtype) {
    static constexpr Path of_f16 = tile_path<Instruction, f16>("amx, f16 in two parts");
    static constexpr Path of_bf16 = tile_path<Instruction, bf16>("amx");
    return dtype == DType::f16 ? of_f16 : of_bf16;
}

}  // namespace gradus::gemm

#pragma GCC pop_options

#endif
