// Preloaded by test_check.py: a library with a mistake in it. $FAULT says which.
//   sign      fast results have the other sign, golden is right
//   threads   one thread gives other bits than two
//   refuse    phase one fails
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "gradus/gradus.h"

typedef aclnnStatus (*Prepare)(const char*, const gradusArg*, uint64_t, uint64_t*, aclOpExecutor**);

static bool option_is(const char* name, const char* value) { return strcmp(gradusGetOption(name), value) == 0; }

aclnnStatus gradusPrepare(const char* op, const gradusArg* args, uint64_t count, uint64_t* workspaceSize,
                          aclOpExecutor** executor) {
    Prepare prepare = (Prepare)dlsym(RTLD_NEXT, "gradusPrepare");
    const char* fault = getenv("FAULT");
    gradusArg changed[32];
    if (fault == NULL || count > 32 || strcmp(op, "ScaledMaskedSoftmaxBackward") != 0 ||
        !option_is("precision", "fast"))
        return prepare(op, args, count, workspaceSize, executor);
    if (strcmp(fault, "refuse") == 0) return ACLNN_ERR_PARAM_INVALID;
    memcpy(changed, args, count * sizeof *args);
    for (uint64_t i = 0; i < count; ++i) {
        if (strcmp(changed[i].name, "scale") != 0) continue;
        if (strcmp(fault, "sign") == 0) changed[i].value.d = -changed[i].value.d;
        if (strcmp(fault, "threads") == 0 && option_is("num_threads", "1")) changed[i].value.d *= 1 + 0x1p-20;
    }
    return prepare(op, changed, count, workspaceSize, executor);
}
