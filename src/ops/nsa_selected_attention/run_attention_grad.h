// The gradient's plan, and the two parts of its work: dK and dV of a block, dQ of a row.
#pragma once

#include "aclnn/operator.h"
#include "base/config.h"
#include "ops/nsa_selected_attention/golden.h"
#include "ops/nsa_selected_attention/kernel_products.h"
#include "ops/nsa_selected_attention/row_group.h"

namespace gradus::nsa_selected_attention {

// What is kept of dS at a time, so that it stays in L3: with 64 MiB half of the shapes were a tenth slower (Zen 5).
inline constexpr int64_t kKeptBytes = 8 << 20;

// Rows whose dS are kept together.
struct Stage {
    int64_t begin, end;
};
// A row that selected a block, as the place-th of those it sees.
struct Selector {
    uint32_t row, place;
};

// Of a thread, for a block and heads of several rows, [heads, columns]. On a path that takes f32, heads and rounded
// scores are multiplied as they lie, and nothing is packed.
struct KeyScratch {
    Piece<std::byte> query, out_grad;     // heads of the rows: f32, or the right operands of dK and dV
    Piece<std::byte> dense, left;         // heads before they are packed, and as left operands
    Piece<std::byte> p, ds, left_scores;  // in 16 bits, and as the left operand
    Piece<float> scores, dp, key_c, value_c;
    Piece<std::byte> line;
};
// Of a thread, for a group of rows.
struct QueryScratch {
    GroupScratch group;
    SumScratch sums;
    Piece<std::byte> dense, ds, part_keys, lines;
};

struct GradPlan final : Work {
    Problem problem{};
    GoldenGrad views;
    int slots = 1;
    const gemm::Path* path = nullptr;  // null: golden
    RowFunctions rows{};
    int64_t width = 0;         // columns of a block's scores: whole strips
    int64_t rows_at_once = 0;  // query rows of one product of dK and dV
    int64_t group_rows = 0;    // query rows whose dQ are computed together
    std::vector<Stage> stages;
    // of a head of the key: who selected a block, and where its list goes on; blocks [size, D], [D, size] and
    // [size, Dv]; sums of dK and dV
    Piece<int64_t> first, next;
    Piece<Selector> list;
    Piece<std::byte> keys, key_columns, values;
    Piece<double> key_sums, value_sums;
    // of a stage: max, sum and delta [rows, 3, G]; sums of a block's P [rows, count, G]; dS [rows, count, G, width]
    Piece<float> statistics, sums;
    Piece<std::byte> ds;
    KeyScratch key;
    QueryScratch query;
    // of golden: rows at a time, dQ of a row, and what a stage holds
    Golden how;
    int64_t golden_rows = 0;
    Piece<std::byte> golden_numbers, golden_p, golden_ds, golden_sums;
    Piece<int64_t> golden_seen;

    void run(std::byte* const* address, std::byte* workspace) const noexcept override;
};

// What either part works on.
struct Context {
    const GradPlan& plan;
    std::byte* const* address;
    std::byte* workspace;
    int64_t key_head;
    int slot;
    Stage stage;

    const Problem& e = plan.problem;
    const gemm::Path& path = *plan.path;

    Context on(int thread) const { return {plan, address, workspace, key_head, thread, stage}; }
    // [3, G]: max, sum, delta
    float* statistics(int64_t row) const { return plan.statistics.at(workspace) + (row - stage.begin) * 3 * e.group; }
    float* sums(int64_t row, int64_t place) const {
        return plan.sums.at(workspace) + ((row - stage.begin) * e.count + place) * e.group;
    }
    std::byte* ds(int64_t row, int64_t place) const {
        return plan.ds.at(workspace) + ((row - stage.begin) * e.count + place) * e.group * plan.width * 2;
    }
};

class KeyGradient : Context {
  public:
    explicit KeyGradient(const Context& context) : Context(context) {}
    // Adds to dK and dV of a block what the rows of the stage have for it; their dS are kept, and Σ P.
    void run(int64_t block) noexcept;
    // Σ P·dP of the rows of the stage in this block, in the place of Σ P: what delta is where attentionOut is not
    // given.
    void weigh(int64_t block) noexcept;

  private:
    template <typename F>
    void each_product(int64_t block, int64_t from, const F& f) noexcept;
    Operand take_heads(const Strided& from, int64_t depth, std::byte* to) noexcept;
    void score(int64_t block) noexcept;
    void each_row(void (*f)(const BlockScores&) noexcept) noexcept;
    Operand heads_by_columns(int64_t depth, const std::byte* heads) const noexcept;
    void add(Total& total, const Operand& heads, std::byte* rounded, float* wide) noexcept;

    std::span<const Selector> selectors_;
    int64_t rows_ = 0;     // of the block
    int64_t visible_ = 0;  // keys of the block that the rows at hand see
    Operand query_{}, out_grad_{};
};

class QueryGradient : Context {
  public:
    explicit QueryGradient(const Context& context) : Context(context) {}
    // max, sum and, where attentionOut is given, delta of a row's heads.
    void prepare(int64_t row) noexcept;
    // delta from the sums of KeyGradient::weigh.
    void set_delta(int64_t row) noexcept;
    // dQ of the heads of rows [begin, end). Returns how far Σ P is from 1 at worst.
    float run(int64_t begin, int64_t end) noexcept;

  private:
    float dot(int64_t row, int64_t head) noexcept;
    Operand ds_of(const RowGroup& group, int64_t first, int64_t last) noexcept;
    Operand keys_of(const SelectedBlock& block) noexcept;
    float finish(int64_t row, const double* total) noexcept;

    Selection selection_;
};

}  // namespace gradus::nsa_selected_attention
