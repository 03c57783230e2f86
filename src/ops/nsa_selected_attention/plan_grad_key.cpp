// dK and dV of one block: the rows that chose it, in order, some hundred rows of scores to a product.
#include <cstring>

#include "ops/nsa_selected_attention/plan_grad.h"

namespace gradus::nsa_selected_attention {

// Heads of the rows at hand, dense; a head that has seen nothing is zeros, so that nothing comes of it.
void KeyGradient::copy_heads(const Cube& from, int64_t depth, std::byte* to) const noexcept {
    for (const Chooser& chooser : choosers_)
        for (int64_t head = key_head * e.group; head < (key_head + 1) * e.group; ++head, to += depth * 2) {
            const std::byte* const at = from.at(address, chooser.row, head);
            if (plan.views.sum.f32(address, chooser.row, head) == 0)
                std::memset(to, 0, static_cast<size_t>(depth) * 2);
            else if (from.column == 1)
                std::memcpy(to, at, static_cast<size_t>(depth) * 2);
            else
                gather(to, at, from.column, depth, 2);
        }
}

// P or dS of the rows at hand in this block, dense.
void KeyGradient::copy_scores(const Piece<std::byte>& from, std::byte* to) const noexcept {
    for (const Chooser& chooser : choosers_) {
        const std::byte* at = kept(from, chooser.row) + chooser.choice * plan.width * 2;
        for (int64_t g = 0; g < e.group; ++g, at += e.count * plan.width * 2, to += e.size * 2)
            std::memcpy(to, at, static_cast<size_t>(e.size) * 2);
    }
}

// total += scores^T · from, over the rows at hand. Where they see a part of the block, the product ends there: the
// other keys get nothing.
void KeyGradient::add(Total& total, const Cube& from, const Piece<std::byte>& scores) noexcept {
    const KeyScratch& s = plan.key;
    const int64_t score_rows = static_cast<int64_t>(choosers_.size()) * e.group, depth = total.columns;
    std::byte *const heads = s.heads.at(workspace, slot), *const half = s.half.at(workspace, slot);
    copy_heads(from, depth, heads);
    copy_scores(scores, half);
    const gemm::Panel a = path.panel_a(seen_, score_rows), b = path.panel_b(depth, score_rows);
    std::byte *const packed_a = s.packed_half.at(workspace, slot), *const packed_b = s.columns.at(workspace, slot);
    pack_all(path, a, packed_a, score_rows, transposed({half, e.size, 1}));
    pack_all(path, b, packed_b, score_rows, transposed({heads, depth, 1}));
    const bool whole = seen_ == rows_;
    if (!whole) total.fold(plan.rows);
    multiply(path, a, packed_a, b, packed_b, depth, total.c, total.stride, total.accumulate());
    if (whole)
        total.added(plan.rows);
    else
        total.add_rows(plan.rows, seen_);
}

void KeyGradient::run(int64_t block, int64_t end) noexcept {
    const KeyScratch& s = plan.key;
    rows_ = e.block_at(block).rows;
    const Batch& batch = e.batch_of_block(block);
    const Chooser* const list = plan.list.at(workspace);
    const int64_t* const first = plan.first.at(workspace) + block;
    int64_t& next = plan.next.at(workspace)[block];
    const auto total = [&](const Piece<float>& c, const Piece<double>& sums, int64_t depth) {
        return Total{c.at(workspace, slot), sums.at(workspace, block), rows_, depth, round_up(depth, path.b.rows),
                     next > first[0]};
    };
    Total keys = total(s.key_c, plan.key_sums, e.depth), values = total(s.value_c, plan.value_sums, e.value_depth);
    int64_t last = next;
    while (last < first[1] && list[last].row < end) ++last;
    while (next < last) {
        // rows that see a part come first, each with its own share
        seen_ = e.choice(batch, list[next].row, block - batch.first_block).visible;
        const int64_t count = seen_ < rows_ ? 1 : std::min(plan.rows_at_once, last - next);
        choosers_ = {list + next, static_cast<size_t>(count)};
        add(values, plan.views.out_grad, plan.p);
        add(keys, plan.views.query, plan.ds);
        next += count;
    }
    keys.fold(plan.rows), values.fold(plan.rows);
}

}  // namespace gradus::nsa_selected_attention
