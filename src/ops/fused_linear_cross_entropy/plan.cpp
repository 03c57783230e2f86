// The loss: elementwise, and the one of the three operators that is no product.
#include "ops/fused_linear_cross_entropy/plan.h"

#include <cmath>

#include "base/gather.h"
#include "ops/fused_linear_cross_entropy/golden.h"
#include "ops/fused_linear_cross_entropy/kernel.h"
#include "runtime/parallel.h"

namespace gradus::fused_linear_cross_entropy {
namespace {

constexpr int64_t kPiece = 1024;          // elements of a row that are made dense at a time
constexpr int64_t kTileElements = 32768;  // of a block of rows

struct Plan final : Work {
    Strided max, sum, predicted, loss, logits, softmax;
    GoldenLoss golden{};
    bool is_golden = false;
    int64_t tokens = 0, words = 0, rows = 0, columns = 0;  // rows and columns of a tile
    int slots = 1;
    bool streaming = false;       // softmax goes past the cache
    SoftmaxRow kernel = nullptr;  // null: golden, or no softmax

    void run(std::byte* const* address, std::byte* workspace) const noexcept override;
};

void fast_softmax(const Plan& plan, std::byte* const* address, int64_t i, int64_t begin, int64_t end) noexcept {
    alignas(64) std::byte dense[kPiece * 4];
    alignas(64) float result[kPiece];
    const float max = plan.max.f32(address, i), sum = plan.sum.f32(address, i);
    const bool direct = plan.softmax.step[1] == 1;
    const int64_t piece = direct && plan.logits.step[1] == 1 ? end - begin : kPiece;
    for (int64_t j = begin; j < end; j += piece) {
        const int64_t n = std::min(piece, end - j);
        const std::byte* from = plan.logits.at(address, i, j);
        if (plan.logits.step[1] != 1) gather(dense, from, plan.logits.step[1], n, plan.logits.item);
        std::byte* to = plan.softmax.at(address, i, j);
        plan.kernel(plan.logits.step[1] == 1 ? from : dense, n, max, sum,
                    direct ? reinterpret_cast<float*>(to) : result, plan.streaming);
        if (!direct) scatter(to, plan.softmax.step[1], reinterpret_cast<const std::byte*>(result), n, sizeof(float));
    }
}

void Plan::run(std::byte* const* address, std::byte*) const noexcept {
    const int64_t column_tiles = std::max<int64_t>(1, (words + columns - 1) / columns);
    const int64_t tiles = (tokens + rows - 1) / rows * column_tiles;
    parallel_for(tiles, slots, [&](int64_t tile, int) {
        const int64_t first = tile / column_tiles * rows, begin = tile % column_tiles * columns;
        for (int64_t i = first; i < std::min(first + rows, tokens); ++i) {
            const int64_t end = std::min(begin + columns, words);
            if (is_golden) {
                if (begin == 0) golden_loss(golden, address, i);
                if (begin < end) golden_softmax(golden, address, i, begin, end);
                continue;
            }
            if (begin == 0) {  // log in f64: one rounding where it cancels with predicted
                const double all = sum.f32(address, i), hit = predicted.f32(address, i);
                loss.put(address, i, static_cast<float>(std::log(all) - hit));
            }
            if (begin < end) fast_softmax(*this, address, i, begin, end);
        }
        if (streaming) stream_fence();
    });
}

}  // namespace

int64_t effort_of(double bytes, double operations, bool golden) {
    return static_cast<int64_t>(std::min(1e18, (bytes + operations / 16) * (golden ? 16 : 1)));
}

Planned plan_loss(const Call& call) {
    using namespace loss;
    Planned result;
    const int64_t tokens = call.view(kMax).of(0);
    if (tokens == 0) return result;
    const bool golden = call.config.golden();
    Plan plan;
    plan.max = {kMax, call.view(kMax)};
    plan.sum = {kSum, call.view(kSum)};
    plan.predicted = {kPredicted, call.view(kPredicted)};
    plan.loss = {kLoss, call.view(kLoss)};
    plan.tokens = tokens;
    plan.columns = kTileElements;
    plan.slots = call.config.num_threads;
    if (call.given(kLogits)) {
        plan.logits = {kLogits, call.view(kLogits)};
        plan.softmax = {kSoftmax, call.view(kSoftmax)};
        plan.words = call.view(kLogits).of(1);
        if (!golden) plan.kernel = choose_softmax(call.view(kLogits).dtype, call.config.max_isa);
        plan.streaming =
            !golden && plan.softmax.step[1] == 1 && tokens * plan.words * int64_t{sizeof(float)} > kStreamingBytes;
    }
    plan.is_golden = golden;
    plan.golden = {call.config.how(), plan.max, plan.sum, plan.predicted, plan.loss, plan.logits, plan.softmax};
    plan.rows = std::max<int64_t>(1, kTileElements / std::max<int64_t>(plan.words, 16));
    const double elements = static_cast<double>(tokens) * static_cast<double>(plan.words);
    result.bytes = effort_of(16.0 * static_cast<double>(tokens) + 8 * elements, 32 * elements, golden);
    result.path = golden ? call.config.golden_path() : isa_name(std::min(call.config.max_isa, Isa::avx512));
    result.work = std::make_unique<const Plan>(plan);
    return result;
}

}  // namespace gradus::fused_linear_cross_entropy
