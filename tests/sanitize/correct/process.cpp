// What a process does besides: forks, signals, files, static objects, its end.
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "correct.h"

// As a daemon begins: it closes whatever it did not open, and opens files of its own.
CORRECT(files_closed) {
    Buffer x(kX), y(kY);
    Stream s;
    for (int file = 3; file < 256; ++file) close(file);
    std::FILE* own[16];
    for (std::FILE*& file : own) file = std::tmpfile();
    glu(x, y, s);
    sync(s);
    if (std::getenv("GRADUS_TEST_MISTAKE") != nullptr) {
        glu(x, y, s);
        read(y);  // too early
    }
    for (std::FILE* file : own) {
        std::fseek(file, 0, SEEK_END);
        if (std::ftell(file) != 0) std::abort();
        std::fclose(file);
    }
}

CORRECT(fork_with_a_child_that_works) {
    Buffer x(kX), y(kY);
    Stream s;
    glu(x, y, s);
    sync(s);
    const pid_t child = fork();
    if (child == 0) {
        const float seven = 7;
        MUST(aclrtMemcpy(x, kX, &seven, 4, ACL_MEMCPY_HOST_TO_DEVICE));
        glu(x, y, s);
        sync(s);
        std::_Exit(read(x, kX)[0] == 7 ? 0 : 1);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) std::abort();
    if (read(x, kX)[0] != 0) std::abort();  // the child's memory is its own
}

// What is left of the parent's is none of its leaks.
CORRECT(fork_with_a_child_that_exits) {
    Buffer x(kX), y(kY);
    Stream s;
    glu(x, y, s);
    sync(s);
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        aclTensor* const t = tensor(x, kWidth);
        glu(x, y, s);
        sync(s);
        aclDestroyTensor(t);
        std::exit(0);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) std::abort();
}

// An object of the program's own, made before everything, that waits and frees when it goes.
static struct Engine {
    ~Engine() {
        if (stream == nullptr) return;
        MUST(aclrtDestroyStream(stream));
        delete x;
        delete y;
        MUST(aclrtResetDevice(0));
    }
    aclrtStream stream = nullptr;
    Buffer *x = nullptr, *y = nullptr;
} engine;
CORRECT(static_object_waits) {
    MUST(aclrtCreateStream(&engine.stream));
    engine.x = new Buffer(kX);
    engine.y = new Buffer(kY);
    MUST(aclrtLaunchHostFunc(
        engine.stream, [](void*) {}, nullptr));
    glu(*engine.x, *engine.y, engine.stream);
    std::exit(0);
}

// Questions, whose answer is a code.
CORRECT(asked_whether_it_is_set) {
    int64_t value = 0;
    (void)aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value);
    std::thread([] {
        int32_t device = 0;
        aclrtContext context = nullptr;
        (void)aclrtGetCurrentContext(&context);
        if (aclrtGetDevice(&device) != ACL_ERROR_RT_CONTEXT_NULL) std::abort();
        MUST(aclrtSetDevice(0));
        MUST(aclrtResetDevice(0));
    }).join();
}

static Buffer* late_x = nullptr;
CORRECT(freed_after_finalising) {
    late_x = new Buffer(kX);
    aclFinalize();
    std::atexit([] { delete late_x; });
}

CORRECT(quick_exit) {
    Buffer x(kX), y(kY);
    Stream s;
    glu(x, y, s);
    sync(s);
    MUST(aclrtDestroyStream(s.s));
    MUST(aclrtFree(x.p));
    MUST(aclrtFree(y.p));
    std::quick_exit(0);
}

// Silent but for the note that --leak-check full gives.
CORRECT(freed_after_finalising_unused) { const Buffer x(kX, false); }

static sigjmp_buf back;
CORRECT(own_handler) {
    // installed after the library's, for a page of the program's own
    struct sigaction own {};
    own.sa_handler = [](int) { siglongjmp(back, 1); };
    sigaction(SIGSEGV, &own, nullptr);
    Buffer x(kX);
    void* const page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (sigsetjmp(back, 1) == 0) {
        *static_cast<volatile char*>(page) = 1;
        std::abort();
    }
    munmap(page, 4096);
}

// What a program sends itself comes as without the sanitizer: it is ignored, or ends the process.
CORRECT(faults_sent_in_a_fork) {
    Buffer x(kX);
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_IGN);
        const Buffer y(kX);
        raise(SIGSEGV);
        signal(SIGSEGV, SIG_DFL);
        const Buffer z(kX);
        raise(SIGSEGV);
        std::_Exit(0);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status) || WTERMSIG(status) != SIGSEGV) std::abort();
}
