// One row: all scores of its heads, P and dS, and dQ by one product for every block it chose, in the order of its list.
#include <cmath>

#include "ops/nsa_selected_attention/plan_grad.h"

namespace gradus::nsa_selected_attention {

void QueryGradient::score() noexcept {
    const QueryScratch& s = plan.query;
    const int64_t head = key_head * e.group, length = e.count * plan.width;
    const gemm::Panel query = path.panel_a(e.group, e.depth), out_grad = path.panel_a(e.group, e.value_depth);
    std::byte *const packed_query = s.query.at(workspace, slot), *const packed_grad = s.out_grad.at(workspace, slot);
    pack_all(path, query, packed_query, e.depth, heads_of(plan.views.query, address, row_, head));
    pack_all(path, out_grad, packed_grad, e.value_depth, heads_of(plan.views.out_grad, address, row_, head));
    for (int64_t i = 0; i < choices_.count; ++i) {
        const Choice& choice = choices_.at[i];
        multiply(path, query, packed_query, path.panel_b(choice.rows, e.depth), plan.keys.at(workspace, choice.block),
                 choice.visible, s.scores.at(workspace, slot) + i * plan.width, length, false);
        multiply(path, out_grad, packed_grad, path.panel_b(choice.rows, e.value_depth),
                 plan.values.at(workspace, choice.block), choice.visible, s.dp.at(workspace, slot) + i * plan.width,
                 length, false);
        stretches_[i] = {i * plan.width, choice.visible};
    }
}

// Σ dO·O where O is given, else Σ P·dP, which is the same.
float QueryGradient::delta_of(int64_t head, float p_dp) noexcept {
    if (!plan.views.with_out) return p_dp;
    const std::byte* row[2];
    const Cube* const cubes[2] = {&plan.views.out_grad, &plan.views.out};
    for (int i = 0; i < 2; ++i) {
        const std::byte* const from = cubes[i]->at(address, row_, head);
        std::byte* const line = plan.query.lines.at(workspace, slot) + i * e.depth * 2;
        if (cubes[i]->column != 1) gather(line, from, cubes[i]->column, e.value_depth, 2);
        row[i] = cubes[i]->column != 1 ? line : from;
    }
    return plan.rows.dot(row[0], row[1], e.value_depth);
}

// P and dS of all heads. A head whose sum is 0 has seen nothing.
float QueryGradient::differentiate() noexcept {
    const QueryScratch& s = plan.query;
    const int64_t length = e.count * plan.width;
    const Stretches stretches{stretches_, static_cast<size_t>(choices_.count)};
    float worst = 0;
    for (int64_t g = 0; g < e.group; ++g) {
        const int64_t head = key_head * e.group + g;
        float *const p = s.scores.at(workspace, slot) + g * length, *const dp = s.dp.at(workspace, slot) + g * length;
        std::byte *const p_half = kept(plan.p, row_) + g * length * 2, *const ds = kept(plan.ds, row_) + g * length * 2;
        const Softmax given{plan.views.max.f32(address, row_, head), plan.views.sum.f32(address, row_, head)};
        if (given.sum == 0) {
            std::fill(ds, ds + length * 2, std::byte{0});
            std::fill(p_half, p_half + length * 2, std::byte{0});
            continue;
        }
        const Sums sums = plan.rows.probabilities(p, dp, stretches, static_cast<float>(e.scale), given);
        plan.rows.gradient(p, dp, stretches, delta_of(head, sums.p_dp), ds, p_half);
        worst = std::max(worst, std::fabs(sums.p - 1));
    }
    return worst;
}

// Products end at the last key that is seen: what a hidden key holds is nobody's business.
void QueryGradient::finish() noexcept {
    const QueryScratch& s = plan.query;
    Total total{s.c.at(workspace, slot), s.total.at(workspace, slot), e.group, e.depth, round_up(e.depth, path.b.rows)};
    std::byte* const packed = s.packed_ds.at(workspace, slot);
    for (int64_t i = 0; i < choices_.count; ++i) {
        const Choice& choice = choices_.at[i];
        const gemm::Panel a = path.panel_a(e.group, choice.visible), b = path.panel_b(e.depth, choice.visible);
        pack_all(path, a, packed, choice.visible, {kept(plan.ds, row_) + i * plan.width * 2, e.count * plan.width, 1});
        const std::byte* keys = plan.key_columns.at(workspace, choice.block);
        if (!choice.whole()) {
            std::byte* const part = s.part_keys.at(workspace, slot);
            pack_all(path, b, part, choice.visible, transposed(rows_of(plan.views.key, address, choice.key, key_head)));
            keys = part;
        }
        multiply(path, a, packed, b, keys, e.depth, total.c, total.stride, total.accumulate());
        total.added(plan.rows);
    }
    total.fold(plan.rows);
    const Cube& to = plan.views.query_grad;
    for (int64_t g = 0; g < e.group; ++g) {
        const int64_t head = key_head * e.group + g;
        std::byte* const at = to.at(address, row_, head);
        if (plan.views.sum.f32(address, row_, head) == 0)
            put_zeros(at, e.depth, to.column);
        else
            put_row(plan.rows, total.total + g * e.depth, e.depth, e.scale, at, to.column, s.lines.at(workspace, slot));
    }
}

float QueryGradient::run(int64_t row) noexcept {
    row_ = row;
    e.choose(plan.views.topk, address, row, key_head, choices_);
    if (choices_.count == 0) {
        const Cube& to = plan.views.query_grad;
        for (int64_t g = 0; g < e.group; ++g)
            put_zeros(to.at(address, row, key_head * e.group + g), e.depth, to.column);
        return 0;
    }
    score();
    const float worst = differentiate();
    finish();
    return worst;
}

}  // namespace gradus::nsa_selected_attention
