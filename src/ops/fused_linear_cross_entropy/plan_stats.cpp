// FusedLinearOnlineMaxSum: chunks of tokens outside, panels of words inside. Blocks of logits are reduced to a maximum
// and a sum a row while they are in the cache; those of a panel are folded, in order, beside the packing of the next.
#include <cmath>

#include "base/gather.h"
#include "ops/fused_linear_cross_entropy/golden.h"
#include "ops/fused_linear_cross_entropy/kernel.h"
#include "ops/fused_linear_cross_entropy/plan.h"
#include "runtime/parallel.h"

namespace gradus::fused_linear_cross_entropy {
namespace {

constexpr int64_t kMostTokens = 2016, kMostWords = 3072;
constexpr int64_t kPackedElements = 4 << 20;  // of a chunk or a panel

struct Views {
    Grid input, weight, target, max, sum, predicted, mask, masked_target, logits;
    int64_t start = 0, end = 0;
    bool with_logits = false;
};

struct Plan final : Work {
    Extent extent;
    Views views;
    int slots = 1;
    const gemm::Path* path = nullptr;  // null: golden
    RowFunctions rows{};
    Piece<std::byte> input, weight;     // packed
    Piece<float> tile;                  // logits of a block, one a slot
    Piece<std::byte> rounded;           // a row of them in the 16-bit type
    Piece<float> block_max, block_sum;  // [blocks of the panel][tokens of the chunk]
    Piece<float> max, picked;           // of every token of the chunk; picked: the logit of its target
    Piece<double> sum;
    Precision precision = Precision::golden;
    Piece<std::byte> golden_numbers;

    void run(std::byte* const* address, std::byte* workspace) const noexcept override;
};

int64_t word_of(const Plan& plan, std::byte* const* address, int64_t token) {
    const int64_t target = plan.views.target.index(address, token);
    const bool here = target >= plan.views.start && target < plan.views.end;
    return here ? target - plan.views.start : -1;
}

void write_targets(const Plan& plan, std::byte* const* address) noexcept {
    const int64_t tokens = plan.extent.tokens;
    for (int64_t byte = 0; byte * 8 < tokens; ++byte) {
        unsigned bits = 0;
        for (int64_t i = byte * 8; i < std::min(byte * 8 + 8, tokens); ++i) {
            const int64_t word = word_of(plan, address, i);
            bits |= static_cast<unsigned>(word < 0) << i % 8;
            plan.views.masked_target.put_index(address, i, std::max<int64_t>(word, 0));
        }
        *plan.views.mask.at(address, byte) = static_cast<std::byte>(bits);
    }
}

// What a row's statistics are written as. No logit above −inf: the sum is −inf − −inf, NaN.
void write_stats(const Plan& plan, std::byte* const* address, int64_t token, double max, double sum, double picked) {
    const Views& v = plan.views;
    v.max.put(address, token, static_cast<float>(max));
    v.sum.put(address, token, max == -HUGE_VAL ? std::nanf("") : static_cast<float>(sum));
    const int64_t word = word_of(plan, address, token);
    v.predicted.put(address, token, word >= 0 && word < plan.extent.words ? static_cast<float>(picked - max) : 0.0f);
}

GoldenOperands golden_operands(const Plan& plan) {
    const Extent& e = plan.extent;
    return {plan.precision, plan.views.input, plan.views.weight, e.tokens, e.hidden, e.words};
}

void run_golden(const Plan& plan, std::byte* const* address, std::byte* workspace) noexcept {
    const Views& v = plan.views;
    const GoldenStats stats{golden_operands(plan), v.max, v.sum, v.predicted, v.logits, v.with_logits};
    parallel_for(blocks_of(plan.extent.tokens, kTogether), plan.slots, [&](int64_t block, int slot) {
        const int64_t first = block * kTogether;
        int64_t hit[kTogether] = {};
        for (int64_t k = 0; k < std::min(kTogether, plan.extent.tokens - first); ++k)
            hit[k] = word_of(plan, address, first + k);
        golden_stats(stats, address, first, hit, plan.golden_numbers.at(workspace, slot));
    });
}

// One chunk of tokens.
class Run {
  public:
    Run(const Plan& plan, std::byte* const* address, std::byte* workspace, int64_t chunk)
        : plan_(plan),
          address_(address),
          workspace_(workspace),
          first_token_(chunk * plan.extent.chunk),
          tokens_(plan.extent.chunk_length(chunk)),
          token_blocks_(blocks_of(tokens_, kTokens)),
          input_{plan.path->panel_a(tokens_, plan.extent.hidden), plan.input.at(workspace),
                 matrix_of(plan.views.input, address, first_token_), plan.extent.hidden} {}

    void all() noexcept {
        const Extent& e = plan_.extent;
        for (int64_t i = 0; i < tokens_; ++i) {
            plan_.max.at(workspace_)[i] = -HUGE_VALF;
            plan_.sum.at(workspace_)[i] = 0;
        }
        for (int64_t p = 0; p < e.panels(); ++p) {
            const PackJob weight{plan_.path->panel_b(e.panel_length(p), e.hidden), plan_.weight.at(workspace_),
                                 matrix_of(plan_.views.weight, address_, p * e.panel), e.hidden};
            const int64_t shares = weight.shares(), inputs = p == 0 ? input_.shares() : 0;
            const int64_t folds = p == 0 ? 0 : token_blocks_;
            parallel_for(shares + inputs + folds, plan_.slots, [&](int64_t task, int) {
                if (task < shares) return pack_share(*plan_.path, weight, task);
                if (task < shares + inputs) return pack_share(*plan_.path, input_, task - shares);
                fold(p - 1, task - shares - inputs);
            });
            const int64_t word_blocks = blocks_of(e.panel_length(p), kWords);
            parallel_for(token_blocks_ * word_blocks, plan_.slots, [&](int64_t task, int slot) {
                block(weight, p, task % token_blocks_, task / token_blocks_, slot);
            });
        }
        parallel_for(token_blocks_, plan_.slots, [&](int64_t task, int) { finish(task); });
    }

  private:
    void block(const PackJob& weight, int64_t panel, int64_t token_block, int64_t word_block, int slot) const {
        const Extent& e = plan_.extent;
        const int64_t first_word = word_block * kWords, words = std::min(kWords, weight.panel.rows - first_word);
        const int64_t begin = token_block * kTokens, end = std::min(begin + kTokens, tokens_);
        float* const c = plan_.tile.at(workspace_, slot);
        multiply_block(*plan_.path, {input_.panel, weight.panel, input_.to, weight.to}, begin, end - begin, first_word,
                       words, c, kWords, false);
        for (int64_t i = begin; i < end; ++i) {
            const float* logits = c + (i - begin) * kWords;
            const int64_t at = word_block * plan_.extent.chunk + i, token = first_token_ + i;
            plan_.rows.stats(logits, words, plan_.block_max.at(workspace_) + at, plan_.block_sum.at(workspace_) + at);
            const int64_t word = word_of(plan_, address_, token) - panel * e.panel - first_word;
            if (word >= 0 && word < words) plan_.picked.at(workspace_)[i] = logits[word];
            if (plan_.views.with_logits) write_logits(token, panel * e.panel + first_word, logits, words, slot);
        }
    }

    void write_logits(int64_t token, int64_t word, const float* logits, int64_t n, int slot) const {
        const Grid& out = plan_.views.logits;
        std::byte *to = out.at(address_, token, word), *row = plan_.rounded.at(workspace_, slot);
        plan_.rows.round(logits, n, out.column == 1 ? to : row);
        if (out.column != 1) scatter(to, out.column, row, n, out.item);
    }

    void fold(int64_t panel, int64_t token_block) const {
        const int64_t blocks = blocks_of(plan_.extent.panel_length(panel), kWords);
        for (int64_t i = token_block * kTokens; i < std::min((token_block + 1) * kTokens, tokens_); ++i) {
            Running running{plan_.max.at(workspace_)[i], plan_.sum.at(workspace_)[i]};
            for (int64_t b = 0; b < blocks; ++b) {
                const int64_t at = b * plan_.extent.chunk + i;
                running.fold(plan_.block_max.at(workspace_)[at], plan_.block_sum.at(workspace_)[at]);
            }
            plan_.max.at(workspace_)[i] = running.max;
            plan_.sum.at(workspace_)[i] = running.sum;
        }
    }

    void finish(int64_t token_block) const {
        fold(plan_.extent.panels() - 1, token_block);
        for (int64_t i = token_block * kTokens; i < std::min((token_block + 1) * kTokens, tokens_); ++i)
            write_stats(plan_, address_, first_token_ + i, static_cast<double>(plan_.max.at(workspace_)[i]),
                        plan_.sum.at(workspace_)[i], static_cast<double>(plan_.picked.at(workspace_)[i]));
    }

    const Plan& plan_;
    std::byte* const* address_;
    std::byte* workspace_;
    int64_t first_token_, tokens_, token_blocks_;
    PackJob input_;
};

void Plan::run(std::byte* const* address, std::byte* workspace) const noexcept {
    write_targets(*this, address);
    if (path == nullptr) return run_golden(*this, address, workspace);
    for (int64_t c = 0; c < extent.chunks(); ++c) Run(*this, address, workspace, c).all();
}

// Tokens are cut into equal chunks of whole blocks.
Extent extent_of(int64_t tokens, int64_t hidden, int64_t words) {
    const int64_t most = kPackedElements / std::max<int64_t>(hidden, 1);
    const int64_t chunk = std::clamp(most / kTokens * kTokens, kTokens, kMostTokens);
    const int64_t panel = std::clamp(most / kWords * kWords, kWords, kMostWords);
    const int64_t chunks = (tokens + chunk - 1) / chunk;
    return {tokens, hidden, words, std::min(tokens, gemm::round_up((tokens + chunks - 1) / chunks, kTokens)),
            std::min(words, panel)};
}

}  // namespace

Planned plan_stats(const Call& call) {
    using namespace stats;
    Planned result;
    const TensorView &input = call.view(kInput), &weight = call.view(kWeight);
    if (input.of(0) == 0) return result;
    const bool golden = call.config.golden();
    Plan plan;
    plan.extent = extent_of(input.of(0), input.of(1), weight.of(0));
    plan.views = {{kInput, input},
                  {kWeight, weight},
                  {kTarget, call.view(kTarget)},
                  {kMax, call.view(kMax)},
                  {kSum, call.view(kSum)},
                  {kPredicted, call.view(kPredicted)},
                  {kTargetMask, call.view(kTargetMask)},
                  {kMaskedTarget, call.view(kMaskedTarget)},
                  call.given(kLogits) ? Grid(kLogits, call.view(kLogits)) : Grid(),
                  call.integer(kStart),
                  call.integer(kEnd),
                  call.given(kLogits)};
    plan.slots = call.config.num_threads;
    const Extent& e = plan.extent;
    if (golden) {
        plan.precision = call.config.precision;
        plan.golden_numbers = book_golden_stats(golden_operands(plan), result.scratch, plan.slots);
    } else {
        plan.path = &gemm::choose(input.dtype, call.config.max_isa);
        plan.rows = choose_rows(input.dtype, call.config.max_isa);
        plan.input = result.scratch.book<std::byte>(plan.path->panel_a(e.chunk, e.hidden).bytes());
        plan.weight = result.scratch.book<std::byte>(plan.path->panel_b(e.panel, e.hidden).bytes());
        plan.tile = result.scratch.book<float>(kTokens * kWords, plan.slots);
        if (plan.views.with_logits) plan.rounded = result.scratch.book<std::byte>(kWords * 2, plan.slots);
        plan.block_max = result.scratch.book<float>(blocks_of(e.panel, kWords) * e.chunk);
        plan.block_sum = result.scratch.book<float>(blocks_of(e.panel, kWords) * e.chunk);
        plan.max = result.scratch.book<float>(e.chunk);
        plan.picked = result.scratch.book<float>(e.chunk);
        plan.sum = result.scratch.book<double>(e.chunk);
    }
    const auto bt = static_cast<double>(e.tokens), h = static_cast<double>(e.hidden), v = static_cast<double>(e.words);
    result.bytes = effort_of(2 * (bt * h + v * h), 2 * bt * v * (h + 16), golden);
    result.path = golden ? call.config.golden_path() : plan.path->name;
    result.work = std::make_unique<const Plan>(plan);
    return result;
}

}  // namespace gradus::fused_linear_cross_entropy
