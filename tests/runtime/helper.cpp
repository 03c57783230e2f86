// Small programs that the tests run as processes of their own. The exit code is the answer.
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "aclnnop/aclnn_swi_glu.h"
#include "gradus/gradus.h"

namespace {

constexpr size_t kBytes = 32 << 20;
aclrtStream stream = nullptr;

void sleep_long(void*) { std::this_thread::sleep_for(std::chrono::hours(1)); }
void exit_here(void*) { std::exit(7); }

void* memory() {
    void* p = nullptr;
    if (aclrtMalloc(&p, kBytes, ACL_MEM_MALLOC_HUGE_FIRST) != 0) std::_Exit(2);
    return p;
}

void queue_copies() {
    static void *a = memory(), *b = memory();
    for (int i = 0; i < 50; ++i)
        if (aclrtMemcpyAsync(a, kBytes, b, kBytes, ACL_MEMCPY_DEVICE_TO_DEVICE, stream) != 0) std::_Exit(2);
}

// Destroyed after the library's own handler has run, as objects that were there first are.
struct CleansUpLate {
    bool active = false;
    ~CleansUpLate() {
        if (!active) return;
        const bool fine = aclrtDestroyStream(stream) == 0 && aclrtResetDevice(0) == 0 && aclFinalize() == 0;
        std::_Exit(fine ? 7 : 3);
    }
} cleans_up_late;

// The program's own memory, which it takes away at the very end.
void* lent = nullptr;
void take_back() {
    munmap(lent, kBytes);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // what still runs has the time to be caught
}

int exit_unmaps() {
    lent = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::atexit(take_back);  // before the library's own handler, and so called after it
    void *from = memory(), *same = nullptr;
    if (aclrtHostRegister(lent, kBytes, ACL_HOST_REGISTER_MAPPED, &same) != 0 || same != lent) return 3;
    for (int i = 0; i < 50; ++i)
        if (aclrtMemcpyAsync(lent, kBytes, from, kBytes, ACL_MEMCPY_DEVICE_TO_HOST, stream) != 0) return 4;
    aclrtStreamStatus status = ACL_STREAM_STATUS_COMPLETE;
    return aclrtStreamQuery(stream, &status) == 0 && status == ACL_STREAM_STATUS_NOT_READY ? 7 : 5;
}

// Destroyed after main's thread-local objects.
struct FailsLate {
    bool active = false;
    ~FailsLate() {
        if (!active) return;
        const bool refused = aclFinalize() == 0 && aclFinalize() == 100037 && aclrtResetDevice(6) == 507007;
        const char* const text = aclGetRecentErrMsg();
        const bool told = text != nullptr && std::strstr(text, "aclrtResetDevice: deviceId") == text &&
                          std::strstr(text, "aclrtFree: pointer") != nullptr;
        std::_Exit(refused && told ? 7 : 3);
    }
} fails_late;

int fork_and_exit() {
    queue_copies();
    const pid_t child = fork();
    if (child == 0) std::exit(0);  // with all handlers, unlike most children
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 7 : 3;
}

// Whether a synchronous copy left the queue empty.
bool copy_waits() {
    char byte = 0;
    aclrtStreamStatus status = ACL_STREAM_STATUS_COMPLETE;
    queue_copies();
    if (aclrtMemcpy(&byte, 1, &byte, 1, ACL_MEMCPY_HOST_TO_HOST) != 0 || aclrtStreamQuery(stream, &status) != 0)
        std::_Exit(2);
    return status == ACL_STREAM_STATUS_COMPLETE;
}

// A queue may be empty without having been waited for, if this thread was kept from running: once more, then.
int copies_do_not_wait() {
    while (copy_waits()) {
    }
    return 0;
}

int count_threads() {
    int count = 0;
    DIR* const folder = opendir("/proc/self/task");
    while (const dirent* entry = readdir(folder)) count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

// The threads that a large fill takes.
template <char kThreads>
int threads_of_a_fill() {
    const char threads[] = {kThreads, 0};
    void* d = nullptr;
    if (gradusSetOption("num_threads", threads) != 0 || aclrtSetDevice(0) != 0) return -1;
    if (aclrtMalloc(&d, kBytes, ACL_MEM_MALLOC_HUGE_FIRST) != 0 || aclrtMemset(d, kBytes, 1, kBytes) != 0) return -1;
    return static_cast<char*>(d)[kBytes - 1] == 1 ? count_threads() : -1;
}

// What f answers in a child.
int in_child(int (*f)()) {
    const pid_t child = fork();
    if (child == 0) std::_Exit(f());
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// In a process in which the library has done nothing yet.
int fork_threads() {
    if (in_child(threads_of_a_fill<'3'>) != 3) return 1;  // all that was asked for
    if (threads_of_a_fill<'3'>() != 3) return 2;
    if (in_child(threads_of_a_fill<'3'>) != 1) return 3;
    return in_child(threads_of_a_fill<'6'>) == 1 ? 7 : 4;  // and no new ones either
}

// 0: the library refuses to share the process with another of CANN's names, and says with which.
int foreign() {
    void* const library = dlopen(std::getenv("GRADUS_FOREIGN"), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr || aclInit(nullptr) != 500000) return 1;
    const char* const text = aclGetRecentErrMsg();
    if (text == nullptr || std::strstr(text, std::getenv("GRADUS_FOREIGN")) == nullptr) return 2;
    aclrtContext context = nullptr;
    if (aclrtSetDevice(0) != 500000 || aclrtCreateContext(&context, 0) != 500000) return 3;
    const int64_t eight = 8, four = 4;
    aclTensor* const x = aclCreateTensor(&eight, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &eight, 1, nullptr);
    aclTensor* const y = aclCreateTensor(&four, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &four, 1, nullptr);
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    if (aclnnSwiGluGetWorkspaceSize(x, 0, y, &size, &executor) != 561000) return 5;
    dlclose(library);
    return aclInit(nullptr) == 0 && aclrtSetDevice(0) == 0 ? 0 : 4;
}

}  // namespace

int main(int, char** argv) {
    alarm(20);
    const std::string mode = argv[1];
    if (mode == "devices") {
        uint32_t count = 0;
        return aclrtGetDeviceCount(&count) == 0 ? static_cast<int>(count) : 99;
    }
    if (mode == "foreign") return foreign();
    if (mode == "fork_threads") return fork_threads();
    if (mode == "soc_name") return std::strcmp(aclrtGetSocName(), std::getenv("GRADUS_SOC_NAME"));
    if (mode == "init") {
        const int code = aclInit(nullptr);
        const char* text = aclGetRecentErrMsg();
        if (code == 0) return 0;
        return code == 100000 && text != nullptr && std::strstr(text, "expected") != nullptr ? 1 : 2;
    }
    if (aclInit(nullptr) != 0 || aclrtSetDevice(0) != 0 || aclrtCreateStream(&stream) != 0) return 2;
    if (mode == "copies_wait") return copy_waits() ? 0 : 1;
    if (mode == "copies_do_not_wait") return copies_do_not_wait();
    if (mode == "fork_exit") return fork_and_exit();
    if (mode == "exit_unmaps") return exit_unmaps();
    if (mode == "exit_late_failure") {
        fails_late.active = true;
        aclrtFree(&fails_late);  // a message that nobody reads until then
    }
    if (mode == "exit_queued") queue_copies();
    if (mode == "exit_callback") {
        aclrtLaunchHostFunc(stream, sleep_long, nullptr);
        queue_copies();
    }
    if (mode == "exit_event") {
        aclrtEvent event = nullptr;
        aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC);
        aclrtStreamWaitEvent(stream, event);
        queue_copies();
    }
    if (mode == "exit_from_callback") {
        aclrtLaunchHostFunc(stream, exit_here, nullptr);
        queue_copies();
        aclrtSynchronizeStream(stream);
    }
    if (mode == "exit_static") {
        cleans_up_late.active = true;
        queue_copies();
    }
    if (mode == "exit_blocked") {
        aclrtSubscribeReport(pthread_self(), stream);
        aclrtLaunchCallback(sleep_long, nullptr, ACL_CALLBACK_BLOCK, stream);
        queue_copies();
    }
    std::exit(7);
}
