// One vocabulary shard of an LM head: the largest logit of every token, the sum of the exponentials around it, and the
// logit of the token's target. The logits themselves, input * weight^T, exist only if they are asked for.
#ifndef GRADUS_ACLNNOP_ACLNN_FUSED_LINEAR_ONLINE_MAX_SUM_H
#define GRADUS_ACLNNOP_ACLNN_FUSED_LINEAR_ONLINE_MAX_SUM_H

#include "../aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// BT tokens, H hidden, V rows of this shard. input: f16 or bf16 [BT, H]; weight: the same [V, H]; target: int32 or
// int64 [BT]; the shard holds targets in [vocabStartIndex, vocabEndIndex). logitsMaxLocalOut, sumExpLogitsLocalOut,
// predictedLogitsLocalOut: f32 [BT]. targetMaskOut: uint8 [ceil(BT / 8)], bit i % 8 of byte i / 8 is 1 where target i
// is elsewhere. maskedTargetOut: as target, target - vocabStartIndex, or 0 where masked.
// vocabParallelLogitsOutOptional: dtype of input [BT, V], or NULL.
ACLNN_API aclnnStatus aclnnFusedLinearOnlineMaxSumGetWorkspaceSize(
    const aclTensor* input, const aclTensor* weight, const aclTensor* target, int64_t vocabStartIndex,
    int64_t vocabEndIndex, aclTensor* logitsMaxLocalOut, aclTensor* sumExpLogitsLocalOut,
    aclTensor* predictedLogitsLocalOut, aclTensor* targetMaskOut, aclTensor* maskedTargetOut,
    aclTensor* vocabParallelLogitsOutOptional, uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnFusedLinearOnlineMaxSum(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                   aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // GRADUS_ACLNNOP_ACLNN_FUSED_LINEAR_ONLINE_MAX_SUM_H
