// The library found at run time, by CANN's names: how Python bindings and plug-ins reach operators. Nothing of it is
// linked; set_env.sh of the prefix, or an rpath, tells the loader where to look.
//
//   gcc -std=c11 dlopen.c -I$PREFIX/include -ldl -lm -o dlopen && . $PREFIX/set_env.sh && ./dlopen
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"
#include "aclnnop/aclnn_swi_glu_grad.h"

static void* open_library(const char* name) {
    void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) return library;
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
}

static void* find(void* library, const char* name) {
    void* symbol = dlsym(library, name);
    if (symbol != NULL) return symbol;
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
}

// A pointer of the type that the header gives the function. (C has no cast from an object to a function.)
#define FIND(library, function)        \
    __typeof__(&function) function##_; \
    *(void**)(&function##_) = find(library, #function)

static const char* (*last_message)(void);
static void check(int code, const char* call) {
    if (code == 0) return;
    const char* message = last_message();
    fprintf(stderr, "%s returned %d: %s\n", call, code, message != NULL ? message : "no message");
    exit(1);
}
#define CHECK(call) check(call, #call)

int main(void) {
    void* runtime = open_library("libascendcl.so");
    void* base = open_library("libnnopbase.so");
    void* operators = open_library("libopapi.so");
    FIND(runtime, aclGetRecentErrMsg);
    last_message = aclGetRecentErrMsg_;
    FIND(runtime, aclInit);
    FIND(runtime, aclFinalize);
    FIND(runtime, aclrtSetDevice);
    FIND(runtime, aclrtResetDevice);
    FIND(runtime, aclrtMalloc);
    FIND(runtime, aclrtFree);
    FIND(runtime, aclrtMemcpy);
    FIND(runtime, aclrtSynchronizeStream);
    FIND(base, aclCreateTensor);
    FIND(base, aclDestroyTensor);
    FIND(operators, aclnnSwiGluGradGetWorkspaceSize);
    FIND(operators, aclnnSwiGluGrad);

    CHECK(aclInit_(NULL));
    CHECK(aclrtSetDevice_(0));

    // One A, one B and one yGrad, all in one allocation: A B yGrad outA outB.
    float values[5] = {-2, 14, -2, 0, 0};
    void* data = NULL;
    CHECK(aclrtMalloc_(&data, sizeof values, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMemcpy_(data, sizeof values, values, sizeof values, ACL_MEMCPY_HOST_TO_DEVICE));
    const int64_t one = 1, two = 2, storage = 5;
    aclTensor* x = aclCreateTensor_(&two, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, &storage, 1, data);
    aclTensor* y_grad = aclCreateTensor_(&one, 1, ACL_FLOAT, NULL, 2, ACL_FORMAT_ND, &storage, 1, data);
    aclTensor* out = aclCreateTensor_(&two, 1, ACL_FLOAT, NULL, 3, ACL_FORMAT_ND, &storage, 1, data);

    uint64_t size = 0;
    aclOpExecutor* executor = NULL;
    void* workspace = NULL;
    CHECK(aclnnSwiGluGradGetWorkspaceSize_(y_grad, x, -1, out, &size, &executor));
    if (size > 0) CHECK(aclrtMalloc_(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclnnSwiGluGrad_(workspace, size, executor, NULL));  // NULL: the default stream
    CHECK(aclrtSynchronizeStream_(NULL));
    CHECK(aclrtMemcpy_(values, sizeof values, data, sizeof values, ACL_MEMCPY_DEVICE_TO_HOST));

    const double a = -2, b = 14, g = -2, s = 1 / (1 + exp(-a));
    const double wanted_a = g * b * (s + s * (1 - s) * a), wanted_b = g * a * s;
    printf("SwiGluGrad at A = -2, B = 14, yGrad = -2: (%.6f %.6f), by the formula (%.6f %.6f)\n", (double)values[3],
           (double)values[4], wanted_a, wanted_b);
    const int agree = fabs((double)values[3] - wanted_a) < 1e-5 && fabs((double)values[4] - wanted_b) < 1e-5;

    if (workspace != NULL) CHECK(aclrtFree_(workspace));
    CHECK(aclDestroyTensor_(x));
    CHECK(aclDestroyTensor_(y_grad));
    CHECK(aclDestroyTensor_(out));
    CHECK(aclrtFree_(data));
    CHECK(aclrtResetDevice_(0));
    CHECK(aclFinalize_());
    return agree ? 0 : 1;  // libraries stay open: they have threads
}
