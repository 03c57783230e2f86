// Status codes and executors: what all operators have in common.
//
// An operator X is called in two phases. aclnnXGetWorkspaceSize checks the arguments, plans the work and answers with
// the bytes of workspace it wants (a multiple of 512; may be 0) and an executor; both are written on success only.
// aclnnX queues that work on a stream and returns. The executor is spent by it, whatever it answers, unless made
// repeatable.
#ifndef GRADUS_ACLNN_ACLNN_BASE_H
#define GRADUS_ACLNN_ACLNN_BASE_H

#include "acl_meta.h"

// These tokens exactly: a program may define the same macro once more.
#define ACLNN_SUCCESS 0
#define ACLNN_ERR_PARAM_NULLPTR 161001  // a pointer that is required is NULL
#define ACLNN_ERR_PARAM_INVALID 161002  // wrong dtype, format, rank, shape, attribute; aclGetRecentErrMsg says which
#define ACLNN_ERR_RUNTIME_ERROR 361001  // no memory, dead stream, product without the operator
#define ACLNN_ERR_INNER 561000
#define ACLNN_ERR_INNER_CREATE_EXECUTOR 561101
#define ACLNN_ERR_INNER_NULLPTR 561103

#ifdef __cplusplus
extern "C" {
#endif

// Accepted from programs that call them; no operator asks for it.
ACLNN_API aclnnStatus aclnnInit(const char* configPath);
ACLNN_API aclnnStatus aclnnFinalize(void);

// A repeatable executor may be launched again and again, and lives until it is destroyed.
ACLNN_API aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor);
ACLNN_API aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor);

// New addresses for the next launch. The index counts the tensors of the prototype in C order, a NULL optional
// included: the inputs, the outputs, or the inputs and then the outputs. An executor that is NULL:
// ACLNN_ERR_INNER_NULLPTR; an index out of range: ACLNN_ERR_PARAM_INVALID.
ACLNN_API aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr);
ACLNN_API aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                                             void* addr);
ACLNN_API aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr);
// For lists of tensors, which no operator has: ACLNN_ERR_PARAM_INVALID.
ACLNN_API aclnnStatus aclSetDynamicInputTensorAddr(aclOpExecutor* executor, const size_t irIndex,
                                                   const size_t relativeIndex, aclTensorList* tensors, void* addr);
ACLNN_API aclnnStatus aclSetDynamicOutputTensorAddr(aclOpExecutor* executor, const size_t irIndex,
                                                    const size_t relativeIndex, aclTensorList* tensors, void* addr);

#ifdef __cplusplus
}
#endif

#endif  // GRADUS_ACLNN_ACLNN_BASE_H
