// An operator by its name: what a tool does that should work with operators it has never heard of.
//
//   gcc -std=c11 by_name.c -I$PREFIX/include -L$PREFIX/lib64 -lascendcl -lnnopbase -lopapi -o by_name
//
//   by_name              computes SwiGlu of a few numbers
//   by_name catalogue    prints all operators and their arguments as JSON
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "gradus/gradus.h"

// Every call returns a code, and the library keeps a sentence about the last one that was not 0.
static void check(int code, const char* call) {
    if (code == 0) return;
    const char* message = aclGetRecentErrMsg();
    fprintf(stderr, "%s returned %d: %s\n", call, code, message != NULL ? message : "no message");
    exit(1);
}
#define CHECK(call) check(call, #call)

// A vector of f32 in device memory.
static aclTensor* new_vector(int64_t count, void** data) {
    CHECK(aclrtMalloc(data, (size_t)count * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST));
    aclTensor* tensor = aclCreateTensor(&count, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, &count, 1, *data);
    check(tensor == NULL, "aclCreateTensor");
    return tensor;
}

int main(int argc, char** argv) {
    if (argc > 1 && strcmp(argv[1], "catalogue") == 0) {
        fputs(gradusCatalogue(), stdout);
        return 0;
    }
    printf("Gradus %s, %s, %s threads\n", gradusVersion(), gradusGetOption("max_isa"), gradusGetOption("num_threads"));

    aclrtStream stream = NULL;
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));

    const float x_values[6] = {-1, 0, 2, 10, 20, 30};  // A = -1 0 2, B = 10 20 30
    float y_values[3];
    void *x_data = NULL, *y_data = NULL;
    aclTensor *x = new_vector(6, &x_data), *y = new_vector(3, &y_data);
    CHECK(aclrtMemcpy(x_data, sizeof x_values, x_values, sizeof x_values, ACL_MEMCPY_HOST_TO_DEVICE));

    // Arguments carry the names of the C prototype, in any order; dim is left to its default, the last dimension.
    const gradusArg args[] = {{.name = "x", .kind = GRADUS_TENSOR, .value.tensor = x},
                              {.name = "out", .kind = GRADUS_TENSOR, .value.tensor = y}};
    uint64_t size = 0;
    aclOpExecutor* executor = NULL;
    CHECK(gradusPrepare("SwiGlu", args, sizeof args / sizeof args[0], &size, &executor));
    void* workspace = NULL;
    if (size > 0) CHECK(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(gradusLaunch(workspace, size, executor, stream));
    CHECK(aclrtSynchronizeStream(stream));

    CHECK(aclrtMemcpy(y_values, sizeof y_values, y_data, sizeof y_values, ACL_MEMCPY_DEVICE_TO_HOST));
    printf("SwiGlu of (-1 0 2 | 10 20 30) = (%.4f %.4f %.4f)\n", (double)y_values[0], (double)y_values[1],
           (double)y_values[2]);

    // A mistake is told by name: here an argument that the operator does not have.
    const gradusArg wrong = {.name = "alpha", .kind = GRADUS_DOUBLE, .value.d = 0.5};
    const aclnnStatus refused = gradusPrepare("SwiGlu", &wrong, 1, &size, &executor);
    printf("refused with %d: %s\n", refused, aclGetRecentErrMsg());

    if (workspace != NULL) CHECK(aclrtFree(workspace));
    CHECK(aclDestroyTensor(x));
    CHECK(aclDestroyTensor(y));
    CHECK(aclrtFree(x_data));
    CHECK(aclrtFree(y_data));
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}
