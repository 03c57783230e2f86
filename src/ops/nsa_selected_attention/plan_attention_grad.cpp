// Gradient: from views to numbers, stages, scratch and path.
#include "base/golden.h"
#include "ops/nsa_selected_attention/effort.h"
#include "ops/nsa_selected_attention/plan.h"
#include "ops/nsa_selected_attention/run_attention_grad.h"

namespace gradus::nsa_selected_attention {
namespace {

constexpr int64_t kLeastRows = 16;          // of a stage
constexpr int64_t kGoldenScores = 1 << 19;  // P and dS that golden keeps at a time

void book_golden(GradPlan& plan, Scratch& scratch) {
    const Problem& e = plan.problem;
    const int64_t number = number_size(plan.how.precision), scores = e.group * most_keys(e, plan.how.mistake);
    plan.golden_rows = std::clamp<int64_t>(kGoldenScores / scores, 1, std::max<int64_t>(1, e.rows));
    plan.golden_numbers = scratch.book_bytes({e.depth, number}, plan.slots);
    plan.golden_seen = scratch.book<int64_t>(plan.golden_rows * e.group);
    plan.golden_p = scratch.book_bytes({plan.golden_rows, scores, number});
    plan.golden_ds = scratch.book_bytes({plan.golden_rows, scores, number});
    plan.golden_sums = scratch.book_bytes({e.keys, e.depth + e.value_depth, number});
}

void book_query(GradPlan& plan, Scratch& scratch) {
    const gemm::Path& path = *plan.path;
    const Problem& e = plan.problem;
    plan.group_rows = rows_of_group(e, plan.width);
    const int64_t entries = plan.group_rows * e.count;
    const int64_t rows = std::clamp<int64_t>(kHeadsAtOnce / e.group, 1, entries);  // of one product
    const int64_t heads = few_heads(path, e.group) ? rows * e.group : e.group;
    QueryScratch& s = plan.query;
    s.group.book(scratch, entries, plan.slots);
    s.sums.book(scratch, path, plan.group_rows, e.group, e.depth, rows, plan.slots);
    s.lines = scratch.book<std::byte>(2 * e.depth * 2, plan.slots);
    if (path.takes_f32()) {
        s.ds = scratch.book<std::byte>(round_up(heads, path.a.rows) * plan.width * 4, plan.slots);
        return;
    }
    s.dense = scratch.book<std::byte>(heads * plan.width * 2, plan.slots);
    s.ds = scratch.book<std::byte>(path.panel_a(heads, e.size).bytes(), plan.slots);
    s.part_keys = scratch.book<std::byte>(path.panel_b(e.depth, e.size).bytes(), plan.slots);
}

void book_key(GradPlan& plan, Scratch& scratch) {
    const gemm::Path& path = *plan.path;
    const Problem& e = plan.problem;
    const int64_t rows = std::max<int64_t>(1, kHeadsAtOnce / e.group);
    plan.rows_at_once = std::clamp<int64_t>(e.rows * e.count, 1, rows);
    const int64_t heads = plan.rows_at_once * e.group, room = round_up(heads, path.a.rows);
    const int64_t keys = round_up(e.size, path.a.rows);
    KeyScratch& s = plan.key;
    s.scores = scratch.book<float>(room * plan.width, plan.slots);
    s.dp = scratch.book<float>(room * plan.width, plan.slots);
    s.key_c = scratch.book<float>(keys * round_up(e.depth, path.b.rows), plan.slots);
    s.value_c = scratch.book<float>(keys * round_up(e.value_depth, path.b.rows), plan.slots);
    s.line = scratch.book<std::byte>(e.depth * 2, plan.slots);
    if (path.takes_f32()) {
        s.query = scratch.book<std::byte>(room * wide_stride(path, e.depth) * 4, plan.slots);
        s.out_grad = scratch.book<std::byte>(room * wide_stride(path, e.value_depth) * 4, plan.slots);
        return;
    }
    s.query = scratch.book<std::byte>(path.panel_b(e.depth, heads).bytes(), plan.slots);
    s.out_grad = scratch.book<std::byte>(path.panel_b(e.value_depth, heads).bytes(), plan.slots);
    s.dense = scratch.book<std::byte>(heads * e.depth * 2, plan.slots);
    s.left = scratch.book<std::byte>(path.panel_a(heads, e.depth).bytes(), plan.slots);
    s.p = scratch.book<std::byte>(heads * plan.width * 2, plan.slots);
    s.ds = scratch.book<std::byte>(heads * plan.width * 2, plan.slots);
    s.left_scores = scratch.book<std::byte>(path.panel_a(e.size, heads).bytes(), plan.slots);
}

// Batches are cut after so many rows of their own, and neighbours share a stage while they fit: how the sums of a block
// are cut follows from its sequence alone. Returns the rows of the longest stage.
int64_t set_stages(GradPlan& plan) {
    const Problem& e = plan.problem;
    const int64_t most = std::max<int64_t>(kLeastRows, kKeptBytes / (e.group * e.count * plan.width * 2));
    int64_t longest = 0;
    for (const Sequence& sequence : e.sequences)
        for (int64_t begin = sequence.query_begin; begin < sequence.query_end; begin += most) {
            const int64_t end = std::min(begin + most, sequence.query_end);
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
    const Problem& e = plan.problem;
    plan.first = scratch.book<int64_t>(e.blocks + 2);
    plan.next = scratch.book<int64_t>(e.blocks);
    plan.list = scratch.book<Selector>(e.rows * e.count);
    plan.keys = scratch.book<std::byte>(path.panel_b(e.size, e.depth).bytes(), e.blocks);
    plan.key_columns = scratch.book<std::byte>(path.panel_b(e.depth, e.size).bytes(), e.blocks);
    plan.values = scratch.book<std::byte>(path.panel_b(e.size, e.value_depth).bytes(), e.blocks);
    plan.key_sums = scratch.book<double>(e.size * e.depth, e.blocks);
    plan.value_sums = scratch.book<double>(e.size * e.value_depth, e.blocks);
    const int64_t heads = set_stages(plan) * e.group;
    plan.statistics = scratch.book<float>(heads * 3);
    plan.sums = scratch.book<float>(heads * e.count);
    plan.ds = scratch.book<std::byte>(heads * e.count * plan.width * 2);
    book_key(plan, scratch);
    book_query(plan, scratch);
}

}  // namespace

Planned plan_grad(const Call& call) {
    using namespace grad;
    Planned result;
    const TensorView &query = call.view(kQuery), &key = call.view(kKey);
    if (query.of(0) == 0 && key.of(0) == 0) return result;
    const bool golden = call.config.golden();
    GradPlan plan;
    plan.problem = problem_of(call, kGradPlaces, call.integer(kMode) == 2);
    plan.views = {{kQuery, query},
                  {kKey, key},
                  {kValue, call.view(kValue)},
                  call.given(kOut) ? Strided(kOut, call.view(kOut)) : Strided(),
                  {kOutGrad, call.view(kOutGrad)},
                  {kMax, call.view(kMax)},
                  {kSum, call.view(kSum)},
                  {kTopk, call.view(kTopk)},
                  {kQueryGrad, call.view(kQueryGrad)},
                  {kKeyGrad, call.view(kKeyGrad)},
                  {kValueGrad, call.view(kValueGrad)},
                  call.given(kOut)};
    plan.slots = call.config.num_threads;
    const Problem& e = plan.problem;
    if (golden) {
        plan.how = call.config.how();
        book_golden(plan, result.scratch);
    } else {
        plan.path = &gemm::choose(query.dtype, call.config.max_isa);
        plan.rows = choose_rows(query.dtype, plan.path->takes_f32(), call.config.max_isa);
        plan.width = round_up(e.size, plan.path->b.rows);
        book(plan, result.scratch);
    }
    result.bytes = effort_of(e, 3.5, golden);
    result.path = golden ? call.config.golden_path() : plan.path->name;
    if (!golden) result.why = gemm::why_chosen(query.dtype, call.config.max_isa);
    result.work = std::make_unique<const GradPlan>(std::move(plan));
    return result;
}

}  // namespace gradus::nsa_selected_attention
