// Native Sparse Attention over selected blocks: every query row attends to the blocks of keys that topkIndices names.
#ifndef GRADUS_ACLNNOP_ACLNN_NSA_SELECTED_ATTENTION_H
#define GRADUS_ACLNNOP_ACLNN_NSA_SELECTED_ATTENTION_H

#include "../aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// query: f16 or bf16 [T1, N1, D]; key: the same [T2, N2, D]; value: [T2, N2, Dv], Dv <= D; N1 a multiple of N2.
// topkIndices: int32 [T1, N2, selectedBlockCount], numbers of blocks inside the batch of the row; those outside of it
// count for nothing. attenMaskOptional: bool or uint8, rank 2; only its presence matters: without it, sparseMode 2 is
// 0. actualSeqQLenOptional, actualSeqKvLenOptional: cumulative lengths of the batches, the last one T1 and T2, or NULL.
// headNum: N1; inputLayout: "TND"; sparseMode: 0 all keys of the blocks, 2 keys up to the row's own index.
// softmaxMaxOut, softmaxSumOut: f32 [T1, N1, 8], eight equal copies; attentionOut: dtype of query [T1, N1, Dv].
ACLNN_API aclnnStatus aclnnNsaSelectedAttentionGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value, const aclTensor* topkIndices,
    const aclTensor* attenMaskOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, double scaleValue, int64_t headNum, char* inputLayout,
    int64_t sparseMode, int64_t selectedBlockSize, int64_t selectedBlockCount, const aclTensor* softmaxMaxOut,
    const aclTensor* softmaxSumOut, const aclTensor* attentionOut, uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnNsaSelectedAttention(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // GRADUS_ACLNNOP_ACLNN_NSA_SELECTED_ATTENTION_H
