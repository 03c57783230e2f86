// Golden: matrix by matrix, block of columns by block, through the strides.
#include <algorithm>

#include "base/arithmetic.h"
#include "base/batch.h"
#include "base/golden.h"
#include "ops/exp_segsum/golden.h"
#include "ops/exp_segsum/plan.h"
#include "runtime/parallel.h"

namespace gradus::exp_segsum {
namespace {

constexpr int64_t kPartNumbers = 1 << 20;  // of the backward: kept at a time

struct Plan final : Work {
    Batch batch;  // the inputs, then the output
    int64_t size = 0, matrices = 1, blocks = 1;
    GoldenTypes types{};
    int slots = 1, operands = 0;
    std::array<int, 3> argument{};
    std::array<int64_t, 3> row{}, column{};  // strides in bytes
    Piece<std::byte> sums, parts;

    GoldenMatrix matrix(std::byte* const* address, int operand, int64_t m) const {
        const auto k = static_cast<size_t>(operand);
        return {address[argument[k]] + batch.at(operand, m), row[k], column[k]};
    }

    void run(std::byte* const* address, std::byte* workspace) const noexcept override {
        // as many matrices at a time as their parts have room for
        for (int64_t first = 0; first < batch.count; first += matrices) {
            const int64_t count = std::min(matrices, batch.count - first);
            parallel_for(count * blocks, slots, [&](int64_t task, int slot) {
                run_block(address, workspace, first, task / blocks, task % blocks, slot);
            });
            if (operands == 2) continue;
            parallel_for(count, slots, [&](int64_t m, int) {
                golden_backward_store(types, size, blocks, part(workspace, m, 0), matrix(address, 2, first + m));
            });
        }
    }

  private:
    std::byte* part(std::byte* workspace, int64_t m, int64_t block) const {
        return parts.at(workspace) + (m * blocks + block) * size * number_size(types.how.precision);
    }

    void run_block(std::byte* const* address, std::byte* workspace, int64_t first, int64_t m, int64_t block,
                   int slot) const noexcept {
        const int64_t begin = block * kGoldenColumns, end = std::min(size, begin + kGoldenColumns);
        const GoldenMatrix in = matrix(address, 0, first + m), second = matrix(address, 1, first + m);
        if (operands == 2)
            golden_forward(types, size, begin, end, in, second, sums.at(workspace, slot));
        else
            golden_backward(types, size, begin, end, in, second, sums.at(workspace, slot), part(workspace, m, block));
    }
};

}  // namespace

Planned plan_golden(const Call& call, std::span<const int> arguments, int batch_rank) {
    std::array<const TensorView*, 3> views{};
    Plan plan;
    for (const int argument : arguments) {
        const auto k = static_cast<size_t>(plan.operands++);
        const TensorView& view = call.view(argument);
        const int64_t item = dtype_size(view.dtype);
        views[k] = &view;
        plan.argument[k] = argument;
        plan.column[k] = view.step(view.rank - 1) * item;
        plan.row[k] = view.rank > batch_rank + 1 ? view.step(view.rank - 2) * item : 0;
    }
    const TensorView& last = *views[arguments.size() - 1];
    plan.size = last.of(last.rank - 1);
    plan.batch = batch_of(std::span(views).first(arguments.size()), batch_rank);
    plan.blocks = ceil_div(plan.size, kGoldenColumns);
    plan.matrices =
        std::clamp<int64_t>(kPartNumbers / (plan.blocks * plan.size), 1, std::max<int64_t>(1, plan.batch.count));
    plan.types = {call.config.how(), views[0]->dtype, last.dtype};
    plan.slots = call.config.num_threads;
    Planned result;
    const int64_t number = number_size(call.config.precision);
    plan.sums = result.scratch.book_bytes({std::min(plan.size, kGoldenColumns), number}, plan.slots);
    if (plan.operands == 3) plan.parts = result.scratch.book_bytes({plan.matrices, plan.blocks, plan.size, number});
    result.bytes = 16 * plan.batch.count * plan.size * plan.size * dtype_size(views[0]->dtype);
    result.path = call.config.golden_path();
    result.work = std::make_unique<const Plan>(plan);
    return result;
}

}  // namespace gradus::exp_segsum
