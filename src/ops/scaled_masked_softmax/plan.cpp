#include "ops/scaled_masked_softmax/plan.h"

#include <algorithm>
#include <cmath>

#include "base/gather.h"
#include "ops/scaled_masked_softmax/golden.h"
#include "ops/scaled_masked_softmax/kernel.h"
#include "runtime/parallel.h"

namespace gradus::scaled_masked_softmax {
namespace {

// Rows of one matrix that are worked on together: their part of the mask stays in the second level of cache while all
// matrices that share it pass by.
constexpr int64_t kChunkElements = 32768, kBlockElements = 262144;
// Where rows are gathered there are at least so many, up to a length, that a line of a transposed view serves all rows
// that have a part in it ([1,2,4096,4096] bf16, all transposed: 4.1 ns an element with 8 rows, 2.4 with 32).
constexpr int64_t kGatheredRows = 32, kGatheredElements = 131072;

// A view as the walk sees it: matrices (outer, inner) of rows. Strides in bytes, `step` in elements.
struct Walked {
    int slot = 0;
    bool written = false, dense = false;
    int64_t item = 0, offset = 0, outer = 0, inner = 0, row = 0, step = 0;
    int64_t pitch = 0;         // of dense rows in scratch
    Piece<std::byte> scratch;  // where rows are gathered that are not dense
};

// Blocks are chunks of rows of some of the matrices that share a mask; both are cut by the problem alone.
template <typename Kernel, size_t kOperands>
struct Plan : Work {
    std::array<Walked, kOperands> operand;
    int64_t matrices = 0, inner = 0, rows = 0, n = 0;
    int64_t sharing = 1;  // matrices one after the other that have the same mask
    int64_t chunk_rows = 0, chunks = 0, block_matrices = 0, blocks_sharing = 0, blocks = 0;
    int slots = 1;
    float scale = 1;
    bool streaming = false;
    DType result = DType::f32;
    Mistake mistake;
    Kernel kernel = nullptr;
};
struct ForwardPlan final : Plan<ForwardKernel, 3> {
    void run(std::byte* const* address, std::byte* workspace) const noexcept override;
};
struct BackwardPlan final : Plan<BackwardKernel, 4> {
    void run(std::byte* const* address, std::byte* workspace) const noexcept override;
};

struct Given {
    TensorView view;
    int slot;
    bool written = false;
};

// Where all heads share a mask they follow each other, batch by batch; where all batches share one, but not the heads,
// batches are walked inside a head.
template <typename Kernel, size_t kOperands>
void set_walk(Plan<Kernel, kOperands>& plan, std::array<Given, kOperands> given, size_t mask) {
    const TensorView shape = given[0].view;
    TensorView& shared = given[mask].view;
    for (const size_t d : {size_t{0}, size_t{1}}) {
        if (shared.size[d] == 1) shared.stride[d] = 0;
        shared.size[d] = shape.size[d];
    }
    const bool turn = shared.step(0) == 0 && shared.step(1) != 0;
    const int outer = turn ? 1 : 0, inner = 1 - outer;
    for (size_t k = 0; k < kOperands; ++k) {
        const TensorView& view = given[k].view;
        Walked& to = plan.operand[k];
        to.slot = given[k].slot;
        to.written = given[k].written;
        to.item = dtype_size(view.dtype);
        to.offset = view.offset * to.item;
        to.outer = view.step(outer) * to.item;
        to.inner = view.step(inner) * to.item;
        to.row = view.step(2) * to.item;
        to.step = view.step(3);
        to.dense = to.step == 1 || view.of(3) == 1;
    }
    plan.matrices = shape.of(0) * shape.of(1);
    plan.inner = shape.of(inner);
    plan.rows = shape.of(2);
    plan.n = shape.of(3);
    if (shared.step(inner) == 0) plan.sharing = shared.step(outer) == 0 ? plan.matrices : plan.inner;

    int64_t chunk_rows = kChunkElements / plan.n;
    if (!std::ranges::all_of(plan.operand, &Walked::dense))
        chunk_rows = std::max(chunk_rows, std::min(kGatheredRows, kGatheredElements / plan.n));
    plan.chunk_rows = std::clamp<int64_t>(chunk_rows, 1, plan.rows);
    plan.chunks = (plan.rows + plan.chunk_rows - 1) / plan.chunk_rows;
    plan.block_matrices = std::clamp<int64_t>(kBlockElements / (plan.chunk_rows * plan.n), 1, plan.sharing);
    plan.blocks_sharing = (plan.sharing + plan.block_matrices - 1) / plan.block_matrices;
    plan.blocks = plan.matrices / plan.sharing * plan.chunks * plan.blocks_sharing;
}

template <typename Plan, typename Kernel, size_t kOperands>
Planned planned(const Call& call, const std::array<Given, kOperands>& given, size_t mask, double scale,
                Kernel (*fast)(DType, Isa), Kernel (*golden)(DType, Precision)) {
    Planned result;
    if (given[0].view.empty()) return result;
    Plan plan;
    set_walk(plan, given, mask);
    const bool is_golden = call.config.golden();
    const DType dtype = given[0].view.dtype;
    plan.kernel = is_golden ? golden(dtype, call.config.precision) : fast(dtype, call.config.max_isa);
    plan.result = given.back().view.dtype;
    plan.mistake = call.config.known_mistake;
    plan.slots = call.config.num_threads;
    plan.scale = one_nan(static_cast<float>(scale));  // stores into 16 bits rely on a plain NaN
    const int64_t elements = given[0].view.numel();
    for (Walked& operand : plan.operand) {
        result.bytes += elements * operand.item * (is_golden ? 16 : 1);
        if (operand.written) plan.streaming = operand.dense && elements * operand.item > kStreamingBytes;
        if (operand.dense) continue;
        // an odd number of lines, or the rows of a chunk would fall into the same few sets of the cache
        operand.pitch = ((plan.n * operand.item + 63) / 64 | 1) * 64;
        operand.scratch = result.scratch.book<std::byte>(plan.chunk_rows * operand.pitch, plan.slots);
    }
    result.path = is_golden ? call.config.golden_path() : isa_name(std::min(call.config.max_isa, Isa::avx512));
    result.work = std::make_unique<const Plan>(plan);
    return result;
}

// Calls compute(strips, rows) for every chunk of the block.
template <typename Plan, typename Compute>
void run_block(const Plan& plan, int64_t block, int slot, std::byte* const* address, std::byte* workspace,
               const Compute& compute) noexcept {
    const int64_t part = block % plan.blocks_sharing, chunk = block / plan.blocks_sharing % plan.chunks;
    const int64_t group = block / plan.blocks_sharing / plan.chunks * plan.sharing;
    const int64_t first = chunk * plan.chunk_rows, rows = std::min(plan.chunk_rows, plan.rows - first);
    const int64_t begin = group + part * plan.block_matrices;
    const int64_t end = std::min(begin + plan.block_matrices, group + plan.sharing);
    for (int64_t matrix = begin; matrix < end; ++matrix) {
        std::array<DenseRows, std::tuple_size_v<decltype(plan.operand)>> rows_at;
        const auto copy_of = [&](const Walked& o) {
            return RowCopy{rows, plan.n, o.item, o.pitch / o.item, o.row / o.item, o.step};
        };
        const auto address_at = [&](const Walked& o, int64_t m) {
            return address[o.slot] + o.offset + m / plan.inner * o.outer + m % plan.inner * o.inner + first * o.row;
        };
        const auto address_of = [&](const Walked& o) { return address_at(o, matrix); };
        for (size_t k = 0; k < rows_at.size(); ++k) {
            const Walked& o = plan.operand[k];
            rows_at[k] = o.dense ? DenseRows{address_of(o), o.row, address_at(o, std::min(matrix + 1, end - 1))}
                                 : DenseRows{o.scratch.at(workspace, slot), o.pitch, nullptr};
            if (!o.dense && !o.written) gather_rows(rows_at[k].data, address_of(o), copy_of(o));
        }
        compute(rows_at, rows);
        for (size_t k = 0; k < rows_at.size(); ++k)
            if (const Walked& o = plan.operand[k]; !o.dense && o.written)
                scatter_rows(address_of(o), rows_at[k].data, copy_of(o));
    }
    if (plan.streaming) stream_fence();
}

void ForwardPlan::run(std::byte* const* address, std::byte* workspace) const noexcept {
    parallel_for(blocks, slots, [&](int64_t block, int slot) {
        run_block(*this, block, slot, address, workspace, [this](const auto& s, int64_t count) {
            kernel({s[0], s[1], s[2], count, n, scale, streaming, result, mistake});
        });
    });
}

void BackwardPlan::run(std::byte* const* address, std::byte* workspace) const noexcept {
    parallel_for(blocks, slots, [&](int64_t block, int slot) {
        run_block(*this, block, slot, address, workspace, [this](const auto& s, int64_t count) {
            kernel({s[0], s[1], s[2], s[3], count, n, scale, streaming, result, mistake});
        });
    });
}

}  // namespace

Planned plan_forward(const Call& call) {
    using namespace forward;
    const std::array<Given, 3> given = {{{call.view(kX), kX}, {call.view(kMask), kMask}, {call.view(kY), kY, true}}};
    return planned<ForwardPlan>(call, given, 1, call.real(kScale), choose_forward, golden_forward);
}

Planned plan_backward(const Call& call) {
    using namespace backward;
    const std::array<Given, 4> given = {{{call.view(kGradOutput), kGradOutput},
                                         {call.view(kY), kY},
                                         {call.view(kMask), kMask},
                                         {call.view(kOut), kOut, true}}};
    return planned<BackwardPlan>(call, given, 2, call.real(kScale), choose_backward, golden_backward);
}

}  // namespace gradus::scaled_masked_softmax
