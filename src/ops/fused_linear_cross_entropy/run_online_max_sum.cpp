// FusedLinearOnlineMaxSum: chunks of tokens outside, panels of words inside. Blocks of logits are reduced to a maximum
// and a sum a row while they are in the cache; those of a panel are folded, in order, beside the blocks of the next.
#include <cmath>

#include "base/gather.h"
#include "ops/fused_linear_cross_entropy/online_max_sum.h"
#include "runtime/parallel.h"

namespace gradus::fused_linear_cross_entropy {
namespace {

using Plan = MaxSumPlan;
using Views = MaxSumViews;

int64_t word_of(const Plan& plan, std::byte* const* address, int64_t token) {
    const int64_t target = plan.views.target.index(address, token);
    const bool here = target >= plan.views.start && target < plan.views.end;
    return here ? target - plan.views.start : -1;
}

void write_targets(const Plan& plan, std::byte* const* address) noexcept {
    const int64_t tokens = plan.sizes.tokens;
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
    v.predicted.put(address, token, word >= 0 && word < plan.sizes.words ? static_cast<float>(picked - max) : 0.0f);
}

void run_golden(const Plan& plan, std::byte* const* address, std::byte* workspace) noexcept {
    const Views& v = plan.views;
    const GoldenStats stats{golden_operands(plan), v.max, v.sum, v.predicted, v.logits, v.with_logits};
    parallel_for(ceil_div(plan.sizes.tokens, kTogether), plan.slots, [&](int64_t block, int slot) {
        const int64_t first = block * kTogether;
        int64_t hit[kTogether] = {};
        for (int64_t k = 0; k < std::min(kTogether, plan.sizes.tokens - first); ++k)
            hit[k] = word_of(plan, address, first + k);
        golden_stats(stats, address, first, hit, plan.golden_numbers.at(workspace, slot));
    });
}

// One chunk of tokens.
class Chunk {
  public:
    Chunk(const Plan& plan, std::byte* const* address, std::byte* workspace, int64_t chunk)
        : plan_(plan),
          address_(address),
          workspace_(workspace),
          first_token_(chunk * plan.sizes.chunk),
          tokens_(plan.sizes.chunk_length(chunk)),
          token_blocks_(ceil_div(tokens_, plan.cut.rows)),
          input_{matrix_of(plan.views.input, address, first_token_), tokens_, plan.sizes.hidden,
                 plan.path->panel_a(tokens_, plan.sizes.hidden),     {},      plan.input.at(workspace)} {}

    // Beside the blocks of a panel the next one is packed and the last one folded.
    void run() const noexcept {
        const int64_t panels = plan_.sizes.panels();
        std::fill_n(plan_.max.at(workspace_), tokens_, -HUGE_VALF);
        std::fill_n(plan_.sum.at(workspace_), tokens_, 0.0);
        const PackJob first = weight(0);
        parallel_for(input_.shares() + first.shares(), plan_.slots, [&](int64_t task, int) {
            if (task < input_.shares()) return pack_share(*plan_.path, input_, task);
            pack_share(*plan_.path, first, task - input_.shares());
        });
        for (int64_t p = 0; p < panels; ++p) {
            const PackJob now = weight(p), next = p + 1 < panels ? weight(p + 1) : PackJob{};
            const int64_t blocks = token_blocks_ * ceil_div(now.rows, plan_.cut.columns);
            const int64_t shares = next.rows > 0 ? next.shares() : 0, folds = p > 0 ? token_blocks_ : 0;
            const int64_t all = blocks + shares + folds;
            parallel_for(all, plan_.slots, [&](int64_t task, int slot) {
                const auto [is_beside, n] = mixed_task(task, all, shares + folds);
                if (!is_beside) return block(now, p, n % token_blocks_, n / token_blocks_, slot);
                if (n < shares) return pack_share(*plan_.path, next, n);
                fold(p - 1, n - shares);
            });
        }
        parallel_for(token_blocks_, plan_.slots, [&](int64_t task, int) { finish(task); });
    }

  private:
    PackJob weight(int64_t panel) const {
        const Sizes& e = plan_.sizes;
        return {matrix_of(plan_.views.weight, address_, panel * e.panel),
                e.panel_length(panel),
                e.hidden,
                plan_.path->panel_b(e.panel_length(panel), e.hidden),
                {},
                plan_.weight.at(workspace_, panel % 2)};
    }

    // Where the statistics of a block's first token are.
    int64_t place(int64_t word_block) const { return word_block * plan_.sizes.chunk; }
    float* block_max(int64_t panel) const { return plan_.block_max.at(workspace_, panel % 2); }
    float* block_sum(int64_t panel) const { return plan_.block_sum.at(workspace_, panel % 2); }

    void block(const PackJob& weight, int64_t panel, int64_t token_block, int64_t word_block, int slot) const {
        const Sizes& e = plan_.sizes;
        const Cut cut = plan_.cut;
        const int64_t first_word = word_block * cut.columns, words = std::min(cut.columns, weight.rows - first_word);
        const int64_t begin = token_block * cut.rows, end = std::min(begin + cut.rows, tokens_);
        float* const c = plan_.tile.at(workspace_, slot);
        multiply_block(*plan_.path, {input_.by_row, weight.by_row, input_.to_row, weight.to_row}, begin, end - begin,
                       first_word, words, c, cut.columns, false);
        for (int64_t i = begin; i < end; ++i) {
            const float* logits = c + (i - begin) * cut.columns;
            const int64_t at = place(word_block) + i, token = first_token_ + i;
            plan_.rows.stats(logits, words, block_max(panel) + at, block_sum(panel) + at);
            const int64_t word = word_of(plan_, address_, token) - panel * e.panel - first_word;
            if (word >= 0 && word < words) plan_.picked.at(workspace_)[i] = logits[word];
            plan_.kept.keep(plan_.rows, address_, workspace_, token, panel * e.panel + first_word, logits, words,
                            block_max(panel)[at]);
            if (plan_.views.with_logits) write_logits(token, panel * e.panel + first_word, logits, words, slot);
        }
    }

    void write_logits(int64_t token, int64_t word, const float* logits, int64_t n, int slot) const {
        const Strided& out = plan_.views.logits;
        std::byte *to = out.at(address_, token, word), *row = plan_.rounded.at(workspace_, slot);
        plan_.rows.round(logits, n, out.step[1] == 1 ? to : row);
        if (out.step[1] != 1) scatter(to, out.step[1], row, n, out.item);
    }

    void fold(int64_t panel, int64_t token_block) const {
        const int64_t blocks = ceil_div(plan_.sizes.panel_length(panel), plan_.cut.columns);
        for (int64_t i = token_block * plan_.cut.rows; i < std::min((token_block + 1) * plan_.cut.rows, tokens_); ++i) {
            Running running{plan_.max.at(workspace_)[i], plan_.sum.at(workspace_)[i]};
            for (int64_t b = 0; b < blocks; ++b) {
                const int64_t at = place(b) + i;
                running.fold(block_max(panel)[at], block_sum(panel)[at]);
            }
            plan_.max.at(workspace_)[i] = running.max;
            plan_.sum.at(workspace_)[i] = running.sum;
        }
    }

    void finish(int64_t token_block) const {
        fold(plan_.sizes.panels() - 1, token_block);
        for (int64_t i = token_block * plan_.cut.rows; i < std::min((token_block + 1) * plan_.cut.rows, tokens_); ++i)
            write_stats(plan_, address_, first_token_ + i, static_cast<double>(plan_.max.at(workspace_)[i]),
                        plan_.sum.at(workspace_)[i], static_cast<double>(plan_.picked.at(workspace_)[i]));
    }

    const Plan& plan_;
    std::byte* const* address_;
    std::byte* workspace_;
    int64_t first_token_, tokens_, token_blocks_;
    PackJob input_;
};

}  // namespace

void MaxSumPlan::run(std::byte* const* address, std::byte* workspace) const noexcept {
    if (views.with_targets) write_targets(*this, address);
    if (path == nullptr) return run_golden(*this, address, workspace);
    for (int64_t c = 0; c < sizes.chunks(); ++c) Chunk(*this, address, workspace, c).run();
}

}  // namespace gradus::fused_linear_cross_entropy
