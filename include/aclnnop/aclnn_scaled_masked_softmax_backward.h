// The gradient of softmax along the last dim, scaled and masked: t = gradOutput * y; out = (t - sum(t) * y) * scale,
// but 0 where mask is true.
#ifndef GRADUS_ACLNNOP_ACLNN_SCALED_MASKED_SOFTMAX_BACKWARD_H
#define GRADUS_ACLNNOP_ACLNN_SCALED_MASKED_SOFTMAX_BACKWARD_H

#include <stdbool.h>

#include "../aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// gradOutput: f32, f16 or bf16, rank 4, last dim 1 to 4096. y, the forward's result, and out: dtype and shape of
// gradOutput. mask: BOOL, rank 4, the last two dims of gradOutput, the others those of gradOutput or 1. fixTriuMask:
// false.
ACLNN_API aclnnStatus aclnnScaledMaskedSoftmaxBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* y,
                                                                       const aclTensor* mask, double scale,
                                                                       bool fixTriuMask, aclTensor* out,
                                                                       uint64_t* workspaceSize,
                                                                       aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnScaledMaskedSoftmaxBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                       aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // GRADUS_ACLNNOP_ACLNN_SCALED_MASKED_SOFTMAX_BACKWARD_H
