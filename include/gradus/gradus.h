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
//   precision    GRADUS_PRECISION    fast, golden, magnitude: golden is the plain loop in double; magnitude the same
//                                    loop, of how large an error can be rounding: the sum of |terms| of every result.
//                                    With either, all float outputs or all float arguments may be ACL_DOUBLE.
//                                    f32, bf16, f16: the same loop as arithmetic of so many bits computes, every
//                                    intermediate rounded; ACL_DOUBLE only. bf16 and f16 with _products: every product
//                                    that is added up, too; with _sums: every step of a sum; with _truncated: so, and
//                                    towards zero
//   mistake      GRADUS_MISTAKE      none, or a mistake of the operator's list in the catalogue, which golden then
//                                    makes on purpose; of a sum "without a part of X [begin,end)" leaves those terms
//                                    out, "with a part of X twice [begin,end)" counts them twice
//   memory       GRADUS_MEMORY       device, any: whether tensors may lie in memory that no aclrt function knows of
//   num_threads  GRADUS_NUM_THREADS  the CPUs this process may use (affinity, cgroup); 1 and up
//   max_isa      GRADUS_MAX_ISA      the best of this CPU; amx, avx512_bf16, avx512, avx2, neon, scalar
//   soc_name     GRADUS_SOC_NAME     Ascend910B1: the product stood in for
//   log          GRADUS_LOG          off, error, info, trace: to stderr; info writes one line for every launch, trace
//                                    one for every call
// An unknown name or value: ACL_ERROR_INVALID_PARAM, and the message lists the known ones.
ACL_FUNC_VISIBILITY aclError gradusSetOption(const char* name, const char* value);
// The same for the calling thread alone, whose value beats the process's; value NULL takes it back.
ACL_FUNC_VISIBILITY aclError gradusSetThreadOption(const char* name, const char* value);
// As it holds for the calling thread; NULL if the name is unknown.
ACL_FUNC_VISIBILITY const char* gradusGetOption(const char* name);

// All operators as JSON, one object each: name, family, formula, document, products; the arguments in C order, each
// with name, kind, direction, optional, dtypes, golden_dtypes (besides, if precision is golden or magnitude), shape in
// words over named sizes ("T1,N1,D"), allowed values and limits.
// For tools that try operators out: of an argument, example (how to make one up) and promise (how near to golden an
// output is: elementwise, summed or exact; terms, how many it sums; roundings, how often 16-bit types round on the
// way); of an operator, mistakes (names of wrong formulas, or arguments that give their answers), sweep, bench, tiny
// and small (argument lists in the words of the gradus command), limit (what binds its speed), targets (fractions of
// it) and roundings (what it rounds on the way). Keys are added, never renamed.
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
// argument, wrong kind: ACLNN_ERR_PARAM_INVALID, and the message lists the known ones. Beside the operators of the
// catalogue there is one of our own, which no document describes and aclnn does not have: LinearCrossEntropyWithGrad,
// the statistics and the gradients of an LM head in one call; its family's README has it.
ACLNN_API aclnnStatus gradusPrepare(const char* op, const gradusArg* args, uint64_t count, uint64_t* workspaceSize,
                                    aclOpExecutor** executor);
ACLNN_API aclnnStatus gradusLaunch(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                   aclrtStream stream);
// Both phases at once, on the calling thread, in scratch memory of the library's own; the result is there when it
// returns. Needs no device, context or stream and waits for none, so any thread may call it. Where nobody has set them
// (variable, gradusSetOption, gradusSetThreadOption), `limits` is off and `memory` is any: there is no device in it.
ACLNN_API aclnnStatus gradusRun(const char* op, const gradusArg* args, uint64_t count);
// Which kernel phase one chose: a word of max_isa (more may follow a comma), golden, magnitude, or zeros where there is
// nothing to compute. Of every executor, whoever made it; NULL if it is not alive.
ACLNN_API const char* gradusPath(const aclOpExecutor* executor);

// A host that has threads of its own may lend them to gradusRun, instead of two teams that fight for the CPUs:
// loop(host, count, body, data) calls body(data, i) once for every i below count, at once if it can, on any threads,
// and returns when all are done. NULL: the library's own workers again. The child of a fork begins with those.
typedef void (*gradusLoop)(void* host, int64_t count, void (*body)(void* data, int64_t i), void* data);
ACL_FUNC_VISIBILITY aclError gradusSetLoop(gradusLoop loop, void* host);

#ifdef __cplusplus
}
#endif

#endif  // GRADUS_GRADUS_GRADUS_H
