// dK and dV of one block: the rows that chose it, in order, some hundred rows of scores at a time.
#include <cstring>

#include "ops/nsa_selected_attention/plan_grad.h"

namespace gradus::nsa_selected_attention {
namespace {

// Heads of a row, dense; a head that has seen nothing is zeros, so that nothing comes of it.
void copy_heads(const Cube& from, std::byte* const* address, int64_t row, int64_t head, int64_t n, bool nothing,
                std::byte* to) {
    const std::byte* const at = from.at(address, row, head);
    if (nothing)
        std::memset(to, 0, static_cast<size_t>(n) * 2);
    else if (from.column == 1)
        std::memcpy(to, at, static_cast<size_t>(n) * 2);
    else
        gather(to, at, from.column, n, 2);
}

}  // namespace

void KeyGradient::gather_rows_of(const uint32_t* rows, int64_t count) noexcept {
    const KeyScratch& s = plan.key;
    std::byte *query = s.query.at(workspace, slot), *out_grad = s.out_grad.at(workspace, slot);
    for (int64_t i = 0; i < count; ++i)
        for (int64_t head = key_head * e.group; head < (key_head + 1) * e.group; ++head) {
            const bool nothing = plan.views.sum.f32(address, rows[i], head) == 0;
            copy_heads(plan.views.query, address, rows[i], head, e.depth, nothing, query);
            copy_heads(plan.views.out_grad, address, rows[i], head, e.value_depth, nothing, out_grad);
            query += e.depth * 2, out_grad += e.value_depth * 2;
        }
}

// P and dS, [rows·G, size] in the operands' type.
void KeyGradient::score(const uint32_t* rows, int64_t count) noexcept {
    const KeyScratch& s = plan.key;
    score_rows_ = count * e.group;
    gather_rows_of(rows, count);
    float *const scores = s.scores.at(workspace, slot), *const dp = s.dp.at(workspace, slot);
    const auto product = [&](const std::byte* dense, std::byte* packed, int64_t depth, const std::byte* keys,
                             float* c) {
        const gemm::Panel a = path.panel_a(score_rows_, depth);
        pack_all(path, a, packed, depth, {dense, depth, 1});
        multiply(path, a, packed, path.panel_b(block_.rows, depth), keys, seen_, c, plan.width, false);
    };
    product(s.query.at(workspace, slot), s.row_query.at(workspace, slot), e.depth,
            plan.keys.at(workspace, block_.block), scores);
    product(s.out_grad.at(workspace, slot), s.row_out_grad.at(workspace, slot), e.value_depth,
            plan.values.at(workspace, block_.block), dp);
    const Stretch seen{0, seen_};
    for (int64_t i = 0; i < score_rows_; ++i) {
        const int64_t row = rows[i / e.group], g = i % e.group, head = key_head * e.group + g;
        std::byte *const p_half = s.p.at(workspace, slot) + i * e.size * 2, *const ds = s.ds.at(workspace, slot) +
                                                                                        i * e.size * 2;
        const Softmax given{plan.views.max.f32(address, row, head), plan.views.sum.f32(address, row, head)};
        if (given.sum == 0) {
            std::memset(p_half, 0, static_cast<size_t>(e.size) * 2);
            std::memset(ds, 0, static_cast<size_t>(e.size) * 2);
            continue;
        }
        float *const p = scores + i * plan.width, *const row_dp = dp + i * plan.width;
        plan.rows.probabilities(p, row_dp, {&seen, 1}, static_cast<float>(e.scale), given);
        plan.rows.gradient(p, row_dp, {&seen, 1}, plan.delta.at(workspace)[row * e.group + g], ds, p_half);
    }
}

// total += half^T · columns, over the rows at hand. Where they see a part of the block, the other keys get nothing: the
// product is added by rows.
void KeyGradient::add(Total& total, const gemm::Panel& columns, const std::byte* packed,
                      const std::byte* half) noexcept {
    const KeyScratch& s = plan.key;
    const gemm::Panel a = path.panel_a(seen_, score_rows_);
    std::byte* const packed_half = s.packed_p.at(workspace, slot);
    pack_all(path, a, packed_half, score_rows_, transposed({half, e.size, 1}));
    if (seen_ == block_.rows) {
        multiply(path, a, packed_half, columns, packed, total.columns, total.c, total.stride, total.accumulate());
        return total.added(plan.rows);
    }
    float* const part = s.part_c.at(workspace, slot);
    multiply(path, a, packed_half, columns, packed, total.columns, part, total.stride, false);
    total.add_rows(plan.rows, part, total.stride, seen_);
}

void KeyGradient::write(const Cube& to, const Total& total, double factor) noexcept {
    for (int64_t i = 0; i < block_.rows; ++i)
        put_row(plan.rows, total.total + i * total.columns, total.columns, factor,
                to.at(address, block_.key + i, key_head), to.column, plan.key.line.at(workspace, slot));
}

void KeyGradient::run(int64_t block) noexcept {
    block_ = e.block_at(block);
    const KeyScratch& s = plan.key;
    Total keys{s.key_c.at(workspace, slot), s.key_total.at(workspace, slot), block_.rows, e.depth,
               gemm::round_up(e.depth, path.b.rows)};
    Total values{s.value_c.at(workspace, slot), s.value_total.at(workspace, slot), block_.rows, e.value_depth,
                 gemm::round_up(e.value_depth, path.b.rows)};
    keys.clear(), values.clear();
    const int64_t *const first = plan.first.at(workspace), end = first[block + 1];
    const uint32_t* const list = plan.list.at(workspace);
    const Batch& batch = e.batch_of_block(block);
    for (int64_t i = first[block]; i < end;) {
        // rows that see a part come first, each with its own share
        seen_ = e.choice(batch, list[i], block - batch.first_block).visible;
        const int64_t count = seen_ < block_.rows ? 1 : std::min(plan.rows_at_once, end - i);
        score(list + i, count);
        const gemm::Panel query = path.panel_b(e.depth, score_rows_),
                          out_grad = path.panel_b(e.value_depth, score_rows_);
        std::byte *const by_query = s.column_query.at(workspace, slot), *const by_grad =
                                                                            s.column_out_grad.at(workspace, slot);
        pack_all(path, query, by_query, score_rows_, transposed({s.query.at(workspace, slot), e.depth, 1}));
        pack_all(path, out_grad, by_grad, score_rows_, transposed({s.out_grad.at(workspace, slot), e.value_depth, 1}));
        add(values, out_grad, by_grad, s.p.at(workspace, slot));
        add(keys, query, by_query, s.ds.at(workspace, slot));
        i += count;
    }
    keys.fold(plan.rows), values.fold(plan.rows);
    write(plan.views.key_grad, keys, e.scale);
    write(plan.views.value_grad, values, 1);
}

}  // namespace gradus::nsa_selected_attention
