// The formula on dense pieces of n elements.
#pragma once

#include <cstdint>

#include "base/cpu.h"
#include "base/dtype.h"

namespace gradus::swi_glu {

// y = a·σ(a)·b.   a, b, y: [n]; past: results go past the cache
using ForwardKernel = void (*)(const void* a, const void* b, void* y, int64_t n, bool past) noexcept;
// out_a = g·b·σ(a)·(1 + a·σ(−a)), out_b = g·a·σ(a).   g, a, b, out_a, out_b: [n]; out_a may be a, out_b may be b
using GradKernel = void (*)(const void* g, const void* a, const void* b, void* out_a, void* out_b, int64_t n,
                            bool past) noexcept;

ForwardKernel choose_forward(DType dtype, Isa cap);
GradKernel choose_grad(DType dtype, Isa cap);

}  // namespace gradus::swi_glu
