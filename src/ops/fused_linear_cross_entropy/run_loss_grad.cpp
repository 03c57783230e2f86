// FusedLinearCrossEntropyLossGrad: panels of words and chunks of tokens, whichever are more inside. For a pair of them
//   1. blocks of logits become blocks of g in the 16-bit type, packed both ways;
//   2. weightGrad's rows of the panel gain g^T·input, inputGrad's rows of the chunk gain g·weight, and beside that the
//      next panel or chunk is packed, as rows of the logits' product and as columns of the gradients'.
// Every block of a result belongs to one task, and what it adds comes in the order of panels and chunks.
#include <cmath>

#include "base/gather.h"
#include "ops/fused_linear_cross_entropy/loss_grad.h"
#include "runtime/parallel.h"

namespace gradus::fused_linear_cross_entropy {
namespace {

using Plan = LossGradPlan;
using Views = LossGradViews;

bool masked(const Plan& plan, std::byte* const* address, int64_t token) {
    const Strided& mask = plan.views.mask;
    if (!plan.views.with_mask) return false;
    if (!plan.views.mask_bits) return *mask.at(address, token) != std::byte{0};
    return (std::to_integer<int>(*mask.at(address, token / 8)) >> token % 8 & 1) != 0;
}

// The word that is the token's target here; −1: none.
int64_t hit_of(const Plan& plan, std::byte* const* address, int64_t token) {
    const int64_t word = plan.views.target.index(address, token);
    return masked(plan, address, token) || word < 0 || word >= plan.sizes.words ? -1 : word;
}

void zero(const Strided& grid, std::byte* const* address, int64_t rows, int64_t columns) {
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) store_f64(grid.dtype, grid.at(address, i, j), 0);
}

// Without tokens or words every sum is empty.
void run_empty(const Plan& plan, std::byte* const* address) noexcept {
    zero(plan.views.input_grad, address, plan.sizes.tokens, plan.sizes.hidden);
    zero(plan.views.weight_grad, address, plan.sizes.words, plan.sizes.hidden);
}

void run_golden(const Plan& plan, std::byte* const* address, std::byte* workspace) noexcept {
    const Views& v = plan.views;
    const GoldenGrad grad{golden_operands(plan), v.grad, v.max, v.sum, v.softmax, v.input_grad, v.weight_grad, v.given};
    int64_t* const hits = plan.golden_hits.at(workspace);
    for (int64_t i = 0; i < plan.sizes.tokens; ++i) hits[i] = hit_of(plan, address, i);
    const int64_t inputs = ceil_div(plan.sizes.tokens, kTogether), weights = ceil_div(plan.sizes.words, kTogether);
    parallel_for(inputs + weights, plan.slots, [&](int64_t block, int slot) {
        const bool of_input = block < inputs;
        golden_grad(grad, address, of_input, (of_input ? block : block - inputs) * kTogether, hits,
                    plan.golden_numbers.at(workspace, slot));
    });
}

// One panel of words with one chunk of tokens.
class Step {
  public:
    // Number n of all: panels or chunks inside are packed for every step, in two places in turn.
    Step(const Plan& plan, std::byte* const* address, std::byte* workspace, int64_t n)
        : plan_(plan),
          path_(*plan.path),
          address_(address),
          workspace_(workspace),
          panel_(plan.chunks_outside ? n % plan.sizes.panels() : n / plan.sizes.chunks()),
          chunk_(plan.chunks_outside ? n / plan.sizes.panels() : n % plan.sizes.chunks()),
          first_token_(chunk_ * plan.sizes.chunk),
          tokens_(plan.sizes.chunk_length(chunk_)),
          first_word_(panel_ * plan.sizes.panel),
          words_(plan.sizes.panel_length(panel_)),
          multiplies_(!plan.views.given && !plan.kept.has(first_word_ + words_)) {
        const int64_t hidden = plan.sizes.hidden;
        const int64_t chunk_place =
            !plan.ahead || plan.sizes.chunks() == 1 ? 0 : (plan.chunks_outside ? chunk_ : n) % 2;
        const int64_t panel_place =
            !plan.ahead || plan.sizes.panels() == 1 ? 0 : (plan.chunks_outside ? n : panel_) % 2;
        const bool input_rows = !plan.views.given && !plan.kept.has(plan.sizes.words);  // for some panel
        input_ = {matrix_of(plan.views.input, address, first_token_),
                  tokens_,
                  hidden,
                  path_.panel_a(tokens_, hidden),
                  path_.panel_b(hidden, tokens_),
                  input_rows ? plan.input_rows.at(workspace, chunk_place) : nullptr,
                  plan.input_columns.at(workspace, chunk_place)};
        weight_ = {matrix_of(plan.views.weight, address, first_word_),
                   words_,
                   hidden,
                   path_.panel_b(words_, hidden),
                   path_.panel_b(hidden, words_),
                   multiplies_ ? plan.weight_rows.at(workspace, panel_place) : nullptr,
                   plan.weight_columns.at(workspace, panel_place)};
        g_ = {path_.panel_a(tokens_, words_), path_.panel_a(words_, tokens_), plan.g_tokens.at(workspace),
              plan.g_words.at(workspace)};
    }

    const PackJob& input() const { return input_; }
    const PackJob& weight() const { return weight_; }
    int64_t panel() const { return panel_; }
    int64_t chunk() const { return chunk_; }

    void gradient_of_logits() const noexcept {
        const Cut cut = plan_.cut_g;
        const int64_t token_blocks = ceil_div(tokens_, cut.rows), word_blocks = ceil_div(words_, cut.columns);
        parallel_for(token_blocks * word_blocks, plan_.slots, [&](int64_t task, int slot) {
            g_block(task % token_blocks * cut.rows, task / token_blocks * cut.columns, slot);
        });
    }

    // Both products, and beside them what the next step wants packed.
    void products(std::span<const PackJob> jobs) const noexcept {
        const Cut of_weight = plan_.cut_weight, of_input = plan_.cut_input;
        const int64_t hidden = plan_.sizes.hidden, word_blocks = ceil_div(words_, of_weight.rows);
        const int64_t token_blocks = ceil_div(tokens_, of_input.rows);
        const int64_t weight_tasks = word_blocks * ceil_div(hidden, of_weight.columns);
        const int64_t input_tasks = token_blocks * ceil_div(hidden, of_input.columns);
        const int64_t shares = shares_of(jobs), all = weight_tasks + input_tasks + shares;
        parallel_for(all, plan_.slots, [&](int64_t task, int slot) {
            const auto [is_share, n] = mixed_task(task, all, shares);
            if (is_share) return pack_one(path_, jobs, n);
            if (n < weight_tasks)
                return weight_block(n % word_blocks * of_weight.rows, n / word_blocks * of_weight.columns, slot);
            const int64_t m = n - weight_tasks;
            input_block(m % token_blocks * of_input.rows, m / token_blocks * of_input.columns, slot);
        });
    }

    static int64_t shares_of(std::span<const PackJob> jobs) {
        int64_t shares = 0;
        for (const PackJob& job : jobs) shares += job.shares();
        return shares;
    }
    static void pack_one(const gemm::Path& path, std::span<const PackJob> jobs, int64_t share) noexcept {
        for (const PackJob& job : jobs) {
            if (share < job.shares()) return pack_share(path, job, share);
            share -= job.shares();
        }
    }

  private:
    void g_block(int64_t begin, int64_t word, int slot) const {
        const int64_t tokens = std::min(plan_.cut_g.rows, tokens_ - begin);
        const int64_t words = std::min(plan_.cut_g.columns, words_ - word), stride = path_.block_b;
        float* const c = plan_.tile.at(workspace_, slot);
        std::byte* const g = plan_.half_tile.at(workspace_, slot);
        const Views& views = plan_.views;
        if (multiplies_)
            multiply_block(path_, {input_.by_row, weight_.by_row, input_.to_row, weight_.to_row}, begin, tokens, word,
                           words, c, stride, false);
        for (int64_t i = 0; i < tokens; ++i) {
            const int64_t token = first_token_ + begin + i, hit = hit_of(plan_, address_, token);
            Token t{0, 1, views.grad.f32(address_, token), hit < 0 ? -1 : hit - first_word_ - word};
            std::byte* const to = g + i * stride * 2;
            if (!views.given) {
                float* const logits = c + i * stride;
                if (!multiplies_)
                    plan_.kept.restore(plan_.rows, address_, workspace_, token, first_word_ + word, words, logits);
                t.max = views.max.f32(address_, token), t.sum = views.sum.f32(address_, token);
                plan_.rows.gradient(logits, words, t, to);
                continue;
            }
            const std::byte* row = views.softmax.at(address_, token, first_word_ + word);
            if (views.softmax.step[1] != 1) {
                gather(reinterpret_cast<std::byte*>(c), row, views.softmax.step[1], words, sizeof(float));
                row = reinterpret_cast<const std::byte*>(c);
            }
            plan_.rows.gradient_given(reinterpret_cast<const float*>(row), words, t, to);
        }
        pack_gradient(path_, g_, g, stride, begin, tokens, word, words);
    }

    // Rounds [rows, columns] of sums into a view.
    void write(const Strided& out, int64_t first_row, int64_t first_column, int64_t rows, int64_t columns,
               const float* sums, int64_t stride, int slot) const {
        std::byte* const dense = plan_.half_tile.at(workspace_, slot);
        for (int64_t i = 0; i < rows; ++i) {
            std::byte* const to = out.at(address_, first_row + i, first_column);
            plan_.rows.round(sums + i * stride, columns, out.step[1] == 1 ? to : dense + i * path_.block_b * 2);
        }
        if (out.step[1] != 1)
            scatter_rows(out.at(address_, first_row, first_column), dense,
                         {rows, columns, 2, path_.block_b, out.step[0], out.step[1]});
    }

    void weight_block(int64_t word, int64_t column, int slot) const {
        const int64_t rows = std::min(plan_.cut_weight.rows, words_ - word);
        const int64_t columns = std::min(plan_.cut_weight.columns, plan_.sizes.hidden - column);
        const bool alone = plan_.sizes.chunks() == 1;
        const int64_t stride = alone ? path_.block_b : plan_.c_stride;
        const int64_t first = plan_.chunks_outside ? first_word_ : 0;
        float* const c = alone ? plan_.tile.at(workspace_, slot)
                               : plan_.weight_sums.at(workspace_) + (first + word) * stride + column;
        multiply_block(path_, {g_.by_word, input_.by_column, g_.to_word, input_.to_column}, word, rows, column, columns,
                       c, stride, chunk_ > 0);
        if (chunk_ == plan_.sizes.chunks() - 1)
            write(plan_.views.weight_grad, first_word_ + word, column, rows, columns, c, stride, slot);
    }

    void input_block(int64_t begin, int64_t column, int slot) const {
        const Sizes& e = plan_.sizes;
        const int64_t tokens = std::min(plan_.cut_input.rows, tokens_ - begin);
        const int64_t columns = std::min(plan_.cut_input.columns, e.hidden - column);
        const int64_t stride = plan_.c_stride, first = plan_.chunks_outside ? 0 : first_token_;
        const int64_t at = (first + begin) * stride + column;
        float* sums = plan_.input_sums.at(workspace_) + at;
        multiply_block(path_, {g_.by_token, weight_.by_column, g_.to_token, weight_.to_column}, begin, tokens, column,
                       columns, sums, stride, panel_ % plan_.group > 0);
        const bool last = panel_ == e.panels() - 1;
        if (e.panels() > plan_.group && (last || panel_ % plan_.group == plan_.group - 1)) {
            float* const total = plan_.input_total.at(workspace_) + at;
            for (int64_t i = 0; i < tokens; ++i) {
                if (panel_ < plan_.group)
                    std::copy(sums + i * stride, sums + i * stride + columns, total + i * stride);
                else
                    plan_.rows.add(total + i * stride, sums + i * stride, columns);
            }
            sums = total;
        }
        if (last) write(plan_.views.input_grad, first_token_ + begin, column, tokens, columns, sums, stride, slot);
    }

    const Plan& plan_;
    const gemm::Path& path_;
    std::byte* const* address_;
    std::byte* workspace_;
    int64_t panel_, chunk_, first_token_, tokens_, first_word_, words_;
    bool multiplies_;  // the logits are neither given, as softmax, nor kept
    PackJob input_, weight_;
    PackedGradient g_;
};

void run_fast(const Plan& plan, std::byte* const* address, std::byte* workspace) noexcept {
    const int64_t steps = plan.sizes.panels() * plan.sizes.chunks();
    const auto step = [&](int64_t n) { return Step(plan, address, workspace, n); };
    const auto pack = [&](std::span<const PackJob> jobs) {
        parallel_for(Step::shares_of(jobs), plan.slots,
                     [&](int64_t share, int) { Step::pack_one(*plan.path, jobs, share); });
    };
    const PackJob first[] = {step(0).input(), step(0).weight()};
    pack(first);
    for (int64_t n = 0; n < steps; ++n) {
        const Step now = step(n);
        now.gradient_of_logits();
        if (n + 1 == steps) return now.products({});
        const Step next = step(n + 1);
        const PackJob both[] = {next.input(), next.weight()};
        const bool new_input = next.chunk() != now.chunk(), new_weight = next.panel() != now.panel();
        const auto jobs = std::span(both).subspan(new_input ? 0 : 1, size_t{new_input} + size_t{new_weight});
        now.products(plan.ahead ? jobs : std::span<const PackJob>{});
        if (!plan.ahead) pack(jobs);
    }
}

}  // namespace

void LossGradPlan::run(std::byte* const* address, std::byte* workspace) const noexcept {
    if (sizes.tokens == 0 || sizes.words == 0) return run_empty(*this, address);
    if (path == nullptr) return run_golden(*this, address, workspace);
    run_fast(*this, address, workspace);
}

}  // namespace gradus::fused_linear_cross_entropy
