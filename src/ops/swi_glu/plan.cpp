#include "ops/swi_glu/plan.h"

#include "base/rows.h"
#include "ops/swi_glu/golden.h"
#include "ops/swi_glu/kernel.h"
#include "runtime/parallel.h"

namespace gradus::swi_glu {
namespace {

template <typename Kernel>
struct Plan : Work {
    Plan(const Tiles& cut, int threads, DType type, Kernel function)
        : tiles(cut), slots(threads), dtype(type), kernel(function) {}
    Tiles tiles;
    int slots;
    DType dtype;
    Kernel kernel;  // null: golden
};

struct ForwardPlan final : Plan<ForwardKernel> {
    using Plan::Plan;
    void run(std::byte* const* address, std::byte*) const noexcept override {
        parallel_for(tiles.count, slots, [&](int64_t tile, int) {
            run_tile(tiles, tile, address, [this](const auto& p, int64_t n) {
                if (kernel)
                    kernel(p[0], p[1], p[2], n);
                else
                    golden_forward(dtype, p[0], p[1], p[2], n);
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
                    kernel(p[0], p[1], p[2], p[3], p[4], n);
                else
                    golden_grad(dtype, p[0], p[1], p[2], p[3], p[4], n);
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
Planned planned(const Call& call, std::span<const RowOperand> operands, Kernel kernel) {
    const TensorView& half = operands[0].view;
    Planned result;
    if (half.empty()) return result;
    const bool golden = call.config.precision == Precision::golden;
    const int64_t item = dtype_size(half.dtype);
    int64_t written = 0;
    for (const RowOperand& operand : operands) {
        const int64_t bytes = operand.view.numel() * item;
        result.bytes += bytes * (golden ? 16 : 1);
        written += operand.written ? bytes : 0;
    }
    result.path = golden ? "golden" : isa_name(std::min(call.config.max_isa, Isa::avx512));
    result.work = std::make_unique<const Plan>(tiles_of(operands, written > kStreamingBytes), call.config.num_threads,
                                               half.dtype, golden ? nullptr : kernel);
    return result;
}

}  // namespace

Planned plan_forward(const Call& call) {
    using namespace forward;
    const TensorView& x = call.view(kX);
    const int axis = axis_of(call.integer(kDim), x.rank);
    const RowOperand operands[] = {
        {half_of(x, axis, 0), kX, false}, {half_of(x, axis, 1), kX, false}, {call.view(kOut), kOut, true}};
    return planned<ForwardPlan>(call, operands, choose_forward(x.dtype, call.config.max_isa));
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
    return planned<GradPlan>(call, operands, choose_grad(x.dtype, call.config.max_isa));
}

}  // namespace gradus::swi_glu
