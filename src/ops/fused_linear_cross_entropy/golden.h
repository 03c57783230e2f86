// The specification: plain loops in f64, elements as given, one rounding at the end. Shares nothing with kernel.cpp.
// Logits are computed again wherever they are needed, so that golden, too, keeps nothing of size tokens × words.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "ops/fused_linear_cross_entropy/grid.h"

namespace gradus::fused_linear_cross_entropy {

// input: [tokens, hidden], weight: [words, hidden]
struct GoldenOperands {
    DType dtype;
    Grid input, weight;
    int64_t tokens, hidden, words;
};

double golden_logit(const GoldenOperands& operands, std::byte* const* address, int64_t token, int64_t word) noexcept;

struct GoldenStats {
    double max, sum;
};
GoldenStats golden_stats(const GoldenOperands& operands, std::byte* const* address, int64_t token) noexcept;

// What a token brings to g; softmax is given, or follows from max and sum.
struct GoldenToken {
    double max, sum, grad;
    int64_t hit;
};

// g of one token and word.
double golden_g(const GoldenOperands& operands, std::byte* const* address, const Grid* softmax,
                const GoldenToken& token, int64_t i, int64_t word) noexcept;
// Adds g·row to sums, row being f16 or bf16 elements of the view.
void golden_add(DType dtype, const Grid& rows, std::byte* const* address, int64_t i, int64_t hidden, double g,
                double* sums) noexcept;

double golden_element(DType dtype, const std::byte* at) noexcept;
void golden_store(DType dtype, std::byte* at, double value) noexcept;

}  // namespace gradus::fused_linear_cross_entropy
