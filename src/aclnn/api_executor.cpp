// extern "C": what can be done to an executor besides launching it.
#include "aclnn/aclnn_base.h"
#include "aclnn/boundary.h"
#include "aclnn/executor.h"
#include "base/check.h"
#include "gradus/gradus.h"

using namespace gradus;

namespace {

aclnnStatus no_executor(const char* function, const aclOpExecutor* executor) {
    return report(function, ACLNN_ERR_INNER_NULLPTR,
                  executor == nullptr ? "executor: NULL" : "executor: not alive (spent, destroyed or foreign)");
}

// The index counts the tensors of one direction (or of both, inputs first), a NULL optional included.
enum class Count { inputs, outputs, both };

size_t argument_of(const Operator& op, Count count, size_t index) {
    const auto scan = [&](Direction direction) {
        for (size_t i = 0; i < op.arguments.size(); ++i)
            if (op.arguments[i].is_tensor() && op.arguments[i].direction == direction && index-- == 0) return i;
        return op.arguments.size();
    };
    size_t found = op.arguments.size();
    if (count != Count::outputs) found = scan(Direction::input);
    if (count != Count::inputs && found == op.arguments.size()) found = scan(Direction::output);
    return found;
}

Status set_address(Executor& executor, Count count, size_t index, const aclTensor* handle, void* address) {
    const size_t i = argument_of(*executor.op, count, index);
    if (i == executor.slots.size()) return invalid("index", uint64_t{index}, " out of range");
    if (!executor.slots[i].tensor) return invalid("index", uint64_t{index}, " is an optional tensor that was left out");
    const auto tensor = Tensors::instance().find(handle);
    if (!tensor) return {ACLNN_ERR_PARAM_NULLPTR, handle == nullptr ? "tensor: NULL" : "tensor: not a live aclTensor"};
    if (!(tensor->view == executor.slots[i].view()))
        return invalid("tensor", "another view than the one ", executor.op->arguments[i].name, " was planned with");
    const Lock lock = hold();
    executor.slots[i].address = address;
    return {};
}

aclnnStatus set(const char* function, aclOpExecutor* handle, Count count, size_t index, const aclTensor* tensor,
                void* address) noexcept {
    const auto executor = Executors::instance().find(handle);
    if (!executor) return no_executor(function, handle);
    return guarded(function, [&] { return set_address(*executor, count, index, tensor, address); });
}

}  // namespace

extern "C" {

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
    const auto found = Executors::instance().find(executor);
    if (!found) return no_executor("aclSetAclOpExecutorRepeatable", executor);
    found->repeatable = true;
    return ACLNN_SUCCESS;
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
    return Executors::instance().take(executor) ? ACLNN_SUCCESS : no_executor("aclDestroyAclOpExecutor", executor);
}

aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr) {
    return set("aclSetInputTensorAddr", executor, Count::inputs, index, tensor, addr);
}
aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr) {
    return set("aclSetOutputTensorAddr", executor, Count::outputs, index, tensor, addr);
}
aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr) {
    return set("aclSetTensorAddr", executor, Count::both, index, tensor, addr);
}

const char* gradusPath(const aclOpExecutor* executor) {
    const auto found = Executors::instance().find(executor);
    return found ? found->planned->path : nullptr;
}

// The operators need neither; programs that call them find them.
aclnnStatus aclnnInit(const char*) { return ACLNN_SUCCESS; }
aclnnStatus aclnnFinalize(void) { return ACLNN_SUCCESS; }

}  // extern "C"
