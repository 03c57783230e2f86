#include "base/cpu.h"

#include <atomic>
#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace gradus {
namespace {

constexpr Isa kAll[] = {Isa::scalar, Isa::neon, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx};

#if defined(__x86_64__)

struct Regs {
    uint32_t a, b, c, d;
};

Regs cpuid(uint32_t leaf, uint32_t subleaf) {
    Regs r{};
    if (!__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d)) return {};
    return r;
}

uint64_t xgetbv0() {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return static_cast<uint64_t>(high) << 32 | low;
}

// The kernel hands out the 8 KiB of tile state only to processes that ask; palette 1 itself is architectural.
bool ask_for_tiles() {
    constexpr long kRequestPermission = 0x1023, kTileData = 18;
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

uint32_t detect() {
    const Regs one = cpuid(1, 0), seven = cpuid(7, 0), seven_one = cpuid(7, 1);
    const auto bit = [](uint32_t reg, int n) { return (reg >> n & 1) != 0; };
    uint32_t found = 1u << static_cast<int>(Isa::scalar);
    if (!bit(one.c, 27)) return found;  // OSXSAVE: no way to ask what the kernel saves
    const uint64_t state = xgetbv0();
    const auto saves = [state](uint64_t mask) { return (state & mask) == mask; };
    const auto add = [&found](Isa isa) { found |= 1u << static_cast<int>(isa); };
    // fma, f16c, bmi2 come with every AVX2 machine but are used, so they are asked for
    if (!(saves(0x6) && bit(seven.b, 5) && bit(one.c, 12) && bit(one.c, 29) && bit(seven.b, 8))) return found;
    add(Isa::avx2);
    // F, DQ, BW, VL
    if (!(saves(0xE6) && bit(seven.b, 16) && bit(seven.b, 17) && bit(seven.b, 30) && bit(seven.b, 31))) return found;
    add(Isa::avx512);
    if (bit(seven_one.a, 5)) add(Isa::avx512_bf16);
    if (saves(0x60000) && bit(seven.d, 24) && bit(seven.d, 22) && ask_for_tiles()) add(Isa::amx);
    return found;
}

bool ask_whether_intel() {
    const Regs r = cpuid(0, 0);  // "GenuineIntel" in b, d, c
    return r.b == 0x756E6547 && r.d == 0x49656E69 && r.c == 0x6C65746E;
}

#elif defined(__aarch64__)

bool ask_whether_intel() { return false; }

// NEON is part of every AArch64.
uint32_t detect() { return 1u << static_cast<int>(Isa::scalar) | 1u << static_cast<int>(Isa::neon); }

#else

bool ask_whether_intel() { return false; }

uint32_t detect() { return 1u << static_cast<int>(Isa::scalar); }

#endif

constexpr uint32_t kIntel = 1u << 31;  // beside the sets

// 0: not detected yet. Threads that come at once all find the same; no guard that a fork could leave shut.
constinit std::atomic<uint32_t> detected{0};
uint32_t found() {
    uint32_t bits = detected.load(std::memory_order_relaxed);
    if (bits == 0) detected.store(bits = detect() | (ask_whether_intel() ? kIntel : 0), std::memory_order_relaxed);
    return bits;
}

}  // namespace

bool cpu_has(Isa isa) { return (found() >> static_cast<int>(isa) & 1) != 0; }
bool cpu_is_intel() { return (found() & kIntel) != 0; }

Isa cpu_best_isa() { return cpu_isas().back(); }

std::vector<Isa> cpu_isas() {
    std::vector<Isa> isas;
    for (Isa isa : kAll)
        if (cpu_has(isa)) isas.push_back(isa);
    return isas;
}

}  // namespace gradus
