// The specification: plain loops in f64, elements as given, one rounding at the end. Shares nothing with kernel.cpp.
#pragma once

#include "ops/nsa_selected_attention/blocks.h"

namespace gradus::nsa_selected_attention {

struct GoldenForward {
    Cube query, key, value, topk, max, sum, out;
};
// One row and one head of the query. scores: [count·size]
void golden_forward(const Extent& extent, const GoldenForward& views, std::byte* const* address, int64_t row,
                    int64_t head, double* scores) noexcept;

struct GoldenGrad {
    Cube query, key, value, out, out_grad, max, sum, topk, query_grad, key_grad, value_grad;
    bool with_out = false;
};
// One head of the key, all rows. sums: [keys, depth + value_depth]; scores: [2, count·size]
void golden_grad(const Extent& extent, const GoldenGrad& views, std::byte* const* address, int64_t key_head,
                 double* sums, double* scores) noexcept;

}  // namespace gradus::nsa_selected_attention
