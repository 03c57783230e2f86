// From views to numbers: which blocks of rows, which kernel.
#pragma once

#include "aclnn/operator.h"

namespace gradus::scaled_masked_softmax {

// Argument order of the two operators.
namespace forward {
enum { kX, kMask, kScale, kFixTriuMask, kY };
}
namespace backward {
enum { kGradOutput, kY, kMask, kScale, kFixTriuMask, kOut };
}

inline constexpr int kRank = 4;  // batch, heads, queries, keys

Status check_forward(const Call& call);
Status check_backward(const Call& call);
Planned plan_forward(const Call& call);
Planned plan_backward(const Call& call);

}  // namespace gradus::scaled_masked_softmax
