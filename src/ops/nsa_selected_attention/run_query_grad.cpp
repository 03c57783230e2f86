// Some rows: what their scores are compared with, and dQ from the dS that were kept, block after block.
#include <cmath>

#include "ops/nsa_selected_attention/run_attention_grad.h"

namespace gradus::nsa_selected_attention {

float QueryGradient::dot(int64_t row, int64_t head) noexcept {
    const std::byte* dense[2];
    const Strided* const views[2] = {&plan.views.out_grad, &plan.views.out};
    for (int i = 0; i < 2; ++i) {
        dense[i] = views[i]->at(address, row, head);
        if (views[i]->step[2] == 1) continue;
        std::byte* const line = plan.query.lines.at(workspace, slot) + i * e.depth * 2;
        gather(line, dense[i], views[i]->step[2], e.value_depth, 2);
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

// dS of some entries of one block, and its keys. Products end at the last key that is seen: what a hidden key holds is
// nobody's business. Packed keys know their end, so those of a part are packed again; in f32 it is the left operand's.
Operand QueryGradient::ds_of(const RowGroup& group, int64_t first, int64_t last) noexcept {
    const int64_t scores = e.group * plan.width, heads = (last - first) * e.group, visible = group[first].block.visible;
    std::byte *from = ds(group[first].row, group[first].place), *const to = plan.query.ds.at(workspace, slot);
    if (path.takes_f32()) {
        plan.rows.widen(from, scores, reinterpret_cast<float*>(to));
        return {path.as_it_lies(path.a, e.group, visible, plan.width, 1), to};
    }
    if (last - first > 1) {
        std::byte* const dense = plan.query.dense.at(workspace, slot);
        for (int64_t i = first; i < last; ++i)
            std::memcpy(dense + (i - first) * scores * 2, ds(group[i].row, group[i].place),
                        static_cast<size_t>(scores) * 2);
        from = dense;
    }
    return packed(path, path.panel_a(heads, visible), to, visible, {from, plan.width, 1});
}
Operand QueryGradient::keys_of(const SelectedBlock& b) noexcept {
    if (b.whole() || path.takes_f32()) return {path.panel_b(e.depth, b.rows), plan.key_columns.at(workspace, b.block)};
    return packed(path, path.panel_b(e.depth, b.visible), plan.query.part_keys.at(workspace, slot), b.visible,
                  rows_of(plan.views.key, address, b.key, key_head).transposed());
}

float QueryGradient::finish(int64_t row, const double* total) noexcept {
    const Strided& to = plan.views.query_grad;
    e.select(plan.views.topk, address, row, key_head, selection_);
    float worst = 0;
    for (int64_t g = 0; g < e.group; ++g) {
        std::byte* const at = to.at(address, row, key_head * e.group + g);
        if (total == nullptr || statistics(row)[e.group + g] == 0) {
            put_zeros(at, e.depth, to.step[2]);
            continue;
        }
        put_row(plan.rows, total + g * e.depth, e.depth, e.scale, at, to.step[2], plan.query.lines.at(workspace, slot));
        float p = 0;
        for (int64_t i = 0; i < selection_.count; ++i) p += sums(row, i)[g];
        worst = std::max(worst, std::fabs(p - 1));
    }
    return worst;
}

float QueryGradient::run(int64_t begin, int64_t end) noexcept {
    const QueryScratch& s = plan.query;
    const RowGroup group(e, plan.views.topk, address, key_head, begin, end, s.group.entries.at(workspace, slot),
                         s.group.order.at(workspace, slot));
    Totals totals(s.sums, path, plan.rows, workspace, slot, end - begin);
    group.each_run(s.sums.most_rows, [&](int64_t first, int64_t last) {
        totals.add(ds_of(group, first, last), keys_of(group[first].block), last - first,
                   [&](int64_t i) { return group[first + i].row - begin; });
    });
    float worst = 0;
    for (int64_t row = begin; row < end; ++row) worst = std::max(worst, finish(row, totals.finish(row - begin)));
    return worst;
}

}  // namespace gradus::nsa_selected_attention
