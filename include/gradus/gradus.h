// The few things that aclnn has no word for: options, and every operator by its name.
#ifndef GRADUS_GRADUS_GRADUS_H
#define GRADUS_GRADUS_GRADUS_H

#include "../acl/acl_base.h"
#include "../aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

ACL_FUNC_VISIBILITY const char* gradusVersion(void);

// Options of the process. Each is also an environment variable, which a call of gradusSetOption beats; operators read
// them in phase one. Defaults first:
//   limits       GRADUS_LIMITS       on, off: whether to refuse what only the device could not do
//   precision    GRADUS_PRECISION    fast, golden: golden is the plain loop in double
//   memory       GRADUS_MEMORY       device, any: whether tensors may lie in memory that no aclrt function knows of
//   num_threads  GRADUS_NUM_THREADS  the CPUs this process may use (affinity, cgroup); 1 and up
//   max_isa      GRADUS_MAX_ISA      the best of this CPU; amx, avx512_bf16, avx512, avx2, neon, sve, scalar
//   soc_name     GRADUS_SOC_NAME     Ascend910B1: the product stood in for
//   log          GRADUS_LOG          off, error, info, trace: to stderr; info writes one line for every launch, trace
//                                    one for every call
// An unknown name or value: ACL_ERROR_INVALID_PARAM, and the message lists the known ones.
ACL_FUNC_VISIBILITY aclError gradusSetOption(const char* name, const char* value);
// NULL if the name is unknown.
ACL_FUNC_VISIBILITY const char* gradusGetOption(const char* name);

// All operators as JSON, one object each: name, family, formula, document, products; the arguments in C order, each
// with name, kind, direction, optional, dtypes, shape in words over named sizes ("T1,N1,D"), allowed values and limits.
// For tools that try operators out: of an argument, example (how to make one up) and promise (how near to golden an
// output is); of an operator, sweep, bench and tiny (argument lists in the words of the gradus command), limit (what
// binds its speed), targets (fractions of it) and roundings (what it rounds on the way). Keys are added, never renamed.
ACL_FUNC_VISIBILITY const char* gradusCatalogue(void);

typedef enum gradusKind {
    GRADUS_TENSOR,
    GRADUS_INT_ARRAY,
    GRADUS_INT,
    GRADUS_DOUBLE,
    GRADUS_BOOL,
    GRADUS_STRING
} gradusKind;

// One argument, by its name in the C prototype.
typedef struct gradusArg {
    const char* name;
    gradusKind kind;
    union {
        const aclTensor* tensor;
        const aclIntArray* array;
        int64_t i;
        double d;
        bool b;
        const char* s;
    } value;
} gradusArg;

// Phase one and two of the operator that aclnn calls aclnn<op>: the same checks, the same work, the same executor. An
// argument left out is NULL, or the default where the catalogue gives one. Unknown operator, unknown or doubled
// argument, wrong kind: ACLNN_ERR_PARAM_INVALID, and the message lists the known ones.
ACLNN_API aclnnStatus gradusPrepare(const char* op, const gradusArg* args, uint64_t count, uint64_t* workspaceSize,
                                    aclOpExecutor** executor);
ACLNN_API aclnnStatus gradusLaunch(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                   aclrtStream stream);
// Which kernel phase one chose: a word of max_isa (more may follow a comma), golden, or zeros where there is nothing to
// compute. Of every executor, whoever made it; NULL if it is not alive.
ACLNN_API const char* gradusPath(const aclOpExecutor* executor);

#ifdef __cplusplus
}
#endif

#endif  // GRADUS_GRADUS_GRADUS_H
