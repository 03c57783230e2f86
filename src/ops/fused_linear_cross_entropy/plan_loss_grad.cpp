// FusedLinearCrossEntropyLossGrad: panels, chunks and blocks, and the scratch memory they need.
#include "ops/fused_linear_cross_entropy/loss_grad.h"

namespace gradus::fused_linear_cross_entropy {
namespace {

// Of a chunk of tokens, and of a panel of words packed one way: 16 MiB and 12 MiB. A panel is long because inputGrad's
// sums, 16 MiB at 1024×4096, are read and written once a panel.
constexpr int64_t kChunkElements = 4 << 20, kPanelBytes = 12 << 20;
constexpr int64_t kMostTokens = 1024, kMostWords = 3072;
constexpr int64_t kGroupWords = 8192;  // summed over in one chain of k blocks; then folded into a second level

// Panels follow from hidden and words alone: a token's sums do not depend on the tokens beside it.
Sizes sizes_of(const gemm::Path& path, int64_t tokens, int64_t hidden, int64_t words) {
    // whole blocks, or strips where hidden is so long that a block is too much
    const int64_t most_tokens = kChunkElements / hidden, most_words = kPanelBytes / path.item / hidden;
    const int64_t token_unit = most_tokens >= path.block_a ? path.block_a : path.a.rows;
    const int64_t word_unit = most_words >= path.block_b ? path.block_b : path.b.rows;
    const int64_t chunks = ceil_div(tokens, std::clamp(most_tokens, token_unit, kMostTokens));
    const int64_t panel = std::clamp(most_words, word_unit, kMostWords) / word_unit * word_unit;
    return {tokens, hidden, words, std::min(tokens, round_up(ceil_div(tokens, chunks), token_unit)),
            std::min(words, panel)};
}

void book(LossGradPlan& plan, Scratch& scratch) {
    const gemm::Path& path = *plan.path;
    const Sizes& e = plan.sizes;
    const int inputs = plan.ahead && e.chunks() > 1 ? 2 : 1, weights = plan.ahead && e.panels() > 1 ? 2 : 1;
    if (!plan.views.given && !plan.kept.has(e.words)) {
        plan.input_rows = scratch.book<std::byte>(path.panel_a(e.chunk, e.hidden).bytes(), inputs);
        plan.weight_rows = scratch.book<std::byte>(path.panel_b(e.panel, e.hidden).bytes(), weights);
    }
    plan.input_columns = scratch.book<std::byte>(path.panel_b(e.hidden, e.chunk).bytes(), inputs);
    plan.weight_columns = scratch.book<std::byte>(path.panel_b(e.hidden, e.panel).bytes(), weights);
    plan.g_tokens = scratch.book<std::byte>(path.panel_a(e.chunk, e.panel).bytes());
    plan.g_words = scratch.book<std::byte>(path.panel_a(e.panel, e.chunk).bytes());
    plan.c_stride = round_up(e.hidden, path.b.rows);
    plan.chunks_outside = e.tokens > e.words && e.chunks() > 1;
    const int64_t rows = round_up(plan.chunks_outside ? e.chunk : e.tokens, path.a.rows);
    plan.input_sums = scratch.book<float>(rows * plan.c_stride);
    if (e.panels() > plan.group) plan.input_total = scratch.book<float>(rows * plan.c_stride);
    const int64_t words = plan.chunks_outside ? e.words : e.panel;
    if (e.chunks() > 1) plan.weight_sums = scratch.book<float>(round_up(words, path.a.rows) * plan.c_stride);
    const int64_t block = std::max({plan.cut_g.rows, plan.cut_weight.rows, plan.cut_input.rows}) * path.block_b;
    plan.tile = scratch.book<float>(block, plan.slots);
    plan.half_tile = scratch.book<std::byte>(block * 2, plan.slots);
}

void plan_fast(LossGradPlan& plan, DType dtype, const Config& config, Scratch& scratch) {
    plan.path = &gemm::choose(dtype, config.max_isa);
    plan.rows = choose_rows(dtype, config.max_isa);
    Sizes& e = plan.sizes;
    e = sizes_of(*plan.path, e.tokens, e.hidden, e.words);
    plan.group = std::max<int64_t>(1, kGroupWords / e.panel);
    plan.cut_g = cut_of(*plan.path, e.chunk, e.panel, plan.slots);
    plan.cut_weight = cut_of(*plan.path, e.panel, e.hidden, plan.slots);
    plan.cut_input = cut_of(*plan.path, e.chunk, e.hidden, plan.slots);
    // Two places for what is packed, unless that is beyond what the operator is allowed.
    const double promised = 0x1p26 + 4.0 * static_cast<double>(e.tokens + e.words) * static_cast<double>(e.hidden);
    const Scratch before = scratch;
    book(plan, scratch);
    if (static_cast<double>(scratch.bytes() - before.bytes()) < promised) return;
    plan.ahead = false;
    scratch = before;
    book(plan, scratch);
}

}  // namespace

int64_t panel_of_words(DType dtype, const Config& config, const Sizes& sizes) {
    return sizes_of(gemm::choose(dtype, config.max_isa), sizes.tokens, sizes.hidden, sizes.words).panel;
}

void complete(LossGradPlan& plan, DType dtype, const Config& config, Scratch& scratch) {
    plan.slots = config.num_threads;
    if (!config.golden()) return plan_fast(plan, dtype, config, scratch);
    plan.how = config.how();
    plan.golden_numbers = book_golden_grad(golden_operands(plan), scratch, plan.slots);
    plan.golden_hits = scratch.book<int64_t>(plan.sizes.tokens);
}

GoldenOperands golden_operands(const LossGradPlan& plan) {
    const Sizes& e = plan.sizes;
    return {plan.how, plan.views.input, plan.views.weight, e.tokens, e.hidden, e.words};
}

Planned plan_grad(const Call& call) {
    using namespace grad;
    Planned result;
    const TensorView &input = call.view(kInput), &weight = call.view(kWeight);
    const int64_t tokens = input.of(0), hidden = input.of(1), words = weight.of(0);
    if (hidden == 0 || (tokens == 0 && words == 0)) return result;
    const bool golden = call.config.golden(), empty = tokens == 0 || words == 0, softmax = call.given(kSoftmax);
    LossGradPlan plan;
    plan.sizes = {tokens, hidden, words};
    plan.views = {{kGrad, call.view(kGrad)},
                  {kInput, input},
                  {kWeight, weight},
                  {kTargetMask, call.view(kTargetMask)},
                  {kMaskedTarget, call.view(kMaskedTarget)},
                  softmax ? Strided() : Strided(kMax, call.view(kMax)),  // which may be anything beside it
                  softmax ? Strided() : Strided(kSum, call.view(kSum)),
                  softmax ? Strided(kSoftmax, call.view(kSoftmax)) : Strided(),
                  {kInputGrad, call.view(kInputGrad)},
                  {kWeightGrad, call.view(kWeightGrad)},
                  softmax,
                  true,
                  call.view(kTargetMask).dtype == DType::u8};
    if (!empty) complete(plan, input.dtype, call.config, result.scratch);
    const auto bt = static_cast<double>(tokens), h = static_cast<double>(hidden), v = static_cast<double>(words);
    result.bytes = effort_of(4 * (bt * h + v * h), 6 * bt * v * h, golden);
    result.path = empty ? "zeros" : golden ? call.config.golden_path() : plan.path->name;
    if (plan.path != nullptr) result.why = gemm::why_chosen(input.dtype, call.config.max_isa);
    result.work = std::make_unique<const LossGradPlan>(plan);
    return result;
}

}  // namespace gradus::fused_linear_cross_entropy
