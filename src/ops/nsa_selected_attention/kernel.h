// The formulas on rows of scores, and the small things that rows of 16-bit numbers need. One instruction set each.
//
// Pointers need no alignment beyond their element's (16-bit ones none), nothing is read or written beyond what is said,
// and two arguments overlap only where it is said.
#pragma once

#include <span>

#include "base/cpu.h"
#include "base/dtype.h"

namespace gradus::nsa_selected_attention {

// Columns [at, at + n) of a head's scores: the keys that it sees of one block.
struct VisibleKeys {
    int64_t at, n;
};

struct Softmax {
    float max, sum;
};

// One row and one block: scores of the heads, [heads, stride] each, of which `keys` count.
struct BlockScores {
    float *s, *dp;  // q·k and dO·v
    int64_t heads, keys, stride;
    const float *max, *sum, *delta;  // [heads], as given; a head whose sum is 0 has seen nothing
    float scale;
    void *p, *ds;  // where rounded results go: 16-bit at the columns of s, or f32 over s and dp themselves
    void* kept;    // dS in 16 bits, [heads, stride]
    float* sums;   // [heads]: Σ P, or Σ P·dP
};

struct RowFunctions {
    // e = exp(scale·s − max), rounded to the operands' type, at the columns of s: in 16 bits, or (wide) in f32, where e
    // may be s. max is NaN if a score is.
    Softmax (*softmax)(const float* s, std::span<const VisibleKeys> keys, float scale, void* e) noexcept;
    // P = exp(scale·s − max)/sum and dS = P·(dP − delta), rounded to the operands' type, and Σ P.
    void (*differentiate)(const BlockScores& block) noexcept;
    // Σ P·dP alone.
    void (*weigh)(const BlockScores& block) noexcept;
    float (*dot)(const void* a, const void* b, int64_t n) noexcept;
    void (*widen)(const void* from, int64_t n, float* to) noexcept;
    // total += c, or total = c if nothing is there yet.
    void (*add)(double* total, const float* c, int64_t n, bool begun) noexcept;
    // total·factor in the operands' type.
    void (*finish)(const double* total, int64_t n, double factor, void* to) noexcept;
};
// wide: rounded scores are wanted in f32.
RowFunctions choose_rows(DType dtype, bool wide, Isa cap);

}  // namespace gradus::nsa_selected_attention
