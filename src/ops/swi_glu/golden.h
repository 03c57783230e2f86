// The specification: plain loops in f64, elements as given, one rounding at the end. Shares nothing with kernel.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/golden.h"

namespace gradus::swi_glu {

// Mistakes that golden makes on purpose; bench.cpp has their names.
enum { kNoGate = 1, kNoFactor, kNoSlope, kOnlySlope, kParenthesis, kPlusSlope, kTimesGate };

// The same pieces as in kernel.h.
void golden_forward(const GoldenTypes& types, const void* a, const void* b, std::byte* y, int64_t n) noexcept;
void golden_grad(const GoldenTypes& types, const void* g, const void* a, const void* b, std::byte* out_a,
                 std::byte* out_b, int64_t n) noexcept;

}  // namespace gradus::swi_glu
