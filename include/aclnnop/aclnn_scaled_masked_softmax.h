// Softmax along the last dim of scaled and masked scores: z = x * scale, but -10000 where mask is true; y = softmax(z).
#ifndef GRADUS_ACLNNOP_ACLNN_SCALED_MASKED_SOFTMAX_H
#define GRADUS_ACLNNOP_ACLNN_SCALED_MASKED_SOFTMAX_H

#include <stdbool.h>

#include "../aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// x: f32, f16 or bf16, rank 4, last dim 1 to 4096. mask: BOOL, rank 4, the last two dims of x, the others those of x
// or 1. fixTriuMask: false. y: dtype and shape of x.
ACLNN_API aclnnStatus aclnnScaledMaskedSoftmaxGetWorkspaceSize(const aclTensor* x, const aclTensor* mask, double scale,
                                                               bool fixTriuMask, aclTensor* y, uint64_t* workspaceSize,
                                                               aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnScaledMaskedSoftmax(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                               aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // GRADUS_ACLNNOP_ACLNN_SCALED_MASKED_SOFTMAX_H
