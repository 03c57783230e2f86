// The formulas on rows of scores, and the small things that rows of 16-bit numbers need. One instruction set each.
#pragma once

#include <span>

#include "base/cpu.h"
#include "base/dtype.h"

namespace gradus::nsa_selected_attention {

// The keys that a row sees of one block: columns [at, at + n) of its scores.
struct Stretch {
    int64_t at, n;
};
using Stretches = std::span<const Stretch>;

struct Softmax {
    float max, sum;
};
struct Sums {
    float p, p_dp;  // Σ P and Σ P·dP
};

struct RowFunctions {
    // e = exp(scale·s − max) in the operands' type, at the columns of s; max is NaN if a score is.
    Softmax (*softmax)(const float* s, Stretches stretches, float scale, void* e) noexcept;
    // s becomes P = exp(scale·s − max)/sum.
    Sums (*probabilities)(float* s, const float* dp, Stretches stretches, float scale, Softmax given) noexcept;
    // dS = P·(dP − delta), and P itself if it is wanted, in the operands' type.
    void (*gradient)(const float* p, const float* dp, Stretches stretches, float delta, void* ds,
                     void* p_half) noexcept;
    float (*dot)(const void* a, const void* b, int64_t n) noexcept;
    // total += c, or total = c if nothing is there yet.
    void (*add)(double* total, const float* c, int64_t n, bool begun) noexcept;
    // total·factor in the operands' type.
    void (*finish)(const double* total, int64_t n, double factor, void* to) noexcept;
};
RowFunctions choose_rows(DType dtype, Isa cap);

}  // namespace gradus::nsa_selected_attention
