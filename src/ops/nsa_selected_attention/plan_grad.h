// The gradient's plan, and its two halves: scores and dQ of a row, dK and dV of a block.
#pragma once

#include "ops/nsa_selected_attention/effort.h"
#include "ops/nsa_selected_attention/golden.h"
#include "ops/nsa_selected_attention/kernel_tiles.h"
#include "ops/nsa_selected_attention/plan.h"

namespace gradus::nsa_selected_attention {

// Rows of scores of one product of dK and dV: a k block of the f32 path.
inline constexpr int64_t kScoreRows = 256;
// What is kept of P and dS at a time.
inline constexpr int64_t kKeptBytes = 64 << 20;

// Rows whose P and dS are kept together.
struct Stage {
    int64_t begin, end;
};
// A row that chose a block, as the choice-th of those it sees.
struct Chooser {
    uint32_t row, choice;
};

// Of a thread. Scores: [G, count·width]
struct QueryScratch {
    Piece<std::byte> query, out_grad, packed_ds, part_keys, lines;
    Piece<float> scores, dp, c;
    Piece<double> total;
};
// Of a thread. Heads of several rows are copied together: [rows·G, D], [rows·G, size]
struct KeyScratch {
    Piece<std::byte> heads, columns, half, packed_half, line;
    Piece<float> key_c, value_c;
};

struct GradPlan final : Work {
    Extent extent{};
    GoldenGrad views;
    int slots = 1;
    const gemm::Path* path = nullptr;  // null: golden
    RowFunctions rows{};
    int64_t width = 0;         // columns of a block's scores: whole strips
    int64_t rows_at_once = 0;  // query rows of one product of dK and dV
    std::vector<Stage> stages;
    // of a head of the key: who chose a block, and where its list goes on; blocks [size, D], [D, size] and [size, Dv];
    // sums of dK and dV
    Piece<int64_t> first, next;
    Piece<Chooser> list;
    Piece<std::byte> keys, key_columns, values;
    Piece<double> key_sums, value_sums;
    // of a stage: [rows, G, count·width] in the operands' type
    Piece<std::byte> p, ds;
    QueryScratch query;
    KeyScratch key;
    // of golden: rows at a time, dQ of a row, and what a stage holds
    Precision precision = Precision::golden;
    int64_t golden_rows = 0;
    Piece<std::byte> golden_numbers, golden_p, golden_ds, golden_sums;
    Piece<int64_t> golden_seen;

    void run(std::byte* const* address, std::byte* workspace) const noexcept override;
};

// What a half works on.
struct Half {
    Half(const GradPlan& p, std::byte* const* addresses, std::byte* scratch, int64_t head, int thread, int64_t begin)
        : plan(p),
          e(p.extent),
          path(*p.path),
          address(addresses),
          workspace(scratch),
          key_head(head),
          slot(thread),
          stage_begin(begin) {}

    const GradPlan& plan;
    const Extent& e;
    const gemm::Path& path;
    std::byte* const* address;
    std::byte* workspace;
    int64_t key_head;
    int slot;
    int64_t stage_begin;

    // Where a row's heads begin in P or dS.
    std::byte* kept(const Piece<std::byte>& piece, int64_t row) const {
        return piece.at(workspace) + (row - stage_begin) * e.group * e.count * plan.width * 2;
    }
};

class QueryGradient : Half {
  public:
    using Half::Half;
    // dQ of a row's heads; P and dS are kept. Returns how far Σ P is from 1 at worst.
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
    // Adds to dK and dV of a block what the rows of the stage, which end before `end`, have for it.
    void run(int64_t block, int64_t end) noexcept;

  private:
    void copy_heads(const Cube& from, int64_t depth, std::byte* to) const noexcept;
    void copy_scores(const Piece<std::byte>& from, std::byte* to) const noexcept;
    void add(Total& total, const Cube& from, const Piece<std::byte>& scores) noexcept;

    std::span<const Chooser> choosers_;
    int64_t rows_ = 0;  // of the block
    int64_t seen_ = 0;  // keys of the block that the rows at hand see
};

}  // namespace gradus::nsa_selected_attention
