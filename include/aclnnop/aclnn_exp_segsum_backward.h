// The gradient of aclnnExpSegsum: gradInput[k] is the sum of gradOutput[i][j] * gradSelf[i][j] over i >= k and j < k.
#ifndef GRADUS_ACLNNOP_ACLNN_EXP_SEGSUM_BACKWARD_H
#define GRADUS_ACLNNOP_ACLNN_EXP_SEGSUM_BACKWARD_H

#include "../aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// gradOutput: f32, f16 or bf16, rank 4 or 5, the last two dims equal.
// gradSelf: the output of the forward, dtype and shape of gradOutput.
// gradInput: dtype of gradOutput, its shape without the last dim.
ACLNN_API aclnnStatus aclnnExpSegsumBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* gradSelf,
                                                             aclTensor* gradInput, uint64_t* workspaceSize,
                                                             aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnExpSegsumBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                             aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // GRADUS_ACLNNOP_ACLNN_EXP_SEGSUM_BACKWARD_H
