// Forward: a group of rows at a time, all of their scores at once: q·k block by block, softmax row by row, e·v block by
// block. Blocks of keys and values are packed once for a head of the key.
#include "ops/nsa_selected_attention/run_attention.h"
#include "runtime/parallel.h"

namespace gradus::nsa_selected_attention {
namespace {

void put_copies(const AttentionPlan& plan, std::byte* const* address, int64_t row, int64_t head,
                Softmax softmax) noexcept {
    for (int64_t copy = 0; copy < kCopies; ++copy) {
        store_element(plan.views.max.at(address, row, head, copy), softmax.max);
        store_element(plan.views.sum.at(address, row, head, copy), one_nan(softmax.sum));
    }
}

// Rows [begin, end), the heads that share a head of the key. A row's blocks are taken in their own order, whatever rows
// are beside it.
class Group {
  public:
    Group(const AttentionPlan& plan, std::byte* const* address, std::byte* workspace, int64_t key_head, int slot,
          int64_t begin, int64_t end)
        : plan_(plan),
          e_(plan.problem),
          path_(*plan.path),
          address_(address),
          workspace_(workspace),
          key_head_(key_head),
          slot_(slot),
          begin_(begin),
          end_(end),
          group_(plan.problem, plan.views.topk, address, key_head, begin, end, plan.group.entries.at(workspace, slot),
                 plan.group.order.at(workspace, slot)),
          scores_(plan.scores.at(workspace, slot)),
          rounded_(path_.takes_f32() ? reinterpret_cast<std::byte*>(scores_) : plan.e.at(workspace, slot)),
          item_(path_.takes_f32() ? 4 : 2) {}

    void run() {
        const gemm::Using using_path(path_);
        score();
        softmax();
        output();
    }

  private:
    // Heads of a row as the left operand, at their place for the group.
    Operand query(int64_t row) {
        const Strided& from = plan_.views.query;
        const int64_t head = key_head_ * e_.group, stride = wide_stride(path_, e_.depth);
        const gemm::Panel panel = path_.takes_f32() ? path_.as_it_lies(path_.a, e_.group, e_.depth, stride, 1)
                                                    : path_.panel_a(e_.group, e_.depth);
        std::byte* const to = plan_.query.at(workspace_, slot_) +
                              (row - begin_) * (path_.takes_f32() ? e_.group * stride * 4 : panel.bytes());
        if (packed_[row - begin_]) return {panel, to};
        packed_[row - begin_] = true;
        if (!path_.takes_f32()) return packed(path_, panel, to, e_.depth, heads_of(from, address_, row, head));
        for (int64_t g = 0; g < e_.group; ++g)
            copy_head(plan_.rows, from.at(address_, row, head + g), from.step[2], e_.depth, true, to + g * stride * 4,
                      plan_.line.at(workspace_, slot_));
        return {panel, to};
    }
    // Those of entries [first, last) together.
    Operand queries(int64_t first, int64_t last) {
        const Strided& from = plan_.views.query;
        std::byte* const dense = plan_.dense.at(workspace_, slot_);
        for (int64_t i = first; i < last; ++i)
            for (int64_t g = 0; g < e_.group; ++g)
                copy_head(plan_.rows, from.at(address_, group_[i].row, key_head_ * e_.group + g), from.step[2],
                          e_.depth, false, dense + ((i - first) * e_.group + g) * e_.depth * 2, nullptr);
        return packed(path_, path_.panel_a((last - first) * e_.group, e_.depth), plan_.query.at(workspace_, slot_),
                      e_.depth, {dense, e_.depth, 1});
    }

    // Whole tiles are written: what is behind the heads of one run is the next run's, which comes later.
    void score() {
        group_.each_run(plan_.sums.most_rows, [&](int64_t first, int64_t last) {
            const SelectedBlock& b = group_[first].block;
            multiply(path_, few_heads(path_, e_.group) ? queries(first, last) : query(group_[first].row),
                     {path_.panel_b(b.rows, e_.depth), plan_.keys.at(workspace_, b.block)}, b.visible,
                     scores_ + first * plan_.block_scores(), plan_.width, false);
        });
    }

    void softmax() {
        VisibleKeys* const visible = plan_.visible.at(workspace_, slot_);  // [rows, count]
        int64_t* const seen = plan_.seen.at(workspace_, slot_);
        std::fill(seen, seen + end_ - begin_, 0);
        for (int64_t i = 0; i < group_.size(); ++i) {
            const int64_t row = group_[i].row - begin_;
            visible[row * e_.count + seen[row]++] = {i * plan_.block_scores(), group_[i].block.visible};
        }
        for (int64_t row = begin_; row < end_; ++row)
            for (int64_t g = 0; g < e_.group; ++g) {
                const std::span keys(visible + (row - begin_) * e_.count, static_cast<size_t>(seen[row - begin_]));
                Softmax result{0, 0};
                if (!keys.empty())
                    result = plan_.rows.softmax(scores_ + g * plan_.width, keys, static_cast<float>(e_.scale),
                                                rounded_ + g * plan_.width * item_);
                put_copies(plan_, address_, row, key_head_ * e_.group + g, result);
            }
    }

    // e of entries [first, last), and the values of their block. Products end at the last key that is seen: what a
    // hidden value holds is nobody's business. Packed values know their end, so those of a part are packed again; in
    // f32 it is the left operand's.
    Operand e_of(int64_t first, int64_t last, int64_t visible) {
        const int64_t heads = (last - first) * e_.group;
        std::byte* const from = rounded_ + first * plan_.block_scores() * item_;
        if (path_.takes_f32()) return {path_.as_it_lies(path_.a, heads, visible, plan_.width, 1), from};
        return packed(path_, path_.panel_a(heads, visible), plan_.packed_e.at(workspace_, slot_), visible,
                      {from, plan_.width, 1});
    }
    Operand values_of(const SelectedBlock& b) {
        if (b.whole() || path_.takes_f32())
            return {path_.panel_b(e_.value_depth, b.rows), plan_.values.at(workspace_, b.block)};
        return packed(path_, path_.panel_b(e_.value_depth, b.visible), plan_.part_values.at(workspace_, slot_),
                      b.visible, rows_of(plan_.views.value, address_, b.key, key_head_).transposed());
    }

    // out = Σ e·v / sum
    void output() {
        Totals totals(plan_.sums, path_, plan_.rows, workspace_, slot_, end_ - begin_);
        group_.each_run(plan_.sums.most_rows, [&](int64_t first, int64_t last) {
            const SelectedBlock& b = group_[first].block;
            totals.add(e_of(first, last, b.visible), values_of(b), last - first,
                       [&](int64_t i) { return group_[first + i].row - begin_; });
        });
        for (int64_t row = begin_; row < end_; ++row) {
            const double* total = totals.finish(row - begin_);
            for (int64_t g = 0; g < e_.group; ++g) {
                const int64_t head = key_head_ * e_.group + g;
                std::byte* const to = plan_.views.out.at(address_, row, head);
                if (total == nullptr)
                    put_zeros(to, e_.value_depth, plan_.views.out.step[2]);
                else
                    put_row(plan_.rows, total + g * e_.value_depth, e_.value_depth,
                            1 / static_cast<double>(plan_.views.sum.f32(address_, row, head)), to,
                            plan_.views.out.step[2], plan_.line.at(workspace_, slot_));
            }
        }
    }

    const AttentionPlan& plan_;
    const Problem& e_;
    const gemm::Path& path_;
    std::byte* const* address_;
    std::byte* workspace_;
    int64_t key_head_;
    int slot_;
    int64_t begin_, end_;
    RowGroup group_;
    float* scores_;
    std::byte* rounded_;  // e
    int64_t item_;        // bytes of its elements
    bool packed_[kMostGroupRows] = {};
};

void run_fast(const AttentionPlan& plan, std::byte* const* address, std::byte* workspace) noexcept {
    const Problem& e = plan.problem;
    const gemm::Path& path = *plan.path;
    for (int64_t head = 0; head < e.key_heads; ++head) {
        parallel_for(e.blocks, plan.slots, [&](int64_t block, int) {
            const SelectedBlock b = e.block_at(block);
            packed(path, path.panel_b(b.rows, e.depth), plan.keys.at(workspace, block), e.depth,
                   rows_of(plan.views.key, address, b.key, head));
            packed(path, path.panel_b(e.value_depth, b.rows), plan.values.at(workspace, block), b.rows,
                   rows_of(plan.views.value, address, b.key, head).transposed());
        });
        parallel_for(ceil_div(e.rows, plan.rows_at_once), plan.slots, [&](int64_t group, int slot) {
            const int64_t begin = group * plan.rows_at_once;
            Group(plan, address, workspace, head, slot, begin, std::min(e.rows, begin + plan.rows_at_once)).run();
        });
    }
}

void run_golden(const AttentionPlan& plan, std::byte* const* address, std::byte* workspace) noexcept {
    parallel_for(plan.problem.rows, plan.slots, [&](int64_t row, int slot) {
        for (int64_t head = 0; head < plan.problem.heads; ++head)
            golden_forward(plan.problem, plan.how, plan.views, address, row, head,
                           plan.golden_numbers.at(workspace, slot));
    });
}

}  // namespace

void AttentionPlan::run(std::byte* const* address, std::byte* workspace) const noexcept {
    path == nullptr ? run_golden(*this, address, workspace) : run_fast(*this, address, workspace);
}

}  // namespace gradus::nsa_selected_attention
