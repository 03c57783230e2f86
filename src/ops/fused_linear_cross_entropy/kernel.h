// The formulas on rows of a tile, and the blocks of tokens and words that the operators are made of.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/cpu.h"
#include "base/dtype.h"
#include "gemm/gemm.h"
#include "ops/fused_linear_cross_entropy/grid.h"

namespace gradus::fused_linear_cross_entropy {

// What a token brings to its row of g.
struct Token {
    float max, sum, grad;
    int64_t hit;  // the word that its one is subtracted at; outside of [0, n): none
};

// On rows of n f32, or of the operands' type T. One instruction set each.
struct RowFunctions {
    // The largest logit, NaN if there is one, and Σ exp(logit − largest).
    void (*stats)(const float* logits, int64_t n, float* max, float* sum) noexcept;
    // g = (p − one at the hit)·grad in T, with p = exp(logit − max)/sum, or as given.
    void (*gradient)(const float* logits, int64_t n, const Token& token, void* g) noexcept;
    void (*gradient_given)(const float* softmax, int64_t n, const Token& token, void* g) noexcept;
    void (*round)(const float* values, int64_t n, void* to) noexcept;
    void (*add)(float* to, const float* from, int64_t n) noexcept;
};
RowFunctions choose_rows(DType dtype, Isa cap);

// softmax = exp(logit − max)/sum, past the cache or not.   logits: [n] of any of the three types
using SoftmaxRow = void (*)(const void* logits, int64_t n, float max, float sum, float* softmax, bool past) noexcept;
SoftmaxRow choose_softmax(DType dtype, Isa cap);

inline gemm::Matrix matrix_of(const Grid& grid, std::byte* const* address, int64_t row, int64_t column = 0) {
    return {grid.at(address, row, column), grid.row, grid.column};
}
inline gemm::Matrix transposed(const gemm::Matrix& m) { return {m.data, m.column_stride, m.row_stride}; }

// Blocks of tokens and words: C of a block, 72 KiB, and its part of A stay in L2. Multiples of every strip and group.
inline constexpr int64_t kTokens = 96, kWords = 192;

inline int64_t blocks_of(int64_t n, int64_t block) { return (n + block - 1) / block; }

// A panel that threads pack in shares of kWords rows.
struct PackJob {
    gemm::Panel panel;
    std::byte* to = nullptr;
    gemm::Matrix source{};
    int64_t k = 0;  // of the source
    int64_t shares() const { return blocks_of(panel.rows, kWords); }
};
void pack_share(const gemm::Path& path, const PackJob& job, int64_t share) noexcept;

// One product of a block: rows of A against rows of B, whole strips, k as the panels have it.
struct Product {
    gemm::Panel a, b;
    const std::byte *packed_a, *packed_b;
};
// Rows [first_a, first_a + rows_a) and [first_b, …) into c; first ones at the beginning of a strip.
void multiply_block(const gemm::Path& path, const Product& product, int64_t first_a, int64_t rows_a, int64_t first_b,
                    int64_t rows_b, float* c, int64_t c_stride, bool accumulate) noexcept;

// g of a block, [tokens, words] in T with row stride kWords, is packed twice: as rows of inputGrad's product (words are
// summed over) and, transposed, as rows of weightGrad's (tokens are).
struct PackedGradient {
    gemm::Panel by_token, by_word;
    std::byte *to_token, *to_word;
};
void pack_gradient(const gemm::Path& path, const PackedGradient& to, const void* g, int64_t first_token, int64_t tokens,
                   int64_t first_word, int64_t words) noexcept;

// The statistics of blocks, folded in the order of the vocabulary.
struct Running {
    float max;
    double sum;
    void fold(float block_max, float block_sum) noexcept;
};

}  // namespace gradus::fused_linear_cross_entropy
