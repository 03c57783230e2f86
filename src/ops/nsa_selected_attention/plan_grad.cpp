// Gradient, a head of the key and a stage of rows at a time: P, dS and dQ row by row over the blocks of the row, then
// dK and dV block by block over the rows that chose the block. Of P and dS, rows·heads·count·size numbers in all, a
// stage's are kept.
#include <atomic>
#include <cmath>

#include "base/golden.h"
#include "base/log.h"
#include "ops/nsa_selected_attention/plan_grad.h"
#include "runtime/parallel.h"

namespace gradus::nsa_selected_attention {
namespace {

// Golden keeps so many P and dS at a time, and sums so many columns of dK or dV in a task.
constexpr int64_t kGoldenScores = 1 << 19, kGoldenColumns = 16;
// How far Σ P may be from 1 before somebody has mixed up masks or statistics.
constexpr float kFarFromOne = 0.1f;

void warn_once() noexcept {
    static std::atomic<bool> warned{false};
    if (!log_enabled(LogLevel::error) || warned.exchange(true)) return;
    log(LogLevel::error,
        "warning: aclnnNsaSelectedAttentionGrad: the probabilities of a row do not add up to 1; softmaxMax and "
        "softmaxSum "
        "are not those of this sparseMode (a forward without mask sees every key of its blocks)");
}

// Counting sort: for every block the rows that chose it and see a part of it, in order; a row that lists it twice is
// there twice. first: [blocks + 1], list: [rows·count]
void invert(const GradPlan& plan, std::byte* const* address, std::byte* workspace, int64_t key_head) noexcept {
    const Extent& e = plan.extent;
    int64_t* const first = plan.first.at(workspace);
    Chooser* const list = plan.list.at(workspace);
    const auto each = [&](const auto& f) {
        Choices choices;
        for (int64_t row = 0; row < e.rows; ++row) {
            e.choose(plan.views.topk, address, row, key_head, choices);
            for (int64_t i = 0; i < choices.count; ++i) f(row, choices.at[i].block, i);
        }
    };
    std::fill(first, first + e.blocks + 2, 0);
    each([first](int64_t, int64_t block, int64_t) { ++first[block + 2]; });
    for (int64_t b = 0; b < e.blocks; ++b) first[b + 2] += first[b + 1];
    each([=](int64_t row, int64_t block, int64_t choice) {
        list[first[block + 1]++] = {static_cast<uint32_t>(row), static_cast<uint32_t>(choice)};
    });
    std::copy(first, first + e.blocks, plan.next.at(workspace));
}

// The layouts of the products, of the blocks that somebody chose.
void prepare_blocks(const GradPlan& plan, std::byte* const* address, std::byte* workspace, int64_t head) noexcept {
    const Extent& e = plan.extent;
    const gemm::Path& path = *plan.path;
    const int64_t* const first = plan.first.at(workspace);
    parallel_for(e.blocks, plan.slots, [&](int64_t block, int) {
        if (first[block] == first[block + 1]) return;
        const Choice b = e.block_at(block);
        const gemm::Matrix keys = rows_of(plan.views.key, address, b.key, head);
        pack_all(path, path.panel_b(b.rows, e.depth), plan.keys.at(workspace, block), e.depth, keys);
        pack_all(path, path.panel_b(e.depth, b.rows), plan.key_columns.at(workspace, block), b.rows, transposed(keys));
        pack_all(path, path.panel_b(b.rows, e.value_depth), plan.values.at(workspace, block), e.value_depth,
                 rows_of(plan.views.value, address, b.key, head));
    });
}

// dK and dV of a block into the results' views; zeros where nobody chose it.
void write_block(const GradPlan& plan, std::byte* const* address, std::byte* workspace, int64_t head, int64_t block,
                 int slot) noexcept {
    const Extent& e = plan.extent;
    const Choice keys = e.block_at(block);
    const int64_t* const first = plan.first.at(workspace) + block;
    const auto put = [&](const Cube& to, int64_t depth, const double* sums, double factor) {
        for (int64_t i = 0; i < keys.rows; ++i, sums += depth) {
            std::byte* const row = to.at(address, keys.key + i, head);
            if (first[0] == first[1])
                put_zeros(row, depth, to.column);
            else
                put_row(plan.rows, sums, depth, factor, row, to.column, plan.key.line.at(workspace, slot));
        }
    };
    put(plan.views.key_grad, e.depth, plan.key_sums.at(workspace, block), e.scale);
    put(plan.views.value_grad, e.value_depth, plan.value_sums.at(workspace, block), 1);
}

void run_fast(const GradPlan& plan, std::byte* const* address, std::byte* workspace) noexcept {
    const Extent& e = plan.extent;
    std::atomic<bool> far{false};
    for (int64_t head = 0; head < e.key_heads; ++head) {
        invert(plan, address, workspace, head);
        prepare_blocks(plan, address, workspace, head);
        for (const Stage& stage : plan.stages) {
            parallel_for((stage.end - stage.begin + kRowsAtOnce - 1) / kRowsAtOnce, plan.slots,
                         [&](int64_t block, int slot) {
                             QueryGradient gradient(plan, address, workspace, head, slot, stage.begin);
                             const int64_t first = stage.begin + block * kRowsAtOnce;
                             for (int64_t t = first; t < std::min(stage.end, first + kRowsAtOnce); ++t) {
                                 const float worst = gradient.run(t);
                                 if (worst > kFarFromOne) far.store(true, std::memory_order_relaxed);
                             }
                         });
            // nobody else's blocks: with many batches, stages times all blocks would be rows times keys
            const int64_t first = e.batch_of_row(stage.begin).first_block;
            const Batch& last = e.batch_of_row(stage.end - 1);
            const int64_t end = last.first_block + e.blocks_of(last);
            parallel_for(end - first, plan.slots, [&](int64_t block, int slot) {
                KeyGradient(plan, address, workspace, head, slot, stage.begin).run(first + block, stage.end);
            });
        }
        parallel_for(e.blocks, plan.slots,
                     [&](int64_t block, int slot) { write_block(plan, address, workspace, head, block, slot); });
    }
    if (far.load(std::memory_order_relaxed)) warn_once();
}

// Rows are independent, and so are columns of dK and dV: each of their sums belongs to one task, in the order of rows.
void run_golden(const GradPlan& plan, std::byte* const* address, std::byte* workspace) noexcept {
    const Extent& e = plan.extent;
    const int64_t width = e.depth + e.value_depth;
    for (int64_t head = 0; head < e.key_heads; ++head) {
        GoldenStage stage{0,
                          0,
                          head,
                          plan.golden_seen.at(workspace),
                          plan.golden_p.at(workspace),
                          plan.golden_ds.at(workspace),
                          plan.golden_sums.at(workspace)};
        std::fill_n(stage.sums, e.keys * width * number_size(plan.precision), std::byte{0});
        for (; stage.begin < e.rows; stage.begin = stage.end) {
            stage.end = std::min(e.rows, stage.begin + plan.golden_rows);
            parallel_for(stage.end - stage.begin, plan.slots, [&](int64_t row, int slot) {
                golden_grad_row(e, plan.precision, plan.views, address, stage, stage.begin + row,
                                plan.golden_numbers.at(workspace, slot));
            });
            parallel_for((width + kGoldenColumns - 1) / kGoldenColumns, plan.slots, [&](int64_t part, int) {
                golden_grad_columns(e, plan.precision, plan.views, address, stage, part * kGoldenColumns,
                                    std::min(width, (part + 1) * kGoldenColumns));
            });
        }
        parallel_for(e.keys, plan.slots,
                     [&](int64_t key, int) { golden_grad_store(e, plan.precision, plan.views, address, stage, key); });
    }
}

void book_golden(GradPlan& plan, Scratch& scratch) {
    const Extent& e = plan.extent;
    const int64_t number = number_size(plan.precision), scores = e.group * e.count * e.size;
    plan.golden_rows = std::clamp<int64_t>(kGoldenScores / scores, 1, std::max<int64_t>(1, e.rows));
    plan.golden_numbers = scratch.book_bytes({e.depth, number}, plan.slots);
    plan.golden_seen = scratch.book<int64_t>(plan.golden_rows * e.group);
    plan.golden_p = scratch.book_bytes({plan.golden_rows, scores, number});
    plan.golden_ds = scratch.book_bytes({plan.golden_rows, scores, number});
    plan.golden_sums = scratch.book_bytes({e.keys, e.depth + e.value_depth, number});
}

void book_query(GradPlan& plan, Scratch& scratch) {
    const gemm::Path& path = *plan.path;
    const Extent& e = plan.extent;
    const int64_t length = e.count * plan.width, heads = round_up(e.group, path.a.rows);
    QueryScratch& s = plan.query;
    s.query = scratch.book<std::byte>(path.panel_a(e.group, e.depth).bytes(), plan.slots);
    s.out_grad = scratch.book<std::byte>(path.panel_a(e.group, e.value_depth).bytes(), plan.slots);
    s.scores = scratch.book<float>(heads * length, plan.slots);
    s.dp = scratch.book<float>(heads * length, plan.slots);
    s.packed_ds = scratch.book<std::byte>(path.panel_a(e.group, e.size).bytes(), plan.slots);
    s.part_keys = scratch.book<std::byte>(path.panel_b(e.depth, e.size).bytes(), plan.slots);
    s.c = scratch.book<float>(heads * round_up(e.depth, path.b.rows), plan.slots);
    s.total = scratch.book<double>(e.group * e.depth, plan.slots);
    s.lines = scratch.book<std::byte>(2 * e.depth * 2, plan.slots);
}

void book_key(GradPlan& plan, Scratch& scratch) {
    const gemm::Path& path = *plan.path;
    const Extent& e = plan.extent;
    plan.rows_at_once = std::max<int64_t>(1, kScoreRows / e.group);
    const int64_t rows = plan.rows_at_once * e.group, keys = round_up(e.size, path.a.rows);
    KeyScratch& s = plan.key;
    s.heads = scratch.book<std::byte>(rows * e.depth * 2, plan.slots);
    s.columns = scratch.book<std::byte>(path.panel_b(e.depth, rows).bytes(), plan.slots);
    s.half = scratch.book<std::byte>(rows * e.size * 2, plan.slots);
    s.packed_half = scratch.book<std::byte>(path.panel_a(e.size, rows).bytes(), plan.slots);
    s.key_c = scratch.book<float>(keys * round_up(e.depth, path.b.rows), plan.slots);
    s.value_c = scratch.book<float>(keys * round_up(e.value_depth, path.b.rows), plan.slots);
    s.line = scratch.book<std::byte>(e.depth * 2, plan.slots);
}

// Batches are cut after so many rows of their own, and neighbours share a stage while they fit: how the sums of a block
// are cut follows from its batch alone. Returns the rows of the longest stage.
int64_t set_stages(GradPlan& plan) {
    const Extent& e = plan.extent;
    const int64_t most = std::max(2 * kRowsAtOnce, kKeptBytes / (2 * e.group * e.count * plan.width * 2));
    int64_t longest = 0;
    for (const Batch& batch : e.batches)
        for (int64_t begin = batch.query_begin; begin < batch.query_end; begin += most) {
            const int64_t end = std::min(begin + most, batch.query_end);
            if (!plan.stages.empty() && end - plan.stages.back().begin <= most)
                plan.stages.back().end = end;
            else
                plan.stages.push_back({begin, end});
            longest = std::max(longest, end - plan.stages.back().begin);
        }
    return longest;
}

void book(GradPlan& plan, Scratch& scratch) {
    const gemm::Path& path = *plan.path;
    const Extent& e = plan.extent;
    plan.first = scratch.book<int64_t>(e.blocks + 2);
    plan.next = scratch.book<int64_t>(e.blocks);
    plan.list = scratch.book<Chooser>(e.rows * e.count);
    plan.keys = scratch.book<std::byte>(path.panel_b(e.size, e.depth).bytes(), e.blocks);
    plan.key_columns = scratch.book<std::byte>(path.panel_b(e.depth, e.size).bytes(), e.blocks);
    plan.values = scratch.book<std::byte>(path.panel_b(e.size, e.value_depth).bytes(), e.blocks);
    plan.key_sums = scratch.book<double>(e.size * e.depth, e.blocks);
    plan.value_sums = scratch.book<double>(e.size * e.value_depth, e.blocks);
    const int64_t kept = set_stages(plan) * e.group * e.count * plan.width * 2;
    plan.p = scratch.book<std::byte>(kept);
    plan.ds = scratch.book<std::byte>(kept);
    book_query(plan, scratch);
    book_key(plan, scratch);
}

}  // namespace

void GradPlan::run(std::byte* const* address, std::byte* workspace) const noexcept {
    path == nullptr ? run_golden(*this, address, workspace) : run_fast(*this, address, workspace);
}

Planned plan_grad(const Call& call) {
    using namespace grad;
    Planned result;
    const TensorView &query = call.view(kQuery), &key = call.view(kKey);
    if (query.of(0) == 0 && key.of(0) == 0) return result;
    const bool golden = call.config.golden();
    GradPlan plan;
    plan.extent = extent_of(call, kGradPlaces, call.integer(kMode) == 2);
    plan.views = {{kQuery, query},
                  {kKey, key},
                  {kValue, call.view(kValue)},
                  call.given(kOut) ? Cube(kOut, call.view(kOut)) : Cube(),
                  {kOutGrad, call.view(kOutGrad)},
                  {kMax, call.view(kMax)},
                  {kSum, call.view(kSum)},
                  {kTopk, call.view(kTopk)},
                  {kQueryGrad, call.view(kQueryGrad)},
                  {kKeyGrad, call.view(kKeyGrad)},
                  {kValueGrad, call.view(kValueGrad)},
                  call.given(kOut)};
    plan.slots = call.config.num_threads;
    const Extent& e = plan.extent;
    if (golden) {
        plan.precision = call.config.precision;
        book_golden(plan, result.scratch);
    } else {
        plan.path = &gemm::choose(query.dtype, call.config.max_isa);
        plan.rows = choose_rows(query.dtype, call.config.max_isa);
        plan.width = round_up(e.size, plan.path->b.rows);
        book(plan, result.scratch);
    }
    result.bytes = effort_of(e, 3.5, golden);
    result.path = golden ? call.config.golden_path() : plan.path->name;
    result.work = std::make_unique<const GradPlan>(std::move(plan));
    return result;
}

}  // namespace gradus::nsa_selected_attention
