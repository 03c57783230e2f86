#include "ops/swi_glu/plan.h"

#include "base/rows.h"
#include "ops/swi_glu/golden.h"
#include "ops/swi_glu/kernel.h"
#include "runtime/parallel.h"

namespace gradus::swi_glu {
namespace {

template <typename Kernel>
struct Plan : Work {
    Plan(const Tiles& cut, int threads, const GoldenTypes& golden_types, Kernel function)
        : tiles(cut), slots(threads), types(golden_types), kernel(function) {}
    Tiles tiles;
    int slots;
    GoldenTypes types;
    Kernel kernel;  // null: golden
};

struct ForwardPlan final : Plan<ForwardKernel> {
    using Plan::Plan;
    void run(std::byte* const* address, std::byte*) const noexcept override {
        parallel_for(tiles.count, slots, [&](int64_t tile, int) {
            run_tile(tiles, tile, address, [this](const auto& p, int64_t n) {
                if (kernel)
                    kernel(p[0], p[1], p[2], n, tiles.streaming);
                else
                    golden_forward(types, p[0], p[1], p[2], n);
            });
        });
    }
};

struct GradPlan final : Plan<GradKernel> {
    using Plan::Plan;
    void run(std::byte* const* address, std::byte*) const noexcept override {
        parallel_for(tiles.count, slots, [&](int64_t tile, int) {
            run_tile(tiles, tile, address, [this](const auto& p, int64_t n) {
                if (kernel)
                    kernel(p[0], p[1], p[2], p[3], p[4], n, tiles.streaming);
                else
                    golden_grad(types, p[0], p[1], p[2], p[3], p[4], n);
            });
        });
    }
};

TensorView half_of(TensorView view, int axis, int which) {
    const auto d = static_cast<size_t>(axis);
    view.size[d] /= 2;
    view.offset += which * view.size[d] * view.stride[d];
    return view;
}

template <typename Plan, typename Kernel>
Planned planned(const Call& call, std::span<const RowOperand> operands, Kernel (*choose)(DType, Isa)) {
    const TensorView& half = operands.front().view;
    Planned result;
    if (half.empty()) return result;
    const bool golden = call.config.golden();
    int64_t written = 0;
    for (const RowOperand& operand : operands) {
        const int64_t bytes = operand.view.numel() * dtype_size(operand.view.dtype);
        result.bytes += bytes * (golden ? 16 : 1);
        written += operand.written ? bytes : 0;
    }
    result.path = golden ? call.config.golden_path() : isa_name(std::min(call.config.max_isa, Isa::avx512));
    const GoldenTypes types = {call.config.how(), half.dtype, operands.back().view.dtype};
    result.work = std::make_unique<const Plan>(tiles_of(operands, written > kStreamingBytes), call.config.num_threads,
                                               types, golden ? nullptr : choose(half.dtype, call.config.max_isa));
    return result;
}

}  // namespace

Planned plan_forward(const Call& call) {
    using namespace forward;
    const TensorView& x = call.view(kX);
    const int axis = axis_of(call.integer(kDim), x.rank);
    const RowOperand operands[] = {
        {half_of(x, axis, 0), kX, false}, {half_of(x, axis, 1), kX, false}, {call.view(kOut), kOut, true}};
    return planned<ForwardPlan>(call, operands, choose_forward);
}

Planned plan_grad(const Call& call) {
    using namespace grad;
    const TensorView &x = call.view(kX), &out = call.view(kOut);
    const int axis = axis_of(call.integer(kDim), x.rank);
    const RowOperand operands[] = {{call.view(kYGrad), kYGrad, false},
                                   {half_of(x, axis, 0), kX, false},
                                   {half_of(x, axis, 1), kX, false},
                                   {half_of(out, axis, 0), kOut, true},
                                   {half_of(out, axis, 1), kOut, true}};
    return planned<GradPlan>(call, operands, choose_grad);
}

}  // namespace gradus::swi_glu
