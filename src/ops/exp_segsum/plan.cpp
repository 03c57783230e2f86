#include "ops/exp_segsum/plan.h"

#include <algorithm>
#include <cstring>

#include "base/batch.h"
#include "base/gather.h"
#include "ops/exp_segsum/kernel.h"
#include "runtime/parallel.h"

namespace gradus::exp_segsum {
namespace {

constexpr int64_t kBlockElements = 1 << 16;  // of a task: one matrix of 256×256, or many small ones
constexpr int64_t kMostOnStack = 4096;       // columns whose sums live on the stack; longer ones in the workspace
constexpr int64_t kFewOnStack = 512;         // a small call may run on its caller's thread, whose stack may be short
constexpr int64_t kMostInOne = 1024;         // rows that the backward does not cut into panels
constexpr int64_t kBackwardRows = 512, kMostPanels = 64;
constexpr int64_t kWaveBytes = 1 << 20;   // of the sums of all matrices whose panels are under way
constexpr int64_t kGatherRows = 16;       // copied at a time: whole lines of a transposed matrix
constexpr int64_t kStageElements = 4096;  // of the result, made in the cache and then moved to its place
constexpr int64_t kLine = 64;             // bytes

// A [.., rows, columns] view from its last two dims; strides in elements.
struct MatrixStrides {
    int64_t pitch = 0, step = 0;
    bool dense = true;
};

MatrixStrides matrix_strides(const TensorView& view, int64_t size) {
    const int64_t step = view.step(view.rank - 1);
    return {view.step(view.rank - 2), step, step == 1 || size == 1};
}

struct Blocks {
    int64_t matrices = 1, count = 0;
    int slots = 1;

    Blocks() = default;
    Blocks(int64_t all, int64_t size, int threads)
        : matrices(std::max<int64_t>(1, kBlockElements / (size * size))),
          count((all + matrices - 1) / matrices),
          slots(threads) {}
};

const char* path_of(const Config& config) { return isa_name(std::min(config.max_isa, Isa::avx512)); }

struct ForwardPlan final : Work {
    Batch batch;    // self, out
    Blocks blocks;  // of panels
    int64_t panels = 1;
    int64_t size = 0, item = 0, x_step = 0, stage_rows = 0;
    MatrixStrides out;
    bool streaming = false;
    bool in_place = false;  // rows are made where they belong; large ones only if they begin with lines
    bool small = false;     // matrices follow each other, and several fit the stage
    ForwardKernel kernel{};
    Piece<double> value, step;
    Piece<float> anchor;
    Piece<std::byte> stage, x_copy;

    void run(std::byte* const* address, std::byte* workspace) const noexcept override;
};

struct BackwardPlan final : Work {
    Batch batch;  // gradOutput, gradSelf, gradInput
    Blocks blocks;
    int64_t size = 0, item = 0, out_step = 0;
    MatrixStrides g, y;
    BackwardKernel kernel{};
    Piece<std::byte> g_copy, y_copy;
    // of a matrix that is cut: rows of a panel, how many panels, and how many matrices are under way at once
    int64_t panel_rows = 0, panels = 1, wave = 0;
    Piece<double> sums, results;  // of a panel, of a matrix

    void run(std::byte* const* address, std::byte* workspace) const noexcept override;
};

// Where a block finds its operands.
struct ForwardOperands {
    const ForwardPlan& plan;
    std::byte* const* address;
    std::byte *x_copy, *stage;

    std::byte* out(int64_t m) const { return address[forward::kOut] + plan.batch.at(1, m); }
    const std::byte* self(int64_t m) const {
        const std::byte* from = address[forward::kSelf] + plan.batch.at(0, m);
        if (plan.x_step == 1) return from;
        gather(x_copy, from, plan.x_step, plan.size, plan.item);
        return x_copy;
    }
};

// Moves rows from the stage to their place, `to` being that of the first.
void deliver(const ForwardPlan& plan, std::byte* to, const std::byte* stage, int64_t rows) noexcept {
    if (!plan.out.dense) {
        scatter_rows(to, stage, {rows, plan.size, plan.item, plan.size, plan.out.pitch, plan.out.step});
        return;
    }
    const int64_t row_bytes = plan.size * plan.item;
    const bool gapless = plan.out.pitch == plan.size;
    const int64_t runs = gapless ? 1 : rows, bytes = gapless ? rows * row_bytes : row_bytes;
    for (int64_t run = 0; run < runs; ++run, to += plan.out.pitch * plan.item, stage += row_bytes) {
        if (plan.streaming)
            plan.kernel.copy(to, stage, bytes);
        else
            std::memcpy(to, stage, static_cast<size_t>(bytes));
    }
}

// Makes the matrices [begin, end), which lie one behind the other, on a stage that holds several of them: what is
// written past the cache should be long.
void make_small(const ForwardPlan& plan, int64_t begin, int64_t end, const ForwardOperands& at,
                ForwardColumns& columns) noexcept {
    const int64_t matrix = plan.size * plan.size, most = kStageElements / matrix;
    for (int64_t m = begin; m < end; m += most) {
        const int64_t count = std::min(most, end - m);
        for (int64_t k = 0; k < count; ++k) {
            plan.kernel.begin(at.self(m + k), plan.size, 0, columns);
            plan.kernel.rows(0, plan.size, plan.size, columns, at.stage + k * matrix * plan.item, plan.size);
        }
        deliver(plan, at.out(m), at.stage, count * plan.size);
    }
}

// Makes the panels [begin, end), in place or on the stage.
void make_large(const ForwardPlan& plan, int64_t begin, int64_t end, const ForwardOperands& at,
                ForwardColumns& columns) noexcept {
    for (int64_t panel = begin; panel < end; ++panel) {
        const int64_t m = panel / plan.panels, first = panel % plan.panels * kPanelRows;
        const int64_t stop = std::min(first + kPanelRows, plan.size), pitch = plan.out.pitch * plan.item;
        std::byte* out = at.out(m);
        plan.kernel.begin(at.self(m), plan.size, first, columns);
        const bool lines = reinterpret_cast<uintptr_t>(out) % kLine == 0 && pitch % kLine == 0;
        if (plan.in_place && (!plan.streaming || (lines && plan.kernel.past))) {
            columns.past = plan.streaming;
            plan.kernel.rows(first, stop - first, plan.size, columns, out + first * pitch, plan.out.pitch);
            continue;
        }
        columns.past = false;
        for (int64_t i = first; i < stop; i += plan.stage_rows) {
            const int64_t rows = std::min(plan.stage_rows, stop - i);
            plan.kernel.rows(i, rows, plan.size, columns, at.stage, plan.size);
            deliver(plan, out + i * pitch, at.stage, rows);
        }
    }
}

template <int64_t kMost>
void forward_block(const ForwardPlan& plan, std::byte* const* address, std::byte* workspace, int64_t block,
                   int slot) noexcept {
    alignas(64) double value[kMost], step[kMost];
    alignas(64) float anchor[kMost];
    alignas(64) std::byte stage[(std::max(kStageElements, kRowGroup * kMost) + kPadding) * sizeof(float)];
    const bool here = plan.size <= kMost;
    ForwardColumns columns{.value = here ? value : plan.value.at(workspace, slot),
                           .step = here ? step : plan.step.at(workspace, slot),
                           .anchor = here ? anchor : plan.anchor.at(workspace, slot)};
    const ForwardOperands at = {plan, address, plan.x_copy.at(workspace, slot),
                                here ? stage : plan.stage.at(workspace, slot)};
    const int64_t begin = block * plan.blocks.matrices;
    const int64_t end = std::min(begin + plan.blocks.matrices, plan.batch.count * plan.panels);
    (plan.small ? make_small : make_large)(plan, begin, end, at, columns);
    if (plan.streaming) stream_fence();
}

void ForwardPlan::run(std::byte* const* address, std::byte* workspace) const noexcept {
    const auto run_block = size <= kFewOnStack ? forward_block<kFewOnStack> : forward_block<kMostOnStack>;
    parallel_for(blocks.count, blocks.slots,
                 [&](int64_t block, int slot) { run_block(*this, address, workspace, block, slot); });
}

// Rows of a matrix for the kernel; those without unit stride are copied, only what lies below the diagonal.
MatrixRows rows_of(const BackwardPlan& plan, const MatrixStrides& from, std::byte* matrix, std::byte* copy,
                   int64_t first, int64_t rows) noexcept {
    std::byte* at = matrix + first * from.pitch * plan.item;
    if (from.dense) return {at, from.pitch, plan.size};
    const int64_t pitch = padded(plan.size);
    gather_rows(copy, at, {rows, first + rows - 1, plan.item, pitch, from.pitch, from.step});
    return {copy, pitch, pitch};
}

// Where a call finds its matrices, and what a slot gathers into.
struct BackwardOperands {
    const BackwardPlan& plan;
    std::byte* const* address;
    std::byte *g_copy, *y_copy;

    // Rows [first, end) of matrix m, from the last to the first, as if they were all there is.
    void rows(int64_t m, int64_t first, int64_t end, BackwardColumns& columns) const noexcept {
        using namespace backward;
        std::byte* g = address[kGradOutput] + plan.batch.at(0, m);
        std::byte* y = address[kGradSelf] + plan.batch.at(1, m);
        const int64_t chunk = plan.g.dense && plan.y.dense ? end - first : kGatherRows;
        for (int64_t i = first + (end - 1 - first) / chunk * chunk; i >= first; i -= chunk) {
            const int64_t count = std::min(chunk, end - i);
            plan.kernel.rows(rows_of(plan, plan.g, g, g_copy, i, count), rows_of(plan, plan.y, y, y_copy, i, count), i,
                             count, end, columns);
        }
    }
    void store(int64_t m, const BackwardColumns& columns) const noexcept {
        plan.kernel.store(columns, plan.size, address[backward::kGradInput] + plan.batch.at(2, m), plan.out_step);
    }
};

template <int64_t kMost>
void backward_block(const BackwardPlan& plan, const BackwardOperands& at, int64_t block) noexcept {
    alignas(64) double sum[kMost], result[kMost];
    BackwardColumns columns = {sum, result, 0};
    // against the direction of memory, as the rows of a triangle go: see README.md
    const int64_t end = plan.batch.count - block * plan.blocks.matrices;
    const int64_t begin = std::max<int64_t>(0, end - plan.blocks.matrices);
    for (int64_t m = end - 1; m >= begin; --m) {
        at.rows(m, 0, plan.size, columns);
        at.store(m, columns);
    }
}

// Matrices in panels, a wave of them at a time; `at(slot)` are the operands of a slot.
template <typename At>
void run_panels(const BackwardPlan& plan, std::byte* workspace, const At& at) noexcept {
    for (int64_t end = plan.batch.count; end > 0; end -= plan.wave) {
        const int64_t begin = std::max<int64_t>(0, end - plan.wave);
        const auto columns_of = [&](int64_t m, int64_t panel) {
            return BackwardColumns{plan.sums.at(workspace, (m - begin) * plan.panels + panel),
                                   plan.results.at(workspace, m - begin), 0};
        };
        parallel_for((end - begin) * plan.panels, plan.blocks.slots, [&](int64_t block, int slot) {
            const int64_t m = end - 1 - block / plan.panels, panel = plan.panels - 1 - block % plan.panels;
            const int64_t first = panel * plan.panel_rows;
            BackwardColumns columns = columns_of(m, panel);
            at(slot).rows(m, first, std::min(first + plan.panel_rows, plan.size), columns);
        });
        parallel_for(end - begin, plan.blocks.slots, [&](int64_t block, int slot) {
            const BackwardColumns columns = columns_of(begin + block, 0);
            const int64_t pitch = plan.sums.at(workspace, 1) - plan.sums.at(workspace, 0);
            plan.kernel.join(columns.sum, pitch, plan.panel_rows, plan.size, columns.result);
            at(slot).store(begin + block, columns);
        });
    }
}

void BackwardPlan::run(std::byte* const* address, std::byte* workspace) const noexcept {
    const auto at = [&](int slot) {
        return BackwardOperands{*this, address, g_copy.at(workspace, slot), y_copy.at(workspace, slot)};
    };
    if (panels > 1) return run_panels(*this, workspace, at);
    const auto run_block = size <= kFewOnStack ? backward_block<kFewOnStack> : backward_block<kMostInOne>;
    parallel_for(blocks.count, blocks.slots, [&](int64_t block, int slot) { run_block(*this, at(slot), block); });
}

}  // namespace

Planned plan_forward(const Call& call) {
    using namespace forward;
    const TensorView &self = call.view(kSelf), &out = call.view(kOut);
    Planned result;
    if (out.empty()) return result;
    if (call.config.golden()) return plan_golden(call, std::array{int{kSelf}, int{kOut}}, self.rank - 1);
    const TensorView* const views[] = {&self, &out};
    const int threads = call.config.num_threads;
    ForwardPlan plan;
    plan.size = self.of(self.rank - 1);
    plan.item = dtype_size(self.dtype);
    plan.batch = batch_of(views, self.rank - 1);
    plan.panels = (plan.size + kPanelRows - 1) / kPanelRows;
    plan.blocks = Blocks(plan.batch.count * plan.panels, std::min(plan.size, kPanelRows), threads);
    plan.x_step = plan.size == 1 ? 1 : self.step(self.rank - 1);
    plan.stage_rows = std::max<int64_t>(1, kStageElements / plan.size / kRowGroup) * kRowGroup;
    plan.out = matrix_strides(out, plan.size);
    result.bytes = out.numel() * plan.item;
    plan.streaming = out.numel() * plan.item > kStreamingBytes;
    plan.in_place = plan.out.dense && plan.size % kPadding == 0;
    const int64_t matrix = plan.size * plan.size;
    plan.small = !plan.in_place && plan.out.dense && plan.out.pitch == plan.size && matrix <= kStageElements / 2 &&
                 plan.batch.packed(1, matrix * plan.item);
    plan.kernel = choose_forward(self.dtype, call.config.max_isa);
    if (plan.size > kMostOnStack) {
        plan.value = result.scratch.book<double>(padded(plan.size), threads);
        plan.step = result.scratch.book<double>(padded(plan.size), threads);
        plan.anchor = result.scratch.book<float>(padded(plan.size), threads);
        plan.stage = result.scratch.book<std::byte>((kRowGroup * plan.size + kPadding) * plan.item, threads);
    }
    if (plan.x_step != 1) plan.x_copy = result.scratch.book<std::byte>(plan.size * plan.item, threads);
    result.path = path_of(call.config);
    result.work = std::make_unique<const ForwardPlan>(plan);
    return result;
}

Planned plan_backward(const Call& call) {
    using namespace backward;
    const TensorView &g = call.view(kGradOutput), &y = call.view(kGradSelf), &out = call.view(kGradInput);
    Planned result;
    if (out.empty()) return result;
    if (call.config.golden())
        return plan_golden(call, std::array{int{kGradOutput}, int{kGradSelf}, int{kGradInput}}, out.rank - 1);
    const TensorView* const views[] = {&g, &y, &out};
    const int threads = call.config.num_threads;
    BackwardPlan plan;
    plan.size = out.of(out.rank - 1);
    plan.item = dtype_size(out.dtype);
    plan.batch = batch_of(views, out.rank - 1);
    plan.blocks = Blocks(plan.batch.count, plan.size, threads);
    plan.out_step = out.step(out.rank - 1);
    plan.g = matrix_strides(g, plan.size);
    plan.y = matrix_strides(y, plan.size);
    result.bytes = g.numel() * plan.item;  // two halves
    plan.kernel = choose_backward(g.dtype, call.config.max_isa);
    if (plan.size > kMostInOne) {
        const int64_t rows = std::max(kBackwardRows, (plan.size + kMostPanels - 1) / kMostPanels);
        plan.panel_rows = (rows + kGatherRows - 1) / kGatherRows * kGatherRows;
        plan.panels = (plan.size + plan.panel_rows - 1) / plan.panel_rows;
        const int64_t each = (plan.panels + 1) * padded(plan.size) * int64_t{sizeof(double)};
        plan.wave = std::clamp<int64_t>(kWaveBytes / each, 1, plan.batch.count);
        plan.sums = result.scratch.book<double>(padded(plan.size), plan.wave * plan.panels);
        plan.results = result.scratch.book<double>(plan.size, plan.wave);
    }
    const int64_t copy = kGatherRows * padded(plan.size) * plan.item;
    if (!plan.g.dense) plan.g_copy = result.scratch.book<std::byte>(copy, threads);
    if (!plan.y.dense) plan.y_copy = result.scratch.book<std::byte>(copy, threads);
    result.path = path_of(call.config);
    result.work = std::make_unique<const BackwardPlan>(plan);
    return result;
}

}  // namespace gradus::exp_segsum
