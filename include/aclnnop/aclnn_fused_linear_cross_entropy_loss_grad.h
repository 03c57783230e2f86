// The gradient of the loss of one vocabulary shard by input and by weight. With g = (softmax - one_hot(target)) * grad:
// inputGradOut = g * weight, weightGradOut = g^T * input. softmax is given, or computed again from the statistics.
#ifndef GRADUS_ACLNNOP_ACLNN_FUSED_LINEAR_CROSS_ENTROPY_LOSS_GRAD_H
#define GRADUS_ACLNNOP_ACLNN_FUSED_LINEAR_CROSS_ENTROPY_LOSS_GRAD_H

#include "../aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// grad: f32 [BT]. input: f16 or bf16 [BT, H]; weight: the same [V, H]. targetMask: uint8, eight tokens a byte, at least
// BT bits; maskedTarget: int32 or int64 [BT]; both as aclnnFusedLinearOnlineMaxSum writes them. labelSmoothing: 0.
// Either softmaxOptional: f32 [BT, V]; or logitsMaxOptional and sumExpLogitsOptional: f32 [BT], reduced over all
// shards. inputGradOut: dtype of input [BT, H]. weightGradOut: dtype of input [V, H].
ACLNN_API aclnnStatus aclnnFusedLinearCrossEntropyLossGradGetWorkspaceSize(
    const aclTensor* grad, const aclTensor* input, const aclTensor* weight, const aclTensor* targetMask,
    const aclTensor* maskedTarget, float labelSmoothing, const aclTensor* logitsMaxOptional,
    const aclTensor* sumExpLogitsOptional, const aclTensor* softmaxOptional, aclTensor* inputGradOut,
    aclTensor* weightGradOut, uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnFusedLinearCrossEntropyLossGrad(void* workspace, uint64_t workspaceSize,
                                                           aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // GRADUS_ACLNNOP_ACLNN_FUSED_LINEAR_CROSS_ENTROPY_LOSS_GRAD_H
