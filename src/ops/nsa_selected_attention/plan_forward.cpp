// Forward: row by row, all scores of a row at once. Blocks of keys and values are packed once for a head of the key.
#include <cmath>

#include "base/golden.h"
#include "ops/nsa_selected_attention/effort.h"
#include "ops/nsa_selected_attention/golden.h"
#include "ops/nsa_selected_attention/kernel_tiles.h"
#include "ops/nsa_selected_attention/plan.h"
#include "runtime/parallel.h"

namespace gradus::nsa_selected_attention {
namespace {

struct Plan final : Work {
    Extent extent{};
    GoldenForward views;
    int slots = 1;
    const gemm::Path* path = nullptr;  // null: golden
    RowFunctions rows{};
    int64_t width = 0;  // columns of a block's scores: whole strips
    // of a head of the key: blocks [size, D] and [Dv, size]
    Piece<std::byte> keys, values;
    // of a thread
    Piece<std::byte> query, e, packed_e, part_values, line;
    Piece<float> scores, c;
    Piece<double> total;
    Piece<std::byte> golden_numbers;
    Precision precision = Precision::golden;

    void run(std::byte* const* address, std::byte* workspace) const noexcept override;
};

void put_copies(const Plan& plan, std::byte* const* address, int64_t row, int64_t head, Softmax softmax) noexcept {
    for (int64_t copy = 0; copy < kCopies; ++copy) {
        *reinterpret_cast<float*>(plan.views.max.at(address, row, head, copy)) = softmax.max;
        *reinterpret_cast<float*>(plan.views.sum.at(address, row, head, copy)) = softmax.sum;
    }
}

// One row, the heads that share a head of the key.
class Row {
  public:
    Row(const Plan& plan, std::byte* const* address, std::byte* workspace, int64_t key_head, int slot)
        : plan_(plan),
          e_(plan.extent),
          path_(*plan.path),
          address_(address),
          workspace_(workspace),
          key_head_(key_head),
          slot_(slot) {}

    void run(int64_t row) {
        row_ = row;
        e_.choose(plan_.views.topk, address_, row, key_head_, choices_);
        const int64_t head = key_head_ * e_.group;
        if (choices_.count == 0) {
            for (int64_t g = 0; g < e_.group; ++g) {
                put_copies(plan_, address_, row, head + g, {0, 0});
                put_zeros(plan_.views.out.at(address_, row, head + g), e_.value_depth, plan_.views.out.column);
            }
            return;
        }
        score();
        softmax();
        output();
    }

  private:
    // scores: [G, count·width]
    void score() {
        const gemm::Panel a = path_.panel_a(e_.group, e_.depth);
        std::byte* const query = plan_.query.at(workspace_, slot_);
        pack_all(path_, a, query, e_.depth, heads_of(plan_.views.query, address_, row_, key_head_ * e_.group));
        for (int64_t i = 0; i < choices_.count; ++i) {
            const Choice& choice = choices_.at[i];
            multiply(path_, a, query, path_.panel_b(choice.rows, e_.depth), plan_.keys.at(workspace_, choice.block),
                     choice.visible, plan_.scores.at(workspace_, slot_) + i * plan_.width, e_.count * plan_.width,
                     false);
            stretches_[i] = {i * plan_.width, choice.visible};
        }
    }

    void softmax() {
        const int64_t length = e_.count * plan_.width;
        for (int64_t g = 0; g < e_.group; ++g) {
            const Softmax result = plan_.rows.softmax(
                plan_.scores.at(workspace_, slot_) + g * length, {stretches_, static_cast<size_t>(choices_.count)},
                static_cast<float>(e_.scale), plan_.e.at(workspace_, slot_) + g * length * 2);
            put_copies(plan_, address_, row_, key_head_ * e_.group + g, result);
        }
    }

    // out = Σ e·v / sum. Products end at the last key that is seen: what a hidden value holds is nobody's business.
    void output() {
        Total total{plan_.c.at(workspace_, slot_), plan_.total.at(workspace_, slot_), e_.group, e_.value_depth,
                    round_up(e_.value_depth, path_.b.rows)};
        const int64_t length = e_.count * plan_.width;
        std::byte* const packed = plan_.packed_e.at(workspace_, slot_);
        for (int64_t i = 0; i < choices_.count; ++i) {
            const Choice& choice = choices_.at[i];
            const gemm::Panel a = path_.panel_a(e_.group, choice.visible);
            const gemm::Panel b = path_.panel_b(e_.value_depth, choice.visible);
            pack_all(path_, a, packed, choice.visible,
                     {plan_.e.at(workspace_, slot_) + i * plan_.width * 2, length, 1});
            const std::byte* values = plan_.values.at(workspace_, choice.block);
            if (!choice.whole()) {
                std::byte* const part = plan_.part_values.at(workspace_, slot_);
                pack_all(path_, b, part, choice.visible,
                         transposed(rows_of(plan_.views.value, address_, choice.key, key_head_)));
                values = part;
            }
            multiply(path_, a, packed, b, values, e_.value_depth, total.c, total.stride, total.accumulate());
            total.added(plan_.rows);
        }
        total.fold(plan_.rows);
        for (int64_t g = 0; g < e_.group; ++g) {
            const int64_t head = key_head_ * e_.group + g;
            put_row(plan_.rows, total.total + g * e_.value_depth, e_.value_depth,
                    1 / static_cast<double>(plan_.views.sum.f32(address_, row_, head)),
                    plan_.views.out.at(address_, row_, head), plan_.views.out.column, plan_.line.at(workspace_, slot_));
        }
    }

    const Plan& plan_;
    const Extent& e_;
    const gemm::Path& path_;
    std::byte* const* address_;
    std::byte* workspace_;
    int64_t key_head_, row_ = 0;
    int slot_;
    Choices choices_;
    Stretch stretches_[kMostCount];
};

void run_fast(const Plan& plan, std::byte* const* address, std::byte* workspace) noexcept {
    const Extent& e = plan.extent;
    const gemm::Path& path = *plan.path;
    for (int64_t head = 0; head < e.key_heads; ++head) {
        parallel_for(e.blocks, plan.slots, [&](int64_t block, int) {
            const Choice b = e.block_at(block);
            pack_all(path, path.panel_b(b.rows, e.depth), plan.keys.at(workspace, block), e.depth,
                     rows_of(plan.views.key, address, b.key, head));
            pack_all(path, path.panel_b(e.value_depth, b.rows), plan.values.at(workspace, block), b.rows,
                     transposed(rows_of(plan.views.value, address, b.key, head)));
        });
        parallel_for((e.rows + kRowsAtOnce - 1) / kRowsAtOnce, plan.slots, [&](int64_t block, int slot) {
            Row row(plan, address, workspace, head, slot);
            for (int64_t t = block * kRowsAtOnce; t < std::min(e.rows, (block + 1) * kRowsAtOnce); ++t) row.run(t);
        });
    }
}

void run_golden(const Plan& plan, std::byte* const* address, std::byte* workspace) noexcept {
    parallel_for(plan.extent.rows, plan.slots, [&](int64_t row, int slot) {
        for (int64_t head = 0; head < plan.extent.heads; ++head)
            golden_forward(plan.extent, plan.precision, plan.views, address, row, head,
                           plan.golden_numbers.at(workspace, slot));
    });
}

void Plan::run(std::byte* const* address, std::byte* workspace) const noexcept {
    path == nullptr ? run_golden(*this, address, workspace) : run_fast(*this, address, workspace);
}

void book(Plan& plan, Scratch& scratch) {
    const gemm::Path& path = *plan.path;
    const Extent& e = plan.extent;
    const int64_t length = e.count * plan.width, stride = round_up(e.value_depth, path.b.rows);
    const int64_t heads = round_up(e.group, path.a.rows);
    plan.keys = scratch.book<std::byte>(path.panel_b(e.size, e.depth).bytes(), e.blocks);
    plan.values = scratch.book<std::byte>(path.panel_b(e.value_depth, e.size).bytes(), e.blocks);
    plan.query = scratch.book<std::byte>(path.panel_a(e.group, e.depth).bytes(), plan.slots);
    plan.scores = scratch.book<float>(heads * length, plan.slots);
    plan.e = scratch.book<std::byte>(e.group * length * 2, plan.slots);
    plan.packed_e = scratch.book<std::byte>(path.panel_a(e.group, e.size).bytes(), plan.slots);
    plan.part_values = scratch.book<std::byte>(path.panel_b(e.value_depth, e.size).bytes(), plan.slots);
    plan.c = scratch.book<float>(heads * stride, plan.slots);
    plan.total = scratch.book<double>(e.group * e.value_depth, plan.slots);
    plan.line = scratch.book<std::byte>(e.value_depth * 2, plan.slots);
}

}  // namespace

Planned plan_forward(const Call& call) {
    using namespace forward;
    Planned result;
    const TensorView &query = call.view(kQuery), &key = call.view(kKey);
    if (query.of(0) == 0) return result;
    const bool golden = call.config.golden();
    Plan plan;
    plan.extent = extent_of(call, kForwardPlaces, call.integer(kMode) == 2 && call.given(kMask));
    plan.views = {{kQuery, query},
                  {kKey, key},
                  {kValue, call.view(kValue)},
                  {kTopk, call.view(kTopk)},
                  {kMax, call.view(kMax)},
                  {kSum, call.view(kSum)},
                  {kOut, call.view(kOut)}};
    plan.slots = call.config.num_threads;
    if (golden) {
        plan.precision = call.config.precision;
        const int64_t numbers = plan.extent.count * plan.extent.size + plan.extent.value_depth;
        plan.golden_numbers = result.scratch.book_bytes({numbers, number_size(plan.precision)}, plan.slots);
    } else {
        plan.path = &gemm::choose(query.dtype, call.config.max_isa);
        plan.rows = choose_rows(query.dtype, call.config.max_isa);
        plan.width = round_up(plan.extent.size, plan.path->b.rows);
        book(plan, result.scratch);
    }
    result.bytes = effort_of(plan.extent, 1, golden);
    result.path = golden ? call.config.golden_path() : plan.path->name;
    result.work = std::make_unique<const Plan>(std::move(plan));
    return result;
}

}  // namespace gradus::nsa_selected_attention
