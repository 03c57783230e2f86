// The specification: plain loops in f64, elements as given, one rounding at the end. Shares nothing with kernel.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace gradus::swi_glu {

// The same pieces as in kernel.h.
void golden_forward(DType dtype, const void* a, const void* b, void* y, int64_t n) noexcept;
void golden_grad(DType dtype, const void* g, const void* a, const void* b, void* out_a, void* out_b,
                 int64_t n) noexcept;

}  // namespace gradus::swi_glu
