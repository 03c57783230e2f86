// The gradient of SwiGLU. With s = sigmoid(A), and A and B the halves of x along dim, the halves of out are
// yGrad * B * (s + s * (1 - s) * A) and yGrad * A * s.
#ifndef GRADUS_ACLNNOP_ACLNN_SWI_GLU_GRAD_H
#define GRADUS_ACLNNOP_ACLNN_SWI_GLU_GRAD_H

#include "../aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// x: f32, f16 or bf16, rank 1 to 8, an even size along dim; dim in [-rank, rank - 1].
// yGrad: dtype and shape of x, with dim halved. out: dtype and shape of x.
ACLNN_API aclnnStatus aclnnSwiGluGradGetWorkspaceSize(const aclTensor* yGrad, const aclTensor* x, int64_t dim,
                                                      const aclTensor* out, uint64_t* workspaceSize,
                                                      aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnSwiGluGrad(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                      aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // GRADUS_ACLNNOP_ACLNN_SWI_GLU_GRAD_H
