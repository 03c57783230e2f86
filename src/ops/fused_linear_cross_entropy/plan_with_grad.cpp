// LinearCrossEntropyWithGrad: FusedLinearOnlineMaxSum and FusedLinearCrossEntropyLossGrad in one call, over a whole
// vocabulary. What the first leaves of its logits the second need not multiply again: three products instead of four.
#include "ops/fused_linear_cross_entropy/loss_grad.h"
#include "ops/fused_linear_cross_entropy/online_max_sum.h"

namespace gradus::fused_linear_cross_entropy {
namespace {

using namespace with_grad;  // NOLINT(google-build-using-namespace)

struct WithGradPlan final : Work {
    MaxSumPlan stats;
    LossGradPlan gradient;

    void run(std::byte* const* address, std::byte* workspace) const noexcept override {
        if (stats.sizes.tokens > 0) stats.run(address, workspace);
        if (stats.sizes.hidden > 0) gradient.run(address, workspace);
    }
};

MaxSumViews views_of_stats(const Call& call) {
    MaxSumViews views;
    views.input = {kInput, call.view(kInput)};
    views.weight = {kWeight, call.view(kWeight)};
    views.target = {kTarget, call.view(kTarget)};
    views.max = {kMax, call.view(kMax)};
    views.sum = {kSum, call.view(kSum)};
    views.predicted = {kPredicted, call.view(kPredicted)};
    views.end = call.view(kWeight).of(0);
    views.with_targets = false;
    return views;
}

LossGradViews views_of_gradient(const Call& call) {
    LossGradViews views;
    views.grad = {kGrad, call.view(kGrad)};
    views.input = {kInput, call.view(kInput)};
    views.weight = {kWeight, call.view(kWeight)};
    views.target = {kTarget, call.view(kTarget)};
    views.max = {kMax, call.view(kMax)};
    views.sum = {kSum, call.view(kSum)};
    views.input_grad = {kInputGrad, call.view(kInputGrad)};
    views.weight_grad = {kWeightGrad, call.view(kWeightGrad)};
    views.with_mask = false;
    return views;
}

// The two phases share the memory beside the logits that one keeps for the other.
Scratch book(WithGradPlan& plan, DType dtype, const Config& config) {
    const Sizes sizes = plan.stats.sizes;
    Scratch common;
    if (!config.golden() && sizes.hidden > 0) {
        Scratch trial;  // which blocks there will be
        complete(plan.stats, dtype, config, trial);
        const Strided& room = plan.gradient.views.weight_grad;
        const bool dense = room.step[1] == 1 && room.step[0] == sizes.hidden;
        plan.gradient.kept.book(plan.stats.sizes, plan.stats.cut.columns, panel_of_words(dtype, config, sizes),
                                dense ? &room : nullptr, common);
    }
    plan.stats.kept = plan.gradient.kept;
    Scratch first = common, second = common;
    complete(plan.stats, dtype, config, first);
    if (sizes.hidden > 0) complete(plan.gradient, dtype, config, second);
    return first.bytes() > second.bytes() ? first : second;
}

}  // namespace

Planned plan_with_grad(const Call& call) {
    Planned result;
    const TensorView& input = call.view(kInput);
    const int64_t tokens = input.of(0), hidden = input.of(1), words = call.view(kWeight).of(0);
    if (tokens == 0 && hidden == 0) return result;
    const bool golden = call.config.golden();
    WithGradPlan plan;
    plan.stats.sizes = plan.gradient.sizes = {tokens, hidden, words};
    plan.stats.views = views_of_stats(call);
    plan.gradient.views = views_of_gradient(call);
    if (tokens > 0) result.scratch = book(plan, input.dtype, call.config);
    const auto bt = static_cast<double>(tokens), h = static_cast<double>(hidden), v = static_cast<double>(words);
    result.bytes = effort_of(4 * (bt * h + v * h), 6 * bt * v * (h + 8), golden);
    result.path = tokens == 0 ? "zeros" : golden ? call.config.golden_path() : plan.stats.path->name;
    if (plan.stats.path != nullptr) result.why = gemm::why_chosen(input.dtype, call.config.max_isa);
    result.work = std::make_unique<const WithGradPlan>(plan);
    return result;
}

}  // namespace gradus::fused_linear_cross_entropy
