// From views to numbers: panels, blocks, scratch, which path.
#pragma once

#include "aclnn/operator.h"

namespace gradus::fused_linear_cross_entropy {

// Argument order of the operators.
namespace stats {
enum { kInput, kWeight, kTarget, kStart, kEnd, kMax, kSum, kPredicted, kTargetMask, kMaskedTarget, kLogits };
}
namespace loss {
enum { kMax, kSum, kPredicted, kSmoothing, kInput, kWeight, kLogits, kLoss, kSoftmax };
}
namespace grad {
enum { kGrad, kInput, kWeight, kTargetMask, kMaskedTarget, kSmoothing, kMax, kSum, kSoftmax, kInputGrad, kWeightGrad };
}
namespace with_grad {
enum { kGrad, kInput, kWeight, kTarget, kMax, kSum, kPredicted, kInputGrad, kWeightGrad };
}

Status check_stats(const Call& call);
Status check_loss(const Call& call);
Status check_grad(const Call& call);
Status check_with_grad(const Call& call);
int missing_for_loss(std::span<const Value> values);
int missing_for_grad(std::span<const Value> values);
Planned plan_stats(const Call& call);
Planned plan_loss(const Call& call);
Planned plan_grad(const Call& call);
Planned plan_with_grad(const Call& call);

// What a plan of a product is chosen by: blocks and sums cost more than the bytes they touch.
int64_t effort_of(double bytes, double operations, bool golden);

}  // namespace gradus::fused_linear_cross_entropy
