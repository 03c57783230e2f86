// Gradient, a head of the key and a stage of rows at a time: scores, P, dS, dK and dV block by block over the rows that
// selected the block, then dQ row by row over the blocks of the row. Of dS, rows·heads·count·size numbers in all, a
// stage's are kept.
#include <atomic>
#include <cmath>

#include "base/golden.h"
#include "base/log.h"
#include "ops/nsa_selected_attention/run_attention_grad.h"
#include "runtime/parallel.h"

namespace gradus::nsa_selected_attention {
namespace {

constexpr int64_t kGoldenColumns = 16;  // of dK or dV that golden sums in a task
// How far Σ P may be from 1 before somebody has mixed up masks or statistics.
constexpr float kFarFromOne = 0.1f;

void warn_once() noexcept {
    static std::atomic<bool> warned{false};
    if (!log_enabled(LogLevel::error) || warned.exchange(true)) return;
    log(LogLevel::error,
        "warning: aclnnNsaSelectedAttentionGrad: the probabilities of a row do not add up to 1; softmaxMax and "
        "softmaxSum are not those of this sparseMode (a forward without mask sees every key of its blocks)");
}

// Counting sort: for every block the rows that selected it and see a part of it, in order; a row that lists it twice is
// there twice. first: [blocks + 1], list: [rows·count]
void invert(const GradPlan& plan, std::byte* const* address, std::byte* workspace, int64_t key_head) noexcept {
    const Problem& e = plan.problem;
    int64_t* const first = plan.first.at(workspace);
    Selector* const list = plan.list.at(workspace);
    const auto each = [&](const auto& f) {
        Selection selection;
        for (int64_t row = 0; row < e.rows; ++row) {
            e.select(plan.views.topk, address, row, key_head, selection);
            for (int64_t i = 0; i < selection.count; ++i) f(row, selection.at[i].block, i);
        }
    };
    std::fill(first, first + e.blocks + 2, 0);
    each([first](int64_t, int64_t block, int64_t) { ++first[block + 2]; });
    for (int64_t b = 0; b < e.blocks; ++b) first[b + 2] += first[b + 1];
    each([=](int64_t row, int64_t block, int64_t place) {
        list[first[block + 1]++] = {static_cast<uint32_t>(row), static_cast<uint32_t>(place)};
    });
    std::copy(first, first + e.blocks, plan.next.at(workspace));
}

// The layouts of the products, of the blocks that somebody selected.
void prepare_blocks(const GradPlan& plan, std::byte* const* address, std::byte* workspace, int64_t head) noexcept {
    const Problem& e = plan.problem;
    const gemm::Path& path = *plan.path;
    const int64_t* const first = plan.first.at(workspace);
    parallel_for(e.blocks, plan.slots, [&](int64_t block, int) {
        if (first[block] == first[block + 1]) return;
        const SelectedBlock b = e.block_at(block);
        const gemm::Matrix keys = rows_of(plan.views.key, address, b.key, head);
        packed(path, path.panel_b(b.rows, e.depth), plan.keys.at(workspace, block), e.depth, keys);
        packed(path, path.panel_b(e.depth, b.rows), plan.key_columns.at(workspace, block), b.rows, keys.transposed());
        packed(path, path.panel_b(b.rows, e.value_depth), plan.values.at(workspace, block), e.value_depth,
               rows_of(plan.views.value, address, b.key, head));
    });
}

// dK and dV of a block into the results' views; zeros where nobody selected it.
void write_block(const GradPlan& plan, std::byte* const* address, std::byte* workspace, int64_t head, int64_t block,
                 int slot) noexcept {
    const Problem& e = plan.problem;
    const SelectedBlock keys = e.block_at(block);
    const int64_t* const first = plan.first.at(workspace) + block;
    const auto put = [&](const Strided& to, int64_t depth, const double* sums, double factor) {
        for (int64_t i = 0; i < keys.rows; ++i, sums += depth) {
            std::byte* const row = to.at(address, keys.key + i, head);
            if (first[0] == first[1])
                put_zeros(row, depth, to.step[2]);
            else
                put_row(plan.rows, sums, depth, factor, row, to.step[2], plan.key.line.at(workspace, slot));
        }
    };
    put(plan.views.key_grad, e.depth, plan.key_sums.at(workspace, block), e.scale);
    put(plan.views.value_grad, e.value_depth, plan.value_sums.at(workspace, block), 1);
}

// The rows of a stage, a group at a time: f(gradient, begin, end).
template <typename F>
void each_group(const Context& stage, const F& f) noexcept {
    const int64_t begin = stage.stage.begin, end = stage.stage.end, rows = stage.plan.group_rows;
    parallel_for(ceil_div(end - begin, rows), stage.plan.slots, [&](int64_t group, int slot) {
        const gemm::Using using_path(*stage.plan.path);
        QueryGradient gradient(stage.on(slot));
        f(gradient, begin + group * rows, std::min(end, begin + (group + 1) * rows));
    });
}

// The blocks that rows of a stage can have selected: with many sequences, stages times all blocks would be rows times
// keys.
template <typename F>
void each_block(const Context& stage, const F& f) noexcept {
    const Problem& e = stage.plan.problem;
    const int64_t first = e.sequence_of_row(stage.stage.begin).first_block;
    const Sequence& last = e.sequence_of_row(stage.stage.end - 1);
    parallel_for(last.first_block + e.blocks_of(last) - first, stage.plan.slots, [&](int64_t block, int slot) {
        const gemm::Using using_path(*stage.plan.path);
        KeyGradient gradient(stage.on(slot));
        f(gradient, first + block);
    });
}

void run_fast(const GradPlan& plan, std::byte* const* address, std::byte* workspace) noexcept {
    const Problem& e = plan.problem;
    std::atomic<bool> far{false};
    for (int64_t head = 0; head < e.key_heads; ++head) {
        invert(plan, address, workspace, head);
        prepare_blocks(plan, address, workspace, head);
        for (const Stage& rows : plan.stages) {
            const Context stage{plan, address, workspace, head, 0, rows};
            each_group(stage, [](QueryGradient& gradient, int64_t begin, int64_t end) {
                for (int64_t row = begin; row < end; ++row) gradient.prepare(row);
            });
            if (!plan.views.with_out) {
                each_block(stage, [](KeyGradient& gradient, int64_t block) { gradient.weigh(block); });
                each_group(stage, [](QueryGradient& gradient, int64_t begin, int64_t end) {
                    for (int64_t row = begin; row < end; ++row) gradient.set_delta(row);
                });
            }
            each_block(stage, [](KeyGradient& gradient, int64_t block) { gradient.run(block); });
            each_group(stage, [&](QueryGradient& gradient, int64_t begin, int64_t end) {
                if (gradient.run(begin, end) > kFarFromOne) far.store(true, std::memory_order_relaxed);
            });
        }
        parallel_for(e.blocks, plan.slots,
                     [&](int64_t block, int slot) { write_block(plan, address, workspace, head, block, slot); });
    }
    if (far.load(std::memory_order_relaxed)) warn_once();
}

// Rows are independent, and so are columns of dK and dV: each of their sums belongs to one task, in the order of rows.
void run_golden(const GradPlan& plan, std::byte* const* address, std::byte* workspace) noexcept {
    const Problem& e = plan.problem;
    const int64_t width = e.depth + e.value_depth;
    for (int64_t head = 0; head < e.key_heads; ++head) {
        GoldenStage stage{0,
                          0,
                          head,
                          plan.golden_seen.at(workspace),
                          plan.golden_p.at(workspace),
                          plan.golden_ds.at(workspace),
                          plan.golden_sums.at(workspace)};
        std::fill_n(stage.sums, e.keys * width * number_size(plan.how.precision), std::byte{0});
        for (; stage.begin < e.rows; stage.begin = stage.end) {
            stage.end = std::min(e.rows, stage.begin + plan.golden_rows);
            parallel_for(stage.end - stage.begin, plan.slots, [&](int64_t row, int slot) {
                golden_grad_row(e, plan.how, plan.views, address, stage, stage.begin + row,
                                plan.golden_numbers.at(workspace, slot));
            });
            parallel_for(ceil_div(width, kGoldenColumns), plan.slots, [&](int64_t part, int) {
                golden_grad_columns(e, plan.how, plan.views, address, stage, part * kGoldenColumns,
                                    std::min(width, (part + 1) * kGoldenColumns));
            });
        }
        parallel_for(e.keys, plan.slots,
                     [&](int64_t key, int) { golden_grad_store(e, plan.how, plan.views, address, stage, key); });
    }
}

}  // namespace

void GradPlan::run(std::byte* const* address, std::byte* workspace) const noexcept {
    path == nullptr ? run_golden(*this, address, workspace) : run_fast(*this, address, workspace);
}

}  // namespace gradus::nsa_selected_attention
