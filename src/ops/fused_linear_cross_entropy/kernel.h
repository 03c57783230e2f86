// The formulas on rows of a tile, and the blocks of tokens and words that the operators are made of.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/arithmetic.h"
#include "base/cpu.h"
#include "base/dtype.h"
#include "base/strided.h"
#include "gemm/gemm.h"

namespace gradus::fused_linear_cross_entropy {

// Tokens and words are packed so many at a time: chunks and panels. Both follow from the shape alone.
struct Sizes {
    int64_t tokens = 0, hidden = 0, words = 0;
    int64_t chunk = 1, panel = 1;

    int64_t chunks() const { return ceil_div(tokens, chunk); }
    int64_t panels() const { return ceil_div(words, panel); }
    int64_t chunk_length(int64_t c) const { return std::min(chunk, tokens - c * chunk); }
    int64_t panel_length(int64_t p) const { return std::min(panel, words - p * panel); }
};

// What a token brings to its row of g.
struct Token {
    float max, sum, grad;
    int64_t hit;  // the word that its one is subtracted at; outside of [0, n): none
};

// Of a row of a block whose logits are kept as whole steps below its largest.
struct Scale {
    static constexpr float kSteps = 65535;
    float top, step;
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
    // Logits as whole steps down from the largest of them, the last of which is at the smallest, or where exp is 0; and
    // what they were.
    Scale (*scale)(const float* logits, int64_t n, float top) noexcept;
    void (*keep)(const float* logits, int64_t n, const Scale& scale, uint16_t* to) noexcept;
    void (*restore)(const uint16_t* kept, int64_t n, const Scale& scale, float* logits) noexcept;
};
RowFunctions choose_rows(DType dtype, Isa cap);

// softmax = exp(logit − max)/sum, past the cache or not.   logits: [n] of any of the three types
using SoftmaxRow = void (*)(const void* logits, int64_t n, float max, float sum, float* softmax, bool past) noexcept;
SoftmaxRow choose_softmax(DType dtype, Isa cap);

inline gemm::Matrix matrix_of(const Strided& grid, std::byte* const* address, int64_t row, int64_t column = 0) {
    return {grid.at(address, row, column), grid.step[0], grid.step[1]};
}

// Blocks of C that threads take: as large as the path likes, in fewer rows where there are too few for all threads.
// Rows of a block never change its numbers; its columns are also what a row's statistics are summed over.
struct Cut {
    int64_t rows = 1, columns = 1;
};
Cut cut_of(const gemm::Path& path, int64_t rows, int64_t columns, int threads);

// A matrix that threads pack in shares of so many rows: as rows of one product, and, transposed, as the other's sums
// run over them. Both at once, so that it comes from the memory once.   source: [rows, columns]
struct PackJob {
    gemm::Matrix source{};
    int64_t rows = 0, columns = 0;
    gemm::Panel by_row, by_column;
    std::byte *to_row = nullptr, *to_column = nullptr;  // null: not wanted

    int64_t share() const { return round_up(64, by_row.strip.rows); }
    int64_t shares() const { return ceil_div(rows, share()); }
};
void pack_share(const gemm::Path& path, const PackJob& job, int64_t share) noexcept;

// Of `all` tasks `few` are of another kind; they are spread evenly. Gives the task's number among its kind.
struct Mixed {
    bool few;
    int64_t number;
};
inline Mixed mixed_task(int64_t task, int64_t all, int64_t few) {
    const int64_t before = task * few / all;
    const bool is_few = (task + 1) * few / all > before;
    return {is_few, is_few ? before : task - before};
}

// One product of a block: rows of A against rows of B, whole strips, k as the panels have it.
struct Product {
    gemm::Panel a, b;
    const std::byte *packed_a, *packed_b;
};
// Rows [first_a, first_a + rows_a) and [first_b, …) into c; first ones at the beginning of a strip.
void multiply_block(const gemm::Path& path, const Product& product, int64_t first_a, int64_t rows_a, int64_t first_b,
                    int64_t rows_b, float* c, int64_t c_stride, bool accumulate) noexcept;

// g of a block, [tokens, words] in T with a row stride, is packed twice: as rows of inputGrad's product (words are
// summed over) and, transposed, as rows of weightGrad's (tokens are).
struct PackedGradient {
    gemm::Panel by_token, by_word;
    std::byte *to_token, *to_word;
};
void pack_gradient(const gemm::Path& path, const PackedGradient& to, const void* g, int64_t stride, int64_t first_token,
                   int64_t tokens, int64_t first_word, int64_t words) noexcept;

// The statistics of blocks, folded in the order of the vocabulary.
struct Running {
    float max;
    double sum;
    void fold(float block_max, float block_sum) noexcept;
};

}  // namespace gradus::fused_linear_cross_entropy
