// Small programs that the tests run as processes of their own. The exit code is the answer.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "acl/acl.h"

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

}  // namespace

int main(int, char** argv) {
    alarm(20);
    const std::string mode = argv[1];
    if (mode == "devices") {
        uint32_t count = 0;
        return aclrtGetDeviceCount(&count) == 0 ? static_cast<int>(count) : 99;
    }
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
