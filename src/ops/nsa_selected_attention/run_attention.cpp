// Forward: row by row, all scores of a row at once. Blocks of keys and values are packed once for a head of the key.
#include "ops/nsa_selected_attention/run_attention.h"
#include "runtime/parallel.h"

namespace gradus::nsa_selected_attention {
namespace {

void put_copies(const AttentionPlan& plan, std::byte* const* address, int64_t row, int64_t head,
                Softmax softmax) noexcept {
    for (int64_t copy = 0; copy < kCopies; ++copy) {
        *reinterpret_cast<float*>(plan.views.max.at(address, row, head, copy)) = softmax.max;
        *reinterpret_cast<float*>(plan.views.sum.at(address, row, head, copy)) = softmax.sum;
    }
}

// One row, the heads that share a head of the key.
class Row {
  public:
    Row(const AttentionPlan& plan, std::byte* const* address, std::byte* workspace, int64_t key_head, int slot)
        : plan_(plan),
          e_(plan.extent),
          path_(*plan.path),
          address_(address),
          workspace_(workspace),
          key_head_(key_head),
          slot_(slot) {}

    void run(int64_t row) {
        row_ = row;
        e_.select(plan_.views.topk, address_, row, key_head_, selection_);
        const int64_t head = key_head_ * e_.group;
        if (selection_.count == 0) {
            for (int64_t g = 0; g < e_.group; ++g) {
                put_copies(plan_, address_, row, head + g, {0, 0});
                put_zeros(plan_.views.out.at(address_, row, head + g), e_.value_depth, plan_.views.out.column);
            }
            return;
        }
        score();
        softmax();
        output();
    }

  private:
    Operand query() {
        const Cube& from = plan_.views.query;
        const int64_t head = key_head_ * e_.group;
        std::byte* const to = plan_.query.at(workspace_, slot_);
        if (!path_.takes_f32())
            return packed(path_, path_.panel_a(e_.group, e_.depth), to, e_.depth,
                          heads_of(from, address_, row_, head));
        const int64_t stride = wide_stride(path_, e_.depth);
        for (int64_t g = 0; g < e_.group; ++g)
            copy_head(plan_.rows, from.at(address_, row_, head + g), from.column, e_.depth, true, to + g * stride * 4,
                      plan_.line.at(workspace_, slot_));
        return {path_.as_it_lies(path_.a, e_.group, e_.depth, stride, 1), to};
    }

    void score() {
        const Operand q = query();
        for (int64_t i = 0; i < selection_.count; ++i) {
            const SelectedBlock& b = selection_.at[i];
            multiply(path_, q, {path_.panel_b(b.rows, e_.depth), plan_.keys.at(workspace_, b.block)}, b.visible,
                     plan_.scores.at(workspace_, slot_) + i * plan_.block_scores(), plan_.width, false);
            visible_[i] = {i * plan_.block_scores(), b.visible};
        }
    }

    void softmax() {
        for (int64_t g = 0; g < e_.group; ++g) {
            float* const s = plan_.scores.at(workspace_, slot_) + g * plan_.width;
            void* const e = path_.takes_f32() ? static_cast<void*>(s)
                                              : static_cast<void*>(plan_.e.at(workspace_, slot_) + g * plan_.width * 2);
            const Softmax result = plan_.rows.softmax(s, {visible_, static_cast<size_t>(selection_.count)},
                                                      static_cast<float>(e_.scale), e);
            put_copies(plan_, address_, row_, key_head_ * e_.group + g, result);
        }
    }

    // e of a block, and its values. Products end at the last key that is seen: what a hidden value holds is nobody's
    // business. Packed values know their end, so those of a part are packed again; in f32 it is the left operand's.
    Operand e_of(int64_t i, int64_t visible) {
        const int64_t at = i * plan_.block_scores();
        if (path_.takes_f32())
            return {path_.as_it_lies(path_.a, e_.group, visible, plan_.width, 1),
                    reinterpret_cast<const std::byte*>(plan_.scores.at(workspace_, slot_) + at)};
        return packed(path_, path_.panel_a(e_.group, visible), plan_.packed_e.at(workspace_, slot_), visible,
                      {plan_.e.at(workspace_, slot_) + at * 2, plan_.width, 1});
    }
    Operand values_of(const SelectedBlock& b) {
        if (b.whole() || path_.takes_f32())
            return {path_.panel_b(e_.value_depth, b.rows), plan_.values.at(workspace_, b.block)};
        return packed(path_, path_.panel_b(e_.value_depth, b.visible), plan_.part_values.at(workspace_, slot_),
                      b.visible, transposed(rows_of(plan_.views.value, address_, b.key, key_head_)));
    }

    // out = Σ e·v / sum
    void output() {
        Total total{plan_.c.at(workspace_, slot_), plan_.total.at(workspace_, slot_), e_.group, e_.value_depth,
                    round_up(e_.value_depth, path_.b.rows)};
        for (int64_t i = 0; i < selection_.count; ++i) {
            const SelectedBlock& b = selection_.at[i];
            multiply(path_, e_of(i, b.visible), values_of(b), e_.value_depth, total.c, total.stride,
                     total.accumulate());
            total.added(plan_.rows);
        }
        total.fold(plan_.rows);
        for (int64_t g = 0; g < e_.group; ++g) {
            const int64_t head = key_head_ * e_.group + g;
            put_row(plan_.rows, total.total + g * e_.value_depth, e_.value_depth,
                    1 / static_cast<double>(plan_.views.sum.f32(address_, row_, head)),
                    plan_.views.out.at(address_, row_, head), plan_.views.out.column, plan_.line.at(workspace_, slot_));
        }
    }

    const AttentionPlan& plan_;
    const Extent& e_;
    const gemm::Path& path_;
    std::byte* const* address_;
    std::byte* workspace_;
    int64_t key_head_, row_ = 0;
    int slot_;
    Selection selection_;
    VisibleKeys visible_[kMostCount];
};

void run_fast(const AttentionPlan& plan, std::byte* const* address, std::byte* workspace) noexcept {
    const Extent& e = plan.extent;
    const gemm::Path& path = *plan.path;
    for (int64_t head = 0; head < e.key_heads; ++head) {
        parallel_for(e.blocks, plan.slots, [&](int64_t block, int) {
            const SelectedBlock b = e.block_at(block);
            packed(path, path.panel_b(b.rows, e.depth), plan.keys.at(workspace, block), e.depth,
                   rows_of(plan.views.key, address, b.key, head));
            packed(path, path.panel_b(e.value_depth, b.rows), plan.values.at(workspace, block), b.rows,
                   transposed(rows_of(plan.views.value, address, b.key, head)));
        });
        parallel_for((e.rows + kRowsAtOnce - 1) / kRowsAtOnce, plan.slots, [&](int64_t block, int slot) {
            Row row(plan, address, workspace, head, slot);
            for (int64_t t = block * kRowsAtOnce; t < std::min(e.rows, (block + 1) * kRowsAtOnce); ++t) row.run(t);
        });
    }
}

void run_golden(const AttentionPlan& plan, std::byte* const* address, std::byte* workspace) noexcept {
    parallel_for(plan.extent.rows, plan.slots, [&](int64_t row, int slot) {
        for (int64_t head = 0; head < plan.extent.heads; ++head)
            golden_forward(plan.extent, plan.precision, plan.views, address, row, head,
                           plan.golden_numbers.at(workspace, slot));
    });
}

}  // namespace

void AttentionPlan::run(std::byte* const* address, std::byte* workspace) const noexcept {
    path == nullptr ? run_golden(*this, address, workspace) : run_fast(*this, address, workspace);
}

}  // namespace gradus::nsa_selected_attention
