// From views to numbers: which matrices, which kernel, which scratch.
#pragma once

#include "aclnn/operator.h"

namespace gradus::exp_segsum {

// Argument order of the two operators.
namespace forward {
enum { kSelf, kOut };
}
namespace backward {
enum { kGradOutput, kGradSelf, kGradInput };
}

Status check_forward(const Call& call);
Status check_backward(const Call& call);
Planned plan_forward(const Call& call);
Planned plan_backward(const Call& call);
// Of either operator: its tensors in the order of their arguments, which have `batch_rank` dims in common.
Planned plan_golden(const Call& call, std::span<const int> arguments, int batch_rank);

}  // namespace gradus::exp_segsum
