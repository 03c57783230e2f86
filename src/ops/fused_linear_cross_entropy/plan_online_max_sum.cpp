// FusedLinearOnlineMaxSum: panels, chunks and blocks, and the scratch memory they need.
#include "ops/fused_linear_cross_entropy/online_max_sum.h"

namespace gradus::fused_linear_cross_entropy {
namespace {

constexpr int64_t kChunkElements = 4 << 20, kPanelBytes = 16 << 20;  // packed
constexpr int64_t kMostTokens = 2048, kMostWords = 3072;

// Tokens are cut into equal chunks of whole blocks.
Sizes sizes_of(const gemm::Path& path, int64_t tokens, int64_t hidden, int64_t words) {
    const auto whole = [](int64_t n, int64_t unit, int64_t most) {
        return std::clamp(n / unit * unit, unit, most / unit * unit);
    };
    const int64_t width = std::max<int64_t>(hidden, 1);
    const int64_t chunk = whole(kChunkElements / width, path.block_a, kMostTokens);
    const int64_t panel = whole(kPanelBytes / path.item / width, path.block_b, kMostWords);
    const int64_t chunks = ceil_div(tokens, chunk);
    return {tokens, hidden, words, std::min(tokens, round_up(ceil_div(tokens, chunks), path.block_a)),
            std::min(words, panel)};
}

void plan_fast(MaxSumPlan& plan, DType dtype, const Config& config, Scratch& scratch) {
    plan.path = &gemm::choose(dtype, config.max_isa);
    plan.rows = choose_rows(dtype, config.max_isa);
    Sizes& e = plan.sizes;
    e = sizes_of(*plan.path, e.tokens, e.hidden, e.words);
    plan.cut = cut_of(*plan.path, e.chunk, e.panel, plan.slots);
    const int panels = e.panels() > 1 ? 2 : 1;
    const int64_t statistics = ceil_div(e.panel, plan.cut.columns) * e.chunk;
    plan.input = scratch.book<std::byte>(plan.path->panel_a(e.chunk, e.hidden).bytes());
    plan.weight = scratch.book<std::byte>(plan.path->panel_b(e.panel, e.hidden).bytes(), panels);
    plan.tile = scratch.book<float>(plan.cut.rows * plan.cut.columns, plan.slots);
    if (plan.views.with_logits) plan.rounded = scratch.book<std::byte>(plan.cut.columns * 2, plan.slots);
    plan.block_max = scratch.book<float>(statistics, panels);
    plan.block_sum = scratch.book<float>(statistics, panels);
    plan.max = scratch.book<float>(e.chunk);
    plan.picked = scratch.book<float>(e.chunk);
    plan.sum = scratch.book<double>(e.chunk);
}

}  // namespace

void complete(MaxSumPlan& plan, DType dtype, const Config& config, Scratch& scratch) {
    plan.slots = config.num_threads;
    if (!config.golden()) return plan_fast(plan, dtype, config, scratch);
    plan.how = config.how();
    plan.golden_numbers = book_golden_stats(golden_operands(plan), scratch, plan.slots);
}

GoldenOperands golden_operands(const MaxSumPlan& plan) {
    const Sizes& e = plan.sizes;
    return {plan.how, plan.views.input, plan.views.weight, e.tokens, e.hidden, e.words};
}

Planned plan_stats(const Call& call) {
    using namespace stats;
    Planned result;
    const TensorView &input = call.view(kInput), &weight = call.view(kWeight);
    if (input.of(0) == 0) return result;
    const bool golden = call.config.golden();
    MaxSumPlan plan;
    plan.sizes = {input.of(0), input.of(1), weight.of(0)};
    plan.views = {{kInput, input},
                  {kWeight, weight},
                  {kTarget, call.view(kTarget)},
                  {kMax, call.view(kMax)},
                  {kSum, call.view(kSum)},
                  {kPredicted, call.view(kPredicted)},
                  {kTargetMask, call.view(kTargetMask)},
                  {kMaskedTarget, call.view(kMaskedTarget)},
                  call.given(kLogits) ? Strided(kLogits, call.view(kLogits)) : Strided(),
                  call.integer(kStart),
                  call.integer(kEnd),
                  call.given(kLogits)};
    complete(plan, input.dtype, call.config, result.scratch);
    const Sizes& e = plan.sizes;
    const auto bt = static_cast<double>(e.tokens), h = static_cast<double>(e.hidden), v = static_cast<double>(e.words);
    result.bytes = effort_of(2 * (bt * h + v * h), 2 * bt * v * (h + 16), golden);
    result.path = golden ? call.config.golden_path() : plan.path->name;
    if (plan.path != nullptr) result.why = gemm::why_chosen(input.dtype, call.config.max_isa);
    result.work = std::make_unique<const MaxSumPlan>(plan);
    return result;
}

}  // namespace gradus::fused_linear_cross_entropy
