// The gradient of Native Sparse Attention over selected blocks.
#ifndef GRADUS_ACLNNOP_ACLNN_NSA_SELECTED_ATTENTION_GRAD_H
#define GRADUS_ACLNNOP_ACLNN_NSA_SELECTED_ATTENTION_GRAD_H

#include "../aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Tensors as in aclnn_nsa_selected_attention.h; mind that the order of the arguments is another one. attentionOut may
// be NULL: then its part follows from the probabilities. attentionOutGrad: [T1, N1, Dv]. softmaxMax and softmaxSum are
// taken as given. sparseMode alone decides which keys a row sees, with or without a mask. dqOut, dkOut, dvOut: shapes
// and dtype of query, key, value.
ACLNN_API aclnnStatus aclnnNsaSelectedAttentionGradGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value, const aclTensor* attentionOut,
    const aclTensor* attentionOutGrad, const aclTensor* softmaxMax, const aclTensor* softmaxSum,
    const aclTensor* topkIndices, const aclIntArray* actualSeqQLenOptional, const aclIntArray* actualSeqKvLenOptional,
    const aclTensor* attenMaskOptional, double scaleValue, int64_t selectedBlockSize, int64_t selectedBlockCount,
    int64_t headNum, char* inputLayout, int64_t sparseMode, const aclTensor* dqOut, const aclTensor* dkOut,
    const aclTensor* dvOut, uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnNsaSelectedAttentionGrad(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                    aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // GRADUS_ACLNNOP_ACLNN_NSA_SELECTED_ATTENTION_GRAD_H
