// SwiGLU: x is split along dim into equal halves A and B; out = A * sigmoid(A) * B.
#ifndef GRADUS_ACLNNOP_ACLNN_SWI_GLU_H
#define GRADUS_ACLNNOP_ACLNN_SWI_GLU_H

#include "../aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// x: f32, f16 or bf16, rank 1 to 8, an even size along dim; dim in [-rank, rank - 1].
// out: dtype and shape of x, with dim halved.
ACLNN_API aclnnStatus aclnnSwiGluGetWorkspaceSize(const aclTensor* x, int64_t dim, const aclTensor* out,
                                                  uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnSwiGlu(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // GRADUS_ACLNNOP_ACLNN_SWI_GLU_H
