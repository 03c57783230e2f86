// A program that opens the library late, by its path: what it made before waits and frees in its destructor, behind
// every function that the library itself may have given to exit.
//   opened LIBRARY
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "acl/acl.h"

namespace {

void* library = nullptr;

template <typename F>
F* find(const char* name) {
    void* const function = dlsym(library, name);
    if (function == nullptr) std::_Exit(99);
    return reinterpret_cast<F*>(function);
}
void must(int code, const char* function) {
    if (code == 0) return;
    std::fprintf(stderr, "%s %d\n", function, code);
    std::_Exit(99);
}
#define CALL(function, ...) must(find<decltype(function)>(#function)(__VA_ARGS__), #function)

struct Engine {
    ~Engine() {
        if (library == nullptr) return;
        CALL(aclrtDestroyStream, stream);
        CALL(aclrtFree, memory);
        CALL(aclrtResetDevice, 0);
        CALL(aclFinalize);
    }
    aclrtStream stream = nullptr;
    void* memory = nullptr;
};
Engine engine;

}  // namespace

int main(int words, char** word) {
    library = dlopen(words > 1 ? word[1] : "", RTLD_NOW);
    if (library == nullptr) return 98;
    CALL(aclInit, nullptr);
    CALL(aclrtSetDevice, 0);
    CALL(aclrtCreateStream, &engine.stream);
    CALL(aclrtMalloc, &engine.memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST);
    CALL(
        aclrtLaunchHostFunc, engine.stream, [](void*) {}, nullptr);
    CALL(aclrtMemsetAsync, engine.memory, 4096, 0, 4096, engine.stream);
}
