// The floating-point mode of this thread, as programs set it: bits of MXCSR or FPCR.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace gradus::testing {

#if defined(__x86_64__)
inline constexpr uint64_t kFlushToZero = 0x8040;                // results, and operands
inline uint64_t float_mode() { return _mm_getcsr() & ~0x3FU; }  // without the flags of what has happened
inline void set_float_mode(uint64_t bits) { _mm_setcsr(static_cast<unsigned>(bits)); }
#elif defined(__aarch64__)
inline constexpr uint64_t kFlushToZero = 1 << 24;
inline uint64_t float_mode() {
    uint64_t bits;
    __asm__ volatile("mrs %0, fpcr" : "=r"(bits));
    return bits;
}
inline void set_float_mode(uint64_t bits) { __asm__ volatile("msr fpcr, %0" : : "r"(bits)); }
#endif

}  // namespace gradus::testing
