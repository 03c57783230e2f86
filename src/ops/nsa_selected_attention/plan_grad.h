// The gradient's plan, and its two halves: dQ of a row, dK and dV of a block.
#pragma once

#include "ops/nsa_selected_attention/effort.h"
#include "ops/nsa_selected_attention/golden.h"
#include "ops/nsa_selected_attention/kernel_tiles.h"
#include "ops/nsa_selected_attention/plan.h"

namespace gradus::nsa_selected_attention {

// Rows of scores of one product of dK and dV: a k block of the f32 path.
inline constexpr int64_t kScoreRows = 256;

// Of a thread. Scores: [G, count·width]
struct QueryScratch {
    Piece<std::byte> query, out_grad, ds, packed_ds, part_keys, lines;
    Piece<float> scores, dp, c;
    Piece<double> total;
};
// Of a thread. Rows of several query rows are copied together, [rows·G, D]; scores: [rows·G, width]
struct KeyScratch {
    Piece<std::byte> query, out_grad, row_query, row_out_grad, column_query, column_out_grad, p, ds, packed_p, line;
    Piece<float> scores, dp, key_c, value_c, part_c;
    Piece<double> key_total, value_total;
};

struct GradPlan {
    Extent extent;
    GoldenGrad views;
    int slots;
    const gemm::Path* path;
    RowFunctions rows;
    int64_t width;         // columns of a block's scores: whole strips
    int64_t rows_at_once;  // query rows of one product of dK and dV
    // of a head of the key: who chose a block, delta of [rows, G], blocks [size, D], [D, size] and [size, Dv]
    Piece<int64_t> first;
    Piece<uint32_t> list;
    Piece<float> delta;
    Piece<std::byte> keys, key_columns, values;
    QueryScratch query;
    KeyScratch key;
    Piece<double> golden_sums, golden_scores;
};

// What a half works on.
struct Half {
    Half(const GradPlan& p, std::byte* const* addresses, std::byte* scratch, int64_t head, int thread)
        : plan(p), e(p.extent), path(*p.path), address(addresses), workspace(scratch), key_head(head), slot(thread) {}

    const GradPlan& plan;
    const Extent& e;
    const gemm::Path& path;
    std::byte* const* address;
    std::byte* workspace;
    int64_t key_head;
    int slot;
};

class QueryGradient : Half {
  public:
    using Half::Half;
    // dQ of a row's heads, and their delta. Returns how far Σ P is from 1 at worst.
    float run(int64_t row) noexcept;

  private:
    void score() noexcept;
    float differentiate() noexcept;
    float delta_of(int64_t head, float p_dp) noexcept;
    void finish() noexcept;

    int64_t row_ = 0;
    Choices choices_;
    Stretch stretches_[kMostCount];
};

class KeyGradient : Half {
  public:
    using Half::Half;
    // dK and dV of a block.
    void run(int64_t block) noexcept;

  private:
    void gather_rows_of(const uint32_t* rows, int64_t count) noexcept;
    void score(const uint32_t* rows, int64_t count) noexcept;
    void add(Total& total, const gemm::Panel& columns, const std::byte* packed, const std::byte* half) noexcept;
    void write(const Cube& to, const Total& total, double factor) noexcept;

    Choice block_{};
    int64_t seen_ = 0;        // keys of the block that the rows at hand see
    int64_t score_rows_ = 0;  // rows at hand, times G
};

}  // namespace gradus::nsa_selected_attention
