// Golden: matrix by matrix, through the strides.
#include "base/batch.h"
#include "base/golden.h"
#include "ops/exp_segsum/golden.h"
#include "ops/exp_segsum/plan.h"
#include "runtime/parallel.h"

namespace gradus::exp_segsum {
namespace {

constexpr int64_t kTaskElements = 1 << 14;  // of a task: a matrix, or several small ones

struct Plan final : Work {
    Batch batch;  // the inputs, then the output
    int64_t size = 0, matrices = 1;
    GoldenTypes types{};
    int slots = 1, operands = 0;
    std::array<int, 3> argument{};
    std::array<int64_t, 3> row{}, column{};  // strides in bytes
    Piece<std::byte> sums;

    GoldenMatrix matrix(std::byte* const* address, int operand, int64_t m) const {
        const auto k = static_cast<size_t>(operand);
        return {address[argument[k]] + batch.at(operand, m), row[k], column[k]};
    }

    void run(std::byte* const* address, std::byte* workspace) const noexcept override {
        parallel_for((batch.count + matrices - 1) / matrices, slots, [&](int64_t task, int slot) {
            void* const numbers = sums.at(workspace, slot);
            for (int64_t m = task * matrices; m < std::min(batch.count, (task + 1) * matrices); ++m) {
                if (operands == 2)
                    golden_forward(types, size, matrix(address, 0, m), matrix(address, 1, m), numbers);
                else
                    golden_backward(types, size, matrix(address, 0, m), matrix(address, 1, m), matrix(address, 2, m),
                                    numbers);
            }
        });
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
    plan.matrices = std::max<int64_t>(1, kTaskElements / (plan.size * plan.size));
    plan.types = {call.config.precision, views[0]->dtype, last.dtype};
    plan.slots = call.config.num_threads;
    Planned result;
    plan.sums = result.scratch.book_bytes({plan.size, number_size(call.config.precision)}, plan.slots);
    result.bytes = 16 * plan.batch.count * plan.size * plan.size * dtype_size(views[0]->dtype);
    result.path = call.config.golden_path();
    result.work = std::make_unique<const Plan>(plan);
    return result;
}

}  // namespace gradus::exp_segsum
