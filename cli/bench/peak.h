// The peak of a matrix instruction: independent sums in registers, nothing from memory.
#pragma once

#include <cstdint>
#include <string>

namespace gradus::bench {

struct Peak {
    const char* name;
    double flops;                             // of one call of run
    uint64_t (*run)(int64_t calls) noexcept;  // on the calling thread; the result depends on all of it

    double flops_per_second(double seconds) const;  // measured for about that long on this thread
};

// The best that this CPU has for a product of bf16 or f16 within a cap in the words of max_isa: AMX, vdpbf16ps, f32
// FMA. f16 on AMX is a sum of four products of bf16 parts, so its peak is a quarter.
Peak matrix_peak(const std::string& isa, bool f16);
Peak fma_peak(const std::string& isa);

}  // namespace gradus::bench
