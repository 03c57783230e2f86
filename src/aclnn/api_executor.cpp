// extern "C": what can be done to an executor besides launching it.
#include "aclnn/api.h"
#include "aclnn/executor.h"
#include "base/check.h"
#include "gradus/gradus.h"

using namespace gradus;

namespace {

Status no_executor(const aclOpExecutor* executor) {
    return {ACLNN_ERR_INNER_NULLPTR,
            executor == nullptr ? "executor: NULL" : "executor: not alive (spent, destroyed or foreign)"};
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
    if (i == executor.slots.size()) return invalid("index", index, " out of range");
    if (!executor.slots[i].tensor) return invalid("index", index, " is an optional tensor that was left out");
    const auto tensor = Tensors::instance().find(handle);
    if (!tensor) return {ACLNN_ERR_PARAM_NULLPTR, handle == nullptr ? "tensor: NULL" : "tensor: not a live aclTensor"};
    if (!(tensor->view == executor.slots[i].view()))
        return invalid("tensor", "another view than the one ", executor.op->arguments[i].name, " was planned with");
    const Lock lock = hold();
    executor.slots[i].address = address;
    observe([&](Observer& o) { o.on_address(executor.handle, i); });
    return {};
}

aclnnStatus set(const char* function, aclOpExecutor* handle, Count count, size_t index, const aclTensor* tensor,
                void* address) noexcept {
    return guarded(function, kAclnn, [&]() -> Status {
        const auto executor = Executors::instance().find(handle);
        if (!executor) return no_executor(handle);
        return set_address(*executor, count, index, tensor, address);
    });
}

// No operator has a list of tensors.
aclnnStatus set_in_list(const char* function, const aclOpExecutor* handle, size_t index) noexcept {
    return guarded(function, kAclnn, [&]() -> Status {
        if (!Executors::instance().find(handle)) return no_executor(handle);
        return invalid("irIndex", index, " is not a list of tensors; no operator has one");
    });
}

}  // namespace

extern "C" {

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
    return guarded(__func__, kAclnn, [&]() -> Status {
        const auto found = Executors::instance().find(executor);
        if (!found) return no_executor(executor);
        found->repeatable = true;
        return {};
    });
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
    return guarded(__func__, kAclnn, [&]() -> Status {
        if (Executors::instance().take(executor)) return {};
        return no_executor(executor);
    });
}

aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr) {
    return set(__func__, executor, Count::inputs, index, tensor, addr);
}
aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr) {
    return set(__func__, executor, Count::outputs, index, tensor, addr);
}
aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr) {
    return set(__func__, executor, Count::both, index, tensor, addr);
}
aclnnStatus aclSetDynamicInputTensorAddr(aclOpExecutor* executor, const size_t irIndex, const size_t, aclTensorList*,
                                         void*) {
    return set_in_list(__func__, executor, irIndex);
}
aclnnStatus aclSetDynamicOutputTensorAddr(aclOpExecutor* executor, const size_t irIndex, const size_t, aclTensorList*,
                                          void*) {
    return set_in_list(__func__, executor, irIndex);
}

const char* gradusPath(const aclOpExecutor* executor) {
    return guarded_value<const char*>(__func__, kAclnn, nullptr, [&]() -> Result<const char*> {
        const auto found = Executors::instance().find(executor);
        return found ? found->planned->path : nullptr;
    });
}

// The operators need neither; programs that call them find them.
aclnnStatus aclnnInit(const char*) {
    return guarded(__func__, kAclnn, [] { return Status(); });
}
aclnnStatus aclnnFinalize(void) {
    return guarded(__func__, kAclnn, [] { return Status(); });
}

}  // extern "C"
