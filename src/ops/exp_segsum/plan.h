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

}  // namespace gradus::exp_segsum
