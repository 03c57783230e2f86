// FusedLinearCrossEntropyLossGrad: panels of words and chunks of tokens, whichever are more inside. For a pair of them
//   1. input and weight are packed, as rows of the logits' product and as columns of the gradients';
//   2. blocks of logits become blocks of g in the 16-bit type, packed both ways;
//   3. weightGrad's rows of the panel gain g^T·input, inputGrad's rows of the chunk gain g·weight.
// Every block of a result belongs to one task, and what it adds comes in the order of panels and chunks.
#include <cmath>

#include "base/gather.h"
#include "ops/fused_linear_cross_entropy/golden.h"
#include "ops/fused_linear_cross_entropy/kernel.h"
#include "ops/fused_linear_cross_entropy/plan.h"
#include "runtime/parallel.h"

namespace gradus::fused_linear_cross_entropy {
namespace {

// With four-byte elements: input packed twice 32 MiB, weight packed twice and a panel of weightGrad 18 MiB, g twice 6
// MiB.
constexpr int64_t kMostTokens = 1024, kMostWords = 768;
constexpr int64_t kChunkElements = 4 << 20, kPanelElements = 3 << 19;
// Panels whose products are added to inputGrad in one chain; sums of so many are folded into a second level.
constexpr int64_t kGroup = 16;
constexpr int64_t kStrips = 48;  // words in whole strips of every path

struct Views {
    Grid grad, input, weight, mask, target, max, sum, softmax, input_grad, weight_grad;
    bool given = false;      // softmax is
    bool mask_bits = false;  // eight tokens a byte
};

struct Plan final : Work {
    Extent extent;
    Views views;
    int slots = 1;
    const gemm::Path* path = nullptr;  // null: golden
    RowFunctions rows{};
    int64_t c_stride = 0;                      // of the sums of inputGrad and weightGrad: hidden in whole strips
    bool chunks_outside = false;               // more tokens than words: sums of all words are kept, and of one chunk
    Piece<std::byte> input_rows, weight_rows;  // of the logits' product; not if softmax is given
    Piece<std::byte> input_columns, weight_columns;  // of the gradients'
    Piece<std::byte> g_tokens, g_words;
    Piece<float> input_sums, input_total;  // [tokens or chunk, hidden]; total: beyond one group of panels
    Piece<float> weight_sums;              // [panel or words, hidden], beyond one chunk
    Piece<float> tile;
    Piece<std::byte> half_tile;  // [kTokens, kWords] in the 16-bit type
    Precision precision = Precision::golden;
    Piece<std::byte> golden_numbers;
    Piece<int64_t> golden_hits;

    void run(std::byte* const* address, std::byte* workspace) const noexcept override;
};

bool masked(const Plan& plan, std::byte* const* address, int64_t token) {
    const Grid& mask = plan.views.mask;
    if (!plan.views.mask_bits) return *mask.at(address, token) != std::byte{0};
    return (std::to_integer<int>(*mask.at(address, token / 8)) >> token % 8 & 1) != 0;
}

// The word that is the token's target here; −1: none.
int64_t hit_of(const Plan& plan, std::byte* const* address, int64_t token) {
    const int64_t word = plan.views.target.index(address, token);
    return masked(plan, address, token) || word < 0 || word >= plan.extent.words ? -1 : word;
}

void zero(const Grid& grid, std::byte* const* address, int64_t rows, int64_t columns) {
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) store_f64(grid.dtype, grid.at(address, i, j), 0);
}

// Without tokens or words every sum is empty.
void run_empty(const Plan& plan, std::byte* const* address) noexcept {
    zero(plan.views.input_grad, address, plan.extent.tokens, plan.extent.hidden);
    zero(plan.views.weight_grad, address, plan.extent.words, plan.extent.hidden);
}

GoldenOperands golden_operands(const Plan& plan) {
    const Extent& e = plan.extent;
    return {plan.precision, plan.views.input, plan.views.weight, e.tokens, e.hidden, e.words};
}

void run_golden(const Plan& plan, std::byte* const* address, std::byte* workspace) noexcept {
    const Views& v = plan.views;
    const GoldenGrad grad{golden_operands(plan), v.grad, v.max, v.sum, v.softmax, v.input_grad, v.weight_grad, v.given};
    int64_t* const hits = plan.golden_hits.at(workspace);
    for (int64_t i = 0; i < plan.extent.tokens; ++i) hits[i] = hit_of(plan, address, i);
    const int64_t inputs = blocks_of(plan.extent.tokens, kTogether), weights = blocks_of(plan.extent.words, kTogether);
    parallel_for(inputs + weights, plan.slots, [&](int64_t block, int slot) {
        const bool of_input = block < inputs;
        golden_grad(grad, address, of_input, (of_input ? block : block - inputs) * kTogether, hits,
                    plan.golden_numbers.at(workspace, slot));
    });
}

// One panel of words with one chunk of tokens.
class Run {
  public:
    Run(const Plan& plan, std::byte* const* address, std::byte* workspace, int64_t panel, int64_t chunk)
        : plan_(plan),
          path_(*plan.path),
          address_(address),
          workspace_(workspace),
          panel_(panel),
          chunk_(chunk),
          first_token_(chunk * plan.extent.chunk),
          tokens_(plan.extent.chunk_length(chunk)),
          first_word_(panel * plan.extent.panel),
          words_(plan.extent.panel_length(panel)) {
        const int64_t hidden = plan.extent.hidden;
        const gemm::Matrix input = matrix_of(plan.views.input, address, first_token_);
        const gemm::Matrix weight = matrix_of(plan.views.weight, address, first_word_);
        input_rows_ = {path_.panel_a(tokens_, hidden), plan.input_rows.at(workspace), input, hidden};
        weight_rows_ = {path_.panel_b(words_, hidden), plan.weight_rows.at(workspace), weight, hidden};
        input_columns_ = {path_.panel_b(hidden, tokens_), plan.input_columns.at(workspace), transposed(input), tokens_};
        weight_columns_ = {path_.panel_b(hidden, words_), plan.weight_columns.at(workspace), transposed(weight),
                           words_};
        g_ = {path_.panel_a(tokens_, words_), path_.panel_a(words_, tokens_), plan.g_tokens.at(workspace),
              plan.g_words.at(workspace)};
    }

    void all(bool new_input, bool new_weight) noexcept {
        const PackJob* jobs[4];
        int64_t count = 0, shares = 0;
        const auto add = [&](const PackJob& job, bool wanted) {
            if (wanted) jobs[count++] = &job, shares += job.shares();
        };
        add(input_rows_, new_input && !plan_.views.given);
        add(input_columns_, new_input);
        add(weight_rows_, new_weight && !plan_.views.given);
        add(weight_columns_, new_weight);
        parallel_for(shares, plan_.slots, [&](int64_t task, int) {
            for (int64_t j = 0; j < count; task -= jobs[j++]->shares())
                if (task < jobs[j]->shares()) return pack_share(path_, *jobs[j], task);
        });
        const int64_t token_blocks = blocks_of(tokens_, kTokens), word_blocks = blocks_of(words_, kWords);
        parallel_for(token_blocks * word_blocks, plan_.slots, [&](int64_t task, int slot) {
            g_block(task % token_blocks * kTokens, task / token_blocks * kWords, slot);
        });
        const int64_t columns = blocks_of(plan_.extent.hidden, kWords);
        const int64_t weight_tasks = blocks_of(words_, kTokens) * columns;
        parallel_for(weight_tasks + token_blocks * columns, plan_.slots, [&](int64_t task, int slot) {
            if (task < weight_tasks)
                weight_block(task / columns * kTokens, task % columns * kWords, slot);
            else
                input_block((task - weight_tasks) / columns * kTokens, (task - weight_tasks) % columns * kWords, slot);
        });
    }

  private:
    void g_block(int64_t begin, int64_t word, int slot) const {
        const int64_t tokens = std::min(kTokens, tokens_ - begin), words = std::min(kWords, words_ - word);
        float* const c = plan_.tile.at(workspace_, slot);
        std::byte* const g = plan_.half_tile.at(workspace_, slot);
        const Views& views = plan_.views;
        if (!views.given)
            multiply_block(path_, {input_rows_.panel, weight_rows_.panel, input_rows_.to, weight_rows_.to}, begin,
                           tokens, word, words, c, kWords, false);
        for (int64_t i = 0; i < tokens; ++i) {
            const int64_t token = first_token_ + begin + i, hit = hit_of(plan_, address_, token);
            Token t{0, 1, views.grad.f32(address_, token), hit < 0 ? -1 : hit - first_word_ - word};
            std::byte* const to = g + i * kWords * 2;
            if (!views.given) {
                t.max = views.max.f32(address_, token), t.sum = views.sum.f32(address_, token);
                plan_.rows.gradient(c + i * kWords, words, t, to);
                continue;
            }
            const std::byte* row = views.softmax.at(address_, token, first_word_ + word);
            if (views.softmax.column != 1) {
                gather(reinterpret_cast<std::byte*>(c), row, views.softmax.column, words, sizeof(float));
                row = reinterpret_cast<const std::byte*>(c);
            }
            plan_.rows.gradient_given(reinterpret_cast<const float*>(row), words, t, to);
        }
        pack_gradient(path_, g_, g, begin, tokens, word, words);
    }

    // Rounds [rows, columns] of sums into a view.
    void write(const Grid& out, int64_t first_row, int64_t first_column, int64_t rows, int64_t columns,
               const float* sums, int64_t stride, int slot) const {
        std::byte* const dense = plan_.half_tile.at(workspace_, slot);
        for (int64_t i = 0; i < rows; ++i) {
            std::byte* const to = out.at(address_, first_row + i, first_column);
            plan_.rows.round(sums + i * stride, columns, out.column == 1 ? to : dense + i * kWords * 2);
        }
        if (out.column != 1)
            scatter_rows(out.at(address_, first_row, first_column), dense,
                         {rows, columns, 2, kWords, out.row, out.column});
    }

    void weight_block(int64_t word, int64_t column, int slot) const {
        const int64_t rows = std::min(kTokens, words_ - word), columns = std::min(kWords, plan_.extent.hidden - column);
        const bool alone = plan_.extent.chunks() == 1;
        const int64_t stride = alone ? kWords : plan_.c_stride;
        const int64_t first = plan_.chunks_outside ? first_word_ : 0;
        float* const c = alone ? plan_.tile.at(workspace_, slot)
                               : plan_.weight_sums.at(workspace_) + (first + word) * stride + column;
        multiply_block(path_, {g_.by_word, input_columns_.panel, g_.to_word, input_columns_.to}, word, rows, column,
                       columns, c, stride, chunk_ > 0);
        if (chunk_ == plan_.extent.chunks() - 1)
            write(plan_.views.weight_grad, first_word_ + word, column, rows, columns, c, stride, slot);
    }

    void input_block(int64_t begin, int64_t column, int slot) const {
        const Extent& e = plan_.extent;
        const int64_t tokens = std::min(kTokens, tokens_ - begin), columns = std::min(kWords, e.hidden - column);
        const int64_t stride = plan_.c_stride, first = plan_.chunks_outside ? 0 : first_token_;
        const int64_t at = (first + begin) * stride + column;
        float* sums = plan_.input_sums.at(workspace_) + at;
        multiply_block(path_, {g_.by_token, weight_columns_.panel, g_.to_token, weight_columns_.to}, begin, tokens,
                       column, columns, sums, stride, panel_ % kGroup > 0);
        const bool last = panel_ == e.panels() - 1;
        if (e.panels() > kGroup && (last || panel_ % kGroup == kGroup - 1)) {
            float* const total = plan_.input_total.at(workspace_) + at;
            for (int64_t i = 0; i < tokens; ++i) {
                if (panel_ < kGroup)
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
    PackJob input_rows_, weight_rows_, input_columns_, weight_columns_;
    PackedGradient g_;
};

void run_fast(const Plan& plan, std::byte* const* address, std::byte* workspace) noexcept {
    const int64_t panels = plan.extent.panels(), chunks = plan.extent.chunks();
    int64_t panel = -1, chunk = -1;  // those that are packed
    for (int64_t step = 0; step < panels * chunks; ++step) {
        const int64_t p = plan.chunks_outside ? step % panels : step / chunks;
        const int64_t c = plan.chunks_outside ? step / panels : step % chunks;
        Run(plan, address, workspace, p, c).all(c != chunk, p != panel);
        panel = p, chunk = c;
    }
}

void Plan::run(std::byte* const* address, std::byte* workspace) const noexcept {
    if (extent.tokens == 0 || extent.words == 0) return run_empty(*this, address);
    if (path == nullptr) return run_golden(*this, address, workspace);
    run_fast(*this, address, workspace);
}

// Panels follow from hidden and words alone: a token's sums do not depend on the tokens beside it.
Extent extent_of(int64_t tokens, int64_t hidden, int64_t words) {
    const int64_t chunk = std::clamp(kChunkElements / hidden / kTokens * kTokens, kTokens, kMostTokens);
    const int64_t wide = kPanelElements / hidden;
    const int64_t panel =
        std::clamp<int64_t>(wide >= kWords ? wide / kWords * kWords : wide / kStrips * kStrips, kStrips, kMostWords);
    const int64_t chunks = (tokens + chunk - 1) / chunk;
    return {tokens, hidden, words, std::min(tokens, gemm::round_up((tokens + chunks - 1) / chunks, kTokens)),
            std::min(words, panel)};
}

void book(Plan& plan, Scratch& scratch) {
    const gemm::Path& path = *plan.path;
    const Extent& e = plan.extent;
    if (!plan.views.given) {
        plan.input_rows = scratch.book<std::byte>(path.panel_a(e.chunk, e.hidden).bytes());
        plan.weight_rows = scratch.book<std::byte>(path.panel_b(e.panel, e.hidden).bytes());
    }
    plan.input_columns = scratch.book<std::byte>(path.panel_b(e.hidden, e.chunk).bytes());
    plan.weight_columns = scratch.book<std::byte>(path.panel_b(e.hidden, e.panel).bytes());
    plan.g_tokens = scratch.book<std::byte>(path.panel_a(e.chunk, e.panel).bytes());
    plan.g_words = scratch.book<std::byte>(path.panel_a(e.panel, e.chunk).bytes());
    plan.c_stride = gemm::round_up(e.hidden, path.b.rows);
    plan.chunks_outside = e.tokens > e.words && e.chunks() > 1;
    const int64_t rows = gemm::round_up(plan.chunks_outside ? e.chunk : e.tokens, path.a.rows);
    plan.input_sums = scratch.book<float>(rows * plan.c_stride);
    if (e.panels() > kGroup) plan.input_total = scratch.book<float>(rows * plan.c_stride);
    const int64_t words = plan.chunks_outside ? e.words : e.panel;
    if (e.chunks() > 1) plan.weight_sums = scratch.book<float>(gemm::round_up(words, path.a.rows) * plan.c_stride);
    plan.tile = scratch.book<float>(kTokens * kWords, plan.slots);
    plan.half_tile = scratch.book<std::byte>(kTokens * kWords * 2, plan.slots);
}

}  // namespace

Planned plan_grad(const Call& call) {
    using namespace grad;
    Planned result;
    const TensorView &input = call.view(kInput), &weight = call.view(kWeight);
    const int64_t tokens = input.of(0), hidden = input.of(1), words = weight.of(0);
    if (hidden == 0 || (tokens == 0 && words == 0)) return result;
    const bool golden = call.config.golden(), empty = tokens == 0 || words == 0;
    Plan plan;
    plan.extent = empty ? Extent{tokens, hidden, words} : extent_of(tokens, hidden, words);
    plan.views = {{kGrad, call.view(kGrad)},
                  {kInput, input},
                  {kWeight, weight},
                  {kTargetMask, call.view(kTargetMask)},
                  {kMaskedTarget, call.view(kMaskedTarget)},
                  call.given(kMax) ? Grid(kMax, call.view(kMax)) : Grid(),
                  call.given(kSum) ? Grid(kSum, call.view(kSum)) : Grid(),
                  call.given(kSoftmax) ? Grid(kSoftmax, call.view(kSoftmax)) : Grid(),
                  {kInputGrad, call.view(kInputGrad)},
                  {kWeightGrad, call.view(kWeightGrad)},
                  call.given(kSoftmax),
                  call.view(kTargetMask).dtype == DType::u8};
    plan.slots = call.config.num_threads;
    if (!empty && !golden) {
        plan.path = &gemm::choose(input.dtype, call.config.max_isa);
        plan.rows = choose_rows(input.dtype, call.config.max_isa);
        book(plan, result.scratch);
    } else if (!empty) {
        plan.precision = call.config.precision;
        plan.golden_numbers = book_golden_grad(golden_operands(plan), result.scratch, plan.slots);
        plan.golden_hits = result.scratch.book<int64_t>(tokens);
    }
    const auto bt = static_cast<double>(tokens), h = static_cast<double>(hidden), v = static_cast<double>(words);
    result.bytes = effort_of(4 * (bt * h + v * h), 6 * bt * v * h, golden);
    result.path = empty ? "zeros" : golden ? call.config.golden_path() : plan.path->name;
    result.work = std::make_unique<const Plan>(plan);
    return result;
}

}  // namespace gradus::fused_linear_cross_entropy
