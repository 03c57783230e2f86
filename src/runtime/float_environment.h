// Rounding to nearest and gradual underflow while a task runs: results must not depend on what the program has set for
// its own thread (flush-to-zero, a rounding mode), which a task may borrow.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <cstdint>

namespace gradus {

class DefaultFloatEnvironment {
  public:
    DefaultFloatEnvironment() : before_(read()) {
        if (before_ != kDefault) write(kDefault);
    }
    ~DefaultFloatEnvironment() {
        if (before_ != kDefault) write(before_);
    }
    DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
    DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

  private:
#if defined(__x86_64__)
    static constexpr uint64_t kDefault = 0x1F80, kSticky = 0x3F;  // all exceptions masked, none raised
    static uint64_t read() { return _mm_getcsr() & ~kSticky; }
    static void write(uint64_t word) { _mm_setcsr(static_cast<unsigned>(word)); }
#elif defined(__aarch64__)
    static constexpr uint64_t kDefault = 0;
    static uint64_t read() {
        uint64_t word;
        __asm__ volatile("mrs %0, fpcr" : "=r"(word));
        return word;
    }
    static void write(uint64_t word) { __asm__ volatile("msr fpcr, %0" : : "r"(word)); }
#else
    static constexpr uint64_t kDefault = 0;
    static uint64_t read() { return kDefault; }
    static void write(uint64_t) {}
#endif
    uint64_t before_;
};

}  // namespace gradus
