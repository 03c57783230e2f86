// One row: what its scores are compared with, and dQ by one product for every block it selected, in the order of its
// list.
#include <cmath>

#include "ops/nsa_selected_attention/run_attention_grad.h"

namespace gradus::nsa_selected_attention {

float QueryGradient::dot(int64_t row, int64_t head) noexcept {
    const std::byte* dense[2];
    const Cube* const cubes[2] = {&plan.views.out_grad, &plan.views.out};
    for (int i = 0; i < 2; ++i) {
        dense[i] = cubes[i]->at(address, row, head);
        if (cubes[i]->column == 1) continue;
        std::byte* const line = plan.query.lines.at(workspace, slot) + i * e.depth * 2;
        gather(line, dense[i], cubes[i]->column, e.value_depth, 2);
        dense[i] = line;
    }
    return plan.rows.dot(dense[0], dense[1], e.value_depth);
}

void QueryGradient::prepare(int64_t row) noexcept {
    float* const to = statistics(row);
    for (int64_t g = 0; g < e.group; ++g) {
        const int64_t head = key_head * e.group + g;
        to[g] = plan.views.max.f32(address, row, head);
        to[e.group + g] = plan.views.sum.f32(address, row, head);
        if (plan.views.with_out) to[2 * e.group + g] = dot(row, head);
    }
}

void QueryGradient::set_delta(int64_t row) noexcept {
    e.select(plan.views.topk, address, row, key_head, selection_);
    for (int64_t g = 0; g < e.group; ++g) {
        double delta = 0;
        for (int64_t i = 0; i < selection_.count; ++i) delta += static_cast<double>(sums(row, i)[g]);
        statistics(row)[2 * e.group + g] = static_cast<float>(delta);
    }
}

// dS of a block and its keys. Products end at the last key that is seen: what a hidden key holds is nobody's business.
// Packed keys know their end, so those of a part are packed again; in f32 it is the left operand's.
Operand QueryGradient::ds_of(int64_t row, int64_t place, int64_t visible) noexcept {
    std::byte *const from = ds(row, place), *const to = plan.query.ds.at(workspace, slot);
    if (!path.takes_f32())
        return packed(path, path.panel_a(e.group, visible), to, visible, {from, plan.width, 1});
    plan.rows.widen(from, e.group * plan.width, reinterpret_cast<float*>(to));
    return {path.as_it_lies(path.a, e.group, visible, plan.width, 1), to};
}
Operand QueryGradient::keys_of(const SelectedBlock& b) noexcept {
    if (b.whole() || path.takes_f32())
        return {path.panel_b(e.depth, b.rows), plan.key_columns.at(workspace, b.block)};
    return packed(path, path.panel_b(e.depth, b.visible), plan.query.part_keys.at(workspace, slot), b.visible,
                  transposed(rows_of(plan.views.key, address, b.key, key_head)));
}

float QueryGradient::run(int64_t row) noexcept {
    const QueryScratch& s = plan.query;
    const Cube& to = plan.views.query_grad;
    e.select(plan.views.topk, address, row, key_head, selection_);
    Total total{s.c.at(workspace, slot), s.total.at(workspace, slot), e.group, e.depth,
                round_up(e.depth, path.b.rows)};
    for (int64_t i = 0; i < selection_.count; ++i) {
        const SelectedBlock& b = selection_.at[i];
        multiply(path, ds_of(row, i, b.visible), keys_of(b), e.depth, total.c, total.stride, total.accumulate());
        total.added(plan.rows);
    }
    total.fold(plan.rows);
    float worst = 0;
    for (int64_t g = 0; g < e.group; ++g) {
        std::byte* const at = to.at(address, row, key_head * e.group + g);
        if (selection_.count == 0 || statistics(row)[e.group + g] == 0) {
            put_zeros(at, e.depth, to.column);
            continue;
        }
        put_row(plan.rows, total.total + g * e.depth, e.depth, e.scale, at, to.column, s.lines.at(workspace, slot));
        float p = 0;
        for (int64_t i = 0; i < selection_.count; ++i) p += sums(row, i)[g];
        worst = std::max(worst, std::fabs(p - 1));
    }
    return worst;
}

}  // namespace gradus::nsa_selected_attention
