// Random programs of streams, events, copies, frees, callbacks, contexts and two threads, handles mixed up: they end,
// every call answers what the contract says, and what is ordered runs in order.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "fuzz/alive.h"
#include "fuzz/report.h"
#include "fuzz/runtime_program.h"
#include "gradus/gradus.h"
#include "testing/own_races.h"

namespace gradus::fuzz {
namespace {

#if defined(__SANITIZE_THREAD__)  // which ends a child that starts a thread
constexpr bool kForks = false;
#else
constexpr bool kForks = true;
#endif

// Whatever the parent was doing, a child computes.
void expect_working_child() {
    const pid_t child = fork();
    if (child == 0) {
        alarm(10);
        void* memory = nullptr;
        aclrtStream stream = nullptr;
        char byte = 0;
        const bool right = aclrtSetDevice(0) == 0 && aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_NORMAL_ONLY) == 0 &&
                           aclrtCreateStream(&stream) == 0 && aclrtMemsetAsync(memory, 64, 7, 64, stream) == 0 &&
                           aclrtSynchronizeStream(stream) == 0 &&
                           aclrtMemcpy(&byte, 1, memory, 1, ACL_MEMCPY_DEVICE_TO_HOST) == 0 && byte == 7;
        _exit(right && !planted("fork") ? 0 : 1);
    }
    int status = 0;
    if (child < 0 || TEMP_FAILURE_RETRY(waitpid(child, &status, 0)) != child || status != 0)  // engines use timers
        fail("fork", "the child of a fork ended with status " + std::to_string(status));
    count("forks");
}

}  // namespace
}  // namespace gradus::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace gradus::fuzz;  // NOLINT(google-build-using-namespace)
    static const bool ready = aclInit(nullptr) == 0;
    if (!ready) fail("code", "aclInit");
    const auto run = [&] {
        Input in(data, size);
        gradusSetOption("limits", in.one_in(3) ? "off" : "on");
        const bool forks = in.one_in(32);
        {
            Program program(in);
            program.run();
            if (forks && kForks) expect_working_child();
        }
        count("programs");
    };
    size % 4 == 0 ? expect_nothing_left(run) : run();
    return 0;
}
