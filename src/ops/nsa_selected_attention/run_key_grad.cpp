// dK and dV of one block: the rows that selected it, in order, some hundred heads to a product. Everything that belongs
// to a block and these heads is done while it is in the cache: scores, P and dS, both products. Of dS a copy is kept
// for dQ.
#include "ops/nsa_selected_attention/run_attention_grad.h"

namespace gradus::nsa_selected_attention {

// Heads of the rows at hand as the left operand, [heads, depth]; `to` holds them by columns for the second product. A
// head that has seen nothing is zeros, so that nothing comes of it.
Operand KeyGradient::take_heads(const Strided& from, int64_t depth, std::byte* to) noexcept {
    const KeyScratch& s = plan.key;
    const bool wide = path.takes_f32();
    const int64_t stride = wide ? wide_stride(path, depth) : depth, item = wide ? 4 : 2;
    std::byte* const dense = wide ? to : s.dense.at(workspace, slot);
    std::byte* at = dense;
    for (const Selector& selector : selectors_) {
        const float* const sum = statistics(selector.row) + e.group;
        for (int64_t g = 0; g < e.group; ++g, at += stride * item)
            if (sum[g] == 0)
                std::memset(at, 0, static_cast<size_t>(depth * item));
            else
                copy_head(plan.rows, from.at(address, selector.row, key_head * e.group + g), from.step[2], depth, wide,
                          at, s.line.at(workspace, slot));
    }
    const int64_t heads = static_cast<int64_t>(selectors_.size()) * e.group;
    if (wide) return {path.as_it_lies(path.a, heads, depth, stride, 1), to};
    packed(path, path.panel_b(depth, heads), to, heads, gemm::Matrix{dense, depth, 1}.transposed());
    return packed(path, path.panel_a(heads, depth), s.left.at(workspace, slot), depth, {dense, depth, 1});
}

// The right operand of the second product, from what take_heads left there: [depth, heads].
Operand KeyGradient::heads_by_columns(int64_t depth, const std::byte* heads) const noexcept {
    const int64_t count = static_cast<int64_t>(selectors_.size()) * e.group;
    if (path.takes_f32()) return {path.as_it_lies(path.b, depth, count, 1, wide_stride(path, depth)), heads};
    return {path.panel_b(depth, count), heads};
}

// q·k and dO·v of the rows at hand: [heads, width]
void KeyGradient::score(int64_t block) noexcept {
    const KeyScratch& s = plan.key;
    const auto product = [&](const Strided& from, int64_t depth, std::byte* heads, const std::byte* keys, float* to) {
        multiply(path, take_heads(from, depth, heads), {path.panel_b(rows_, depth), keys}, visible_, to, plan.width,
                 false);
    };
    product(plan.views.query, e.depth, s.query.at(workspace, slot), plan.keys.at(workspace, block),
            s.scores.at(workspace, slot));
    product(plan.views.out_grad, e.value_depth, s.out_grad.at(workspace, slot), plan.values.at(workspace, block),
            s.dp.at(workspace, slot));
}

void KeyGradient::each_row(void (*f)(const BlockScores&) noexcept) noexcept {
    const KeyScratch& s = plan.key;
    float *const scores = s.scores.at(workspace, slot), *const dp = s.dp.at(workspace, slot);
    int64_t at = 0;
    for (const Selector& selector : selectors_) {
        const float* const given = statistics(selector.row);
        BlockScores b{.s = scores + at,
                      .dp = dp + at,
                      .heads = e.group,
                      .keys = visible_,
                      .stride = plan.width,
                      .max = given,
                      .sum = given + e.group,
                      .delta = given + 2 * e.group,
                      .scale = static_cast<float>(e.scale),
                      .p = scores + at,
                      .ds = dp + at,
                      .kept = ds(selector.row, selector.place),
                      .sums = sums(selector.row, selector.place)};
        if (!path.takes_f32()) b.p = s.p.at(workspace, slot) + at * 2, b.ds = s.ds.at(workspace, slot) + at * 2;
        f(b);
        at += e.group * plan.width;
    }
}

// total += scores^T · heads. Where the rows at hand see a part of the block, the product ends there: the other keys get
// nothing.
void KeyGradient::add(Total& total, const Operand& heads, std::byte* rounded, float* wide) noexcept {
    const int64_t count = static_cast<int64_t>(selectors_.size()) * e.group;
    const Operand scores =
        path.takes_f32()
            ? Operand{path.as_it_lies(path.a, visible_, count, 1, plan.width), reinterpret_cast<const std::byte*>(wide)}
            : packed(path, path.panel_a(visible_, count), plan.key.left_scores.at(workspace, slot), count,
                     gemm::Matrix{rounded, plan.width, 1}.transposed());
    const bool whole = visible_ == rows_;
    if (!whole) total.fold(plan.rows);
    multiply(path, scores, heads, total.columns, total.c, total.stride, total.accumulate());
    if (whole)
        total.added(plan.rows);
    else
        total.add_rows(plan.rows, visible_);
}

// Cuts the block's list into what one product takes, from `from` to the end of the stage. Rows that see a part of the
// block come first, each with its own share.
template <typename F>
void KeyGradient::each_product(int64_t block, int64_t from, const F& f) noexcept {
    rows_ = e.block_at(block).rows;
    const Sequence& sequence = e.sequence_of_block(block);
    const Selector* const list = plan.list.at(workspace);
    const int64_t end = plan.first.at(workspace)[block + 1];
    int64_t last = from;
    while (last < end && list[last].row < stage.end) ++last;
    for (int64_t count; from < last; from += count) {
        visible_ = e.selected(sequence, list[from].row, block - sequence.first_block).visible;
        count = visible_ < rows_ ? 1 : std::min(plan.rows_at_once, last - from);
        selectors_ = {list + from, static_cast<size_t>(count)};
        f();
    }
}

void KeyGradient::weigh(int64_t block) noexcept {
    each_product(block, plan.next.at(workspace)[block], [&] {
        score(block);
        each_row(plan.rows.weigh);
    });
}

void KeyGradient::run(int64_t block) noexcept {
    const KeyScratch& s = plan.key;
    int64_t& next = plan.next.at(workspace)[block];
    const bool begun = next > plan.first.at(workspace)[block];
    const auto total = [&](const Piece<float>& c, const Piece<double>& sums_of, int64_t depth) {
        return Total{c.at(workspace, slot),        sums_of.at(workspace, block),
                     e.block_at(block).rows,       depth,
                     round_up(depth, path.b.rows), begun};
    };
    Total keys = total(s.key_c, plan.key_sums, e.depth), values = total(s.value_c, plan.value_sums, e.value_depth);
    each_product(block, next, [&] {
        score(block);
        each_row(plan.rows.differentiate);
        add(values, heads_by_columns(e.value_depth, s.out_grad.at(workspace, slot)), s.p.at(workspace, slot),
            s.scores.at(workspace, slot));
        add(keys, heads_by_columns(e.depth, s.query.at(workspace, slot)), s.ds.at(workspace, slot),
            s.dp.at(workspace, slot));
        next += static_cast<int64_t>(selectors_.size());
    });
    keys.fold(plan.rows), values.fold(plan.rows);
}

}  // namespace gradus::nsa_selected_attention
