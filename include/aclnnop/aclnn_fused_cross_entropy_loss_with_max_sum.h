// The loss of every token from the statistics of all shards: log(sumExpLogits) - predictedLogits; and, where the logits
// of a shard were kept, its part of the softmax.
#ifndef GRADUS_ACLNNOP_ACLNN_FUSED_CROSS_ENTROPY_LOSS_WITH_MAX_SUM_H
#define GRADUS_ACLNNOP_ACLNN_FUSED_CROSS_ENTROPY_LOSS_WITH_MAX_SUM_H

#include "../aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// logitsMax, sumExpLogits, predictedLogits: f32 [BT], reduced over all shards. labelSmoothing: 0. inputOptional and
// weightOptional are not used. vocabParallelLogitsOptional: f32, f16 or bf16 [BT, V], with softMaxOutOptional or not at
// all. lossOut: f32 [BT]. softMaxOutOptional: f32 [BT, V], exp(logits - logitsMax) / sumExpLogits.
ACLNN_API aclnnStatus aclnnFusedCrossEntropyLossWithMaxSumGetWorkspaceSize(
    const aclTensor* logitsMax, const aclTensor* sumExpLogits, const aclTensor* predictedLogits, float labelSmoothing,
    const aclTensor* inputOptional, const aclTensor* weightOptional, const aclTensor* vocabParallelLogitsOptional,
    aclTensor* lossOut, aclTensor* softMaxOutOptional, uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnFusedCrossEntropyLossWithMaxSum(void* workspace, uint64_t workspaceSize,
                                                           aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // GRADUS_ACLNNOP_ACLNN_FUSED_CROSS_ENTROPY_LOSS_WITH_MAX_SUM_H
