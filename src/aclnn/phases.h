// The two phases of every operator. Nothing that an operator does can leave the C boundary but a status.
#pragma once

#include <initializer_list>

#include "aclnn/operator.h"

namespace gradus {

// Phase one: nulls, product, handles, views; the operator's check; its plan. Writes both results only on success.
Status make_ready(const Operator& op, std::span<const Value> values, uint64_t* workspace_size,
                  aclOpExecutor** executor);
// Both phases on this thread, without device and stream.
Status run_now(const Operator& op, std::span<const Value> values);
// Phase one at the C boundary. `site`: where the C function returns to.
aclnnStatus prepare(const Operator& op, std::span<const Value> values, uint64_t* workspace_size,
                    aclOpExecutor** executor, const void* site) noexcept;
inline aclnnStatus prepare(const Operator& op, std::initializer_list<Value> values, uint64_t* workspace_size,
                           aclOpExecutor** executor, const void* site = __builtin_return_address(0)) noexcept {
    return prepare(op, std::span<const Value>(values.begin(), values.size()), workspace_size, executor, site);
}

// Phase two: workspace, final addresses, overlap; then the stream owns the work. `op` null: whatever was prepared.
aclnnStatus launch(const Operator* op, void* workspace, uint64_t workspace_size, aclOpExecutor* executor,
                   aclrtStream stream, const void* site = __builtin_return_address(0)) noexcept;

}  // namespace gradus
