// Forward: from views to numbers, scratch and path.
#include "base/golden.h"
#include "ops/nsa_selected_attention/effort.h"
#include "ops/nsa_selected_attention/plan.h"
#include "ops/nsa_selected_attention/run_attention.h"

namespace gradus::nsa_selected_attention {
namespace {

void book(AttentionPlan& plan, Scratch& scratch) {
    const gemm::Path& path = *plan.path;
    const Problem& e = plan.problem;
    plan.width = round_up(e.size, path.b.rows);
    plan.rows_at_once = rows_of_group(e, plan.width);
    const int64_t entries = plan.rows_at_once * e.count;
    const int64_t rows = std::clamp<int64_t>(kHeadsAtOnce / e.group, 1, entries);  // of one product
    const int64_t heads = few_heads(path, e.group) ? rows * e.group : e.group;
    plan.keys = scratch.book<std::byte>(path.panel_b(e.size, e.depth).bytes(), e.blocks);
    plan.values = scratch.book<std::byte>(path.panel_b(e.value_depth, e.size).bytes(), e.blocks);
    plan.group.book(scratch, entries, plan.slots);
    plan.visible = scratch.book<VisibleKeys>(entries, plan.slots);
    plan.seen = scratch.book<int64_t>(plan.rows_at_once, plan.slots);
    plan.scores = scratch.book<float>((entries * e.group + path.a.rows) * plan.width, plan.slots);
    plan.sums.book(scratch, path, plan.rows_at_once, e.group, e.value_depth, rows, plan.slots);
    plan.line = scratch.book<std::byte>(e.depth * 2, plan.slots);
    if (path.takes_f32()) {
        const int64_t most = plan.rows_at_once * e.group + path.a.rows;  // a tile is read behind the last row
        plan.query = scratch.book<std::byte>(most * wide_stride(path, e.depth) * 4, plan.slots);
        return;
    }
    plan.query = scratch.book<std::byte>(
        path.panel_a(heads, e.depth).bytes() * (few_heads(path, e.group) ? 1 : plan.rows_at_once), plan.slots);
    if (few_heads(path, e.group)) plan.dense = scratch.book<std::byte>(heads * e.depth * 2, plan.slots);
    plan.e = scratch.book<std::byte>(entries * e.group * plan.width * 2, plan.slots);
    plan.packed_e = scratch.book<std::byte>(path.panel_a(heads, e.size).bytes(), plan.slots);
    plan.part_values = scratch.book<std::byte>(path.panel_b(e.value_depth, e.size).bytes(), plan.slots);
}

}  // namespace

Planned plan_forward(const Call& call) {
    using namespace forward;
    Planned result;
    const TensorView &query = call.view(kQuery), &key = call.view(kKey);
    if (query.of(0) == 0) return result;
    const bool golden = call.config.golden();
    AttentionPlan plan;
    plan.problem = problem_of(call, kForwardPlaces, call.integer(kMode) == 2 && call.given(kMask));
    plan.views = {{kQuery, query},
                  {kKey, key},
                  {kValue, call.view(kValue)},
                  {kTopk, call.view(kTopk)},
                  {kMax, call.view(kMax)},
                  {kSum, call.view(kSum)},
                  {kOut, call.view(kOut)}};
    plan.slots = call.config.num_threads;
    if (golden) {
        plan.how = call.config.how();
        const int64_t numbers = most_keys(plan.problem, plan.how.mistake) + plan.problem.value_depth;
        plan.golden_numbers = result.scratch.book_bytes({numbers, number_size(plan.how.precision)}, plan.slots);
    } else {
        plan.path = &gemm::choose(query.dtype, call.config.max_isa);
        plan.rows = choose_rows(query.dtype, plan.path->takes_f32(), call.config.max_isa);
        book(plan, result.scratch);
    }
    result.bytes = effort_of(plan.problem, 1, golden);
    result.path = golden ? call.config.golden_path() : plan.path->name;
    if (!golden) result.why = gemm::why_chosen(query.dtype, call.config.max_isa);
    result.work = std::make_unique<const AttentionPlan>(std::move(plan));
    return result;
}

}  // namespace gradus::nsa_selected_attention
