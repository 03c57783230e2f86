// The decay matrix of a state space model: out[i][j] = exp(self[j + 1] + ... + self[i]) below the diagonal, 1 on it, 0
// above.
#ifndef GRADUS_ACLNNOP_ACLNN_SEGSUM_H
#define GRADUS_ACLNNOP_ACLNN_SEGSUM_H

#include "../aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// self: f32, f16 or bf16, rank 3 or 4, T the size of its last dim.
// out: dtype of self, shape of self followed by T.
ACLNN_API aclnnStatus aclnnExpSegsumGetWorkspaceSize(const aclTensor* self, aclTensor* out, uint64_t* workspaceSize,
                                                     aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnExpSegsum(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                     aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // GRADUS_ACLNNOP_ACLNN_SEGSUM_H
