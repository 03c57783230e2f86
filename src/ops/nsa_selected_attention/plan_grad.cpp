// Gradient, a head of the key at a time: dQ row by row over the blocks of the row, then dK and dV block by block over
// the rows that chose the block. Both compute the scores; keeping them would take rows·heads·count·size numbers.
#include <atomic>
#include <cmath>

#include "base/log.h"
#include "ops/nsa_selected_attention/plan_grad.h"
#include "runtime/parallel.h"

namespace gradus::nsa_selected_attention {
namespace {

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
    uint32_t* const list = plan.list.at(workspace);
    const auto each = [&](const auto& f) {
        Choices choices;
        for (int64_t row = 0; row < e.rows; ++row) {
            e.choose(plan.views.topk, address, row, key_head, choices);
            for (const Choice& choice : choices.all()) f(row, choice.block);
        }
    };
    std::fill(first, first + e.blocks + 2, 0);
    each([first](int64_t, int64_t block) { ++first[block + 2]; });
    for (int64_t b = 0; b < e.blocks; ++b) first[b + 2] += first[b + 1];
    each([=](int64_t row, int64_t block) { list[first[block + 1]++] = static_cast<uint32_t>(row); });
}

void pack_blocks(const GradPlan& plan, std::byte* const* address, std::byte* workspace, int64_t head) noexcept {
    const Extent& e = plan.extent;
    const gemm::Path& path = *plan.path;
    const int64_t* const first = plan.first.at(workspace);
    parallel_for(e.blocks, plan.slots, [&](int64_t block, int) {
        if (first[block] == first[block + 1]) return;  // nobody asks for it
        const Choice b = e.block_at(block);
        const gemm::Matrix keys = rows_of(plan.views.key, address, b.key, head);
        pack_all(path, path.panel_b(b.rows, e.depth), plan.keys.at(workspace, block), e.depth, keys);
        pack_all(path, path.panel_b(e.depth, b.rows), plan.key_columns.at(workspace, block), b.rows, transposed(keys));
        pack_all(path, path.panel_b(b.rows, e.value_depth), plan.values.at(workspace, block), e.value_depth,
                 rows_of(plan.views.value, address, b.key, head));
    });
}

void run_fast(const GradPlan& plan, std::byte* const* address, std::byte* workspace) noexcept {
    const Extent& e = plan.extent;
    std::atomic<bool> far{false};
    for (int64_t head = 0; head < e.key_heads; ++head) {
        invert(plan, address, workspace, head);
        pack_blocks(plan, address, workspace, head);
        parallel_for((e.rows + kRowsAtOnce - 1) / kRowsAtOnce, plan.slots, [&](int64_t block, int slot) {
            QueryGradient gradient(plan, address, workspace, head, slot);
            for (int64_t t = block * kRowsAtOnce; t < std::min(e.rows, (block + 1) * kRowsAtOnce); ++t) {
                const float worst = gradient.run(t);
                if (worst > kFarFromOne) far.store(true, std::memory_order_relaxed);
            }
        });
        parallel_for(e.blocks, plan.slots,
                     [&](int64_t block, int slot) { KeyGradient(plan, address, workspace, head, slot).run(block); });
    }
    if (far.load(std::memory_order_relaxed)) warn_once();
}

void run_golden(const GradPlan& plan, std::byte* const* address, std::byte* workspace) noexcept {
    for (int64_t head = 0; head < plan.extent.key_heads; ++head)
        golden_grad(plan.extent, plan.views, address, head, plan.golden_sums.at(workspace),
                    plan.golden_scores.at(workspace));
}

void book_query(GradPlan& plan, Scratch& scratch) {
    const gemm::Path& path = *plan.path;
    const Extent& e = plan.extent;
    const int64_t length = e.count * plan.width, heads = gemm::round_up(e.group, path.a.rows);
    QueryScratch& s = plan.query;
    s.query = scratch.book<std::byte>(path.panel_a(e.group, e.depth).bytes(), plan.slots);
    s.out_grad = scratch.book<std::byte>(path.panel_a(e.group, e.value_depth).bytes(), plan.slots);
    s.scores = scratch.book<float>(heads * length, plan.slots);
    s.dp = scratch.book<float>(heads * length, plan.slots);
    s.ds = scratch.book<std::byte>(e.group * length * 2, plan.slots);
    s.packed_ds = scratch.book<std::byte>(path.panel_a(e.group, e.size).bytes(), plan.slots);
    s.part_keys = scratch.book<std::byte>(path.panel_b(e.depth, e.size).bytes(), plan.slots);
    s.c = scratch.book<float>(heads * gemm::round_up(e.depth, path.b.rows), plan.slots);
    s.total = scratch.book<double>(e.group * e.depth, plan.slots);
    s.lines = scratch.book<std::byte>(2 * e.depth * 2, plan.slots);
}

void book_key(GradPlan& plan, Scratch& scratch) {
    const gemm::Path& path = *plan.path;
    const Extent& e = plan.extent;
    plan.rows_at_once = std::max<int64_t>(1, kScoreRows / e.group);
    const int64_t rows = plan.rows_at_once * e.group, padded = gemm::round_up(rows, path.a.rows);
    const int64_t keys = gemm::round_up(e.size, path.a.rows);
    KeyScratch& s = plan.key;
    s.query = scratch.book<std::byte>(rows * e.depth * 2, plan.slots);
    s.out_grad = scratch.book<std::byte>(rows * e.value_depth * 2, plan.slots);
    s.row_query = scratch.book<std::byte>(path.panel_a(rows, e.depth).bytes(), plan.slots);
    s.row_out_grad = scratch.book<std::byte>(path.panel_a(rows, e.value_depth).bytes(), plan.slots);
    s.column_query = scratch.book<std::byte>(path.panel_b(e.depth, rows).bytes(), plan.slots);
    s.column_out_grad = scratch.book<std::byte>(path.panel_b(e.value_depth, rows).bytes(), plan.slots);
    s.scores = scratch.book<float>(padded * plan.width, plan.slots);
    s.dp = scratch.book<float>(padded * plan.width, plan.slots);
    s.p = scratch.book<std::byte>(rows * e.size * 2, plan.slots);
    s.ds = scratch.book<std::byte>(rows * e.size * 2, plan.slots);
    s.packed_p = scratch.book<std::byte>(path.panel_a(e.size, rows).bytes(), plan.slots);
    s.key_c = scratch.book<float>(keys * gemm::round_up(e.depth, path.b.rows), plan.slots);
    s.value_c = scratch.book<float>(keys * gemm::round_up(e.value_depth, path.b.rows), plan.slots);
    s.part_c = scratch.book<float>(keys * gemm::round_up(e.depth, path.b.rows), plan.slots);
    s.key_total = scratch.book<double>(e.size * e.depth, plan.slots);
    s.value_total = scratch.book<double>(e.size * e.value_depth, plan.slots);
    s.line = scratch.book<std::byte>(e.depth * 2, plan.slots);
}

void book(GradPlan& plan, Scratch& scratch) {
    const gemm::Path& path = *plan.path;
    const Extent& e = plan.extent;
    plan.first = scratch.book<int64_t>(e.blocks + 2);
    plan.list = scratch.book<uint32_t>(e.rows * e.count);
    plan.delta = scratch.book<float>(e.rows * e.group);
    plan.keys = scratch.book<std::byte>(path.panel_b(e.size, e.depth).bytes(), e.blocks);
    plan.key_columns = scratch.book<std::byte>(path.panel_b(e.depth, e.size).bytes(), e.blocks);
    plan.values = scratch.book<std::byte>(path.panel_b(e.size, e.value_depth).bytes(), e.blocks);
    book_query(plan, scratch);
    book_key(plan, scratch);
}

}  // namespace

Planned plan_grad(const Call& call) {
    using namespace grad;
    Planned result;
    const TensorView &query = call.view(kQuery), &key = call.view(kKey);
    if (query.of(0) == 0 && key.of(0) == 0) return result;
    const bool golden = call.config.precision == Precision::golden;
    GradPlan plan{};
    plan.extent = extent_of(call,
                            {.query = kQuery,
                             .key = kKey,
                             .value = kValue,
                             .query_lengths = kQueryLengths,
                             .key_lengths = kKeyLengths,
                             .scale = kScale,
                             .size = kSize,
                             .count = kCount},
                            call.integer(kMode) == 2);
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
        plan.golden_sums = result.scratch.book<double>(e.keys * (e.depth + e.value_depth));
        plan.golden_scores = result.scratch.book<double>(2 * e.count * e.size);
    } else {
        plan.path = &gemm::choose(query.dtype, call.config.max_isa);
        plan.rows = choose_rows(query.dtype, call.config.max_isa);
        plan.width = gemm::round_up(e.size, plan.path->b.rows);
        book(plan, result.scratch);
    }
    result.bytes = effort_of(e, 3.5, golden);
    result.path = golden ? "golden" : plan.path->name;
    result.work = work_of(std::move(plan), golden ? &run_golden : &run_fast);
    return result;
}

}  // namespace gradus::nsa_selected_attention
