// Which instruction set a kernel is planned with. Include after HWY_EXPORT's file scope is set up (highway.h).
#pragma once

#include <hwy/highway.h>

#include <atomic>

#include "base/cpu.h"

namespace gradus {

// Our word for one of Highway's targets; HWY_TARGET while its file is compiled for each.
constexpr Isa isa_of_target(int64_t target) {
#if HWY_ARCH_X86
    return target < HWY_AVX2 ? Isa::avx512 : target == HWY_AVX2 ? Isa::avx2 : Isa::scalar;
#elif HWY_ARCH_ARM
    return (target & (HWY_SCALAR | HWY_EMU128)) != 0 ? Isa::scalar : Isa::neon;
#else
    static_cast<void>(target);
    return Isa::scalar;
#endif
}

// What Highway supports here: asking executes CPUID, 18 µs behind a hypervisor. 0: not asked yet. Threads that come at
// once all find the same; no guard that a fork could leave shut.
inline constinit std::atomic<int64_t> supported_targets{0};

// Highway's targets within a cap of max_isa; lower bits are better targets.
inline int64_t targets_within(Isa isa) {
    int64_t targets = supported_targets.load(std::memory_order_relaxed);
    // Highway's NEON wants AES besides, which small cores lack and no kernel uses; what the compiler takes for granted
    // is there.
    if (targets == 0)
        supported_targets.store(targets = hwy::SupportedTargets() | HWY_STATIC_TARGET, std::memory_order_relaxed);
#if HWY_ARCH_X86
    if (isa < Isa::avx512) targets &= ~(HWY_AVX2 - 1);
    if (isa < Isa::avx2) targets &= HWY_SCALAR | HWY_EMU128;
#elif HWY_ARCH_ARM
    if (isa < Isa::neon) targets &= HWY_SCALAR | HWY_EMU128;
#endif
    return targets;
}

}  // namespace gradus

// The entry of a HWY_EXPORT table for a cap. A chosen target of our own: Highway's is the whole process's.
#if (HWY_TARGETS & (HWY_TARGETS - 1)) == 0
#define GRADUS_CHOOSE(FUNCTION, ISA) (HWY_DISPATCH_TABLE(FUNCTION)[0])
#else
#define GRADUS_CHOOSE(FUNCTION, ISA)                            \
    ([](::gradus::Isa isa) {                                    \
        hwy::ChosenTarget chosen;                               \
        chosen.Update(::gradus::targets_within(isa));           \
        return HWY_DISPATCH_TABLE(FUNCTION)[chosen.GetIndex()]; \
    }(ISA))
#endif
