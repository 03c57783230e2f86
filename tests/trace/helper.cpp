// Small programs whose timelines the tests look at. The first word says which.
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "acl/acl.h"
#include "aclnnop/aclnn_swi_glu.h"
#include "aclnnop/aclnn_swi_glu_grad.h"
#include "hccl/hccl.h"

namespace {

#define CHECK(call)                                                        \
    do {                                                                   \
        if ((call) != 0) {                                                 \
            std::fprintf(stderr, "%s: %s\n", #call, aclGetRecentErrMsg()); \
            std::_Exit(9);                                                 \
        }                                                                  \
    } while (0)

struct Buffer {
    Buffer(int64_t rows, int64_t columns) {
        const int64_t shape[] = {rows, columns};
        bytes = static_cast<size_t>(rows * columns) * 4;
        CHECK(aclrtMalloc(&data, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
        CHECK(aclrtMemset(data, bytes, 0, bytes));
        tensor = aclCreateTensor(shape, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape, 2, data);
    }
    ~Buffer() {
        aclDestroyTensor(tensor);
        aclrtFree(data);
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    void* data = nullptr;
    size_t bytes = 0;
    aclTensor* tensor = nullptr;
};

void forward(const Buffer& x, const Buffer& y, aclrtStream stream) {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    CHECK(aclnnSwiGluGetWorkspaceSize(x.tensor, -1, y.tensor, &size, &executor));
    CHECK(aclnnSwiGlu(nullptr, size, executor, stream));
}

void backward(const Buffer& dy, const Buffer& x, const Buffer& dx, aclrtStream stream) {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    CHECK(aclnnSwiGluGradGetWorkspaceSize(dy.tensor, x.tensor, -1, dx.tensor, &size, &executor));
    CHECK(aclnnSwiGluGrad(nullptr, size, executor, stream));
}

// y on one stream, the gradient that takes it on another; with the event that orders them or without it.
void two_streams(bool with_event, int64_t rows) {
    const Buffer x(rows, 2048), y(rows, 1024), dx(rows, 2048);
    aclrtStream produces = nullptr, consumes = nullptr;
    aclrtEvent made = nullptr;
    CHECK(aclrtCreateStream(&produces));
    CHECK(aclrtCreateStream(&consumes));
    CHECK(aclrtCreateEvent(&made));
    for (int step = 0; step < 3; ++step) {
        forward(x, y, produces);
        if (with_event) {
            CHECK(aclrtRecordEvent(made, produces));
            CHECK(aclrtStreamWaitEvent(consumes, made));
        }
        backward(y, x, dx, consumes);
        CHECK(aclrtSynchronizeStream(consumes));
        CHECK(aclrtSynchronizeStream(produces));
    }
    CHECK(aclrtMemcpyAsync(dx.data, dx.bytes, x.data, dx.bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, produces));
    CHECK(aclrtSynchronizeDevice());
    CHECK(aclrtDestroyEvent(made));
    CHECK(aclrtDestroyStream(produces));
    CHECK(aclrtDestroyStream(consumes));
}

// A rank with a stream that sums over all of them, and one that waits for the sum and works with it.
class Rank {
  public:
    explicit Rank(int32_t device) : x_(on(device)), sum_(512, 2048), y_(512, 1024) {
        CHECK(aclrtCreateStream(&talks_));
        CHECK(aclrtCreateStream(&works_));
        CHECK(aclrtCreateEvent(&summed_));
    }
    Rank(const Rank&) = delete;
    Rank& operator=(const Rank&) = delete;
    ~Rank() {
        aclrtDestroyEvent(summed_);
        aclrtDestroyStream(talks_);
        aclrtDestroyStream(works_);
    }
    void step(HcclComm comm) const {
        CHECK(HcclAllReduce(x_.data, sum_.data, 512 * 2048, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, talks_));
        CHECK(aclrtRecordEvent(summed_, talks_));
        CHECK(aclrtStreamWaitEvent(works_, summed_));
        forward(sum_, y_, works_);
    }

  private:
    static Buffer on(int32_t device) {
        CHECK(aclrtSetDevice(device));
        return Buffer(512, 2048);
    }
    const Buffer x_, sum_, y_;
    aclrtStream talks_ = nullptr, works_ = nullptr;
    aclrtEvent summed_ = nullptr;
};

void two_ranks() {
    int32_t devices[] = {0, 1};
    HcclComm comms[2] = {};
    CHECK(HcclCommInitAll(2, devices, comms));
    {
        const Rank first(0), second(1);
        second.step(comms[1]);
        CHECK(aclrtSetDevice(0));
        first.step(comms[0]);
        for (const int32_t device : {1, 0}) {
            CHECK(aclrtSetDevice(device));
            CHECK(aclrtSynchronizeDevice());
        }
    }
    for (const HcclComm comm : comms) CHECK(HcclCommDestroy(comm));
    CHECK(aclrtResetDevice(1));
}

void count_up(void* number) { ++*static_cast<int*>(number); }

void callback() {
    aclrtStream stream = nullptr;
    int number = 0;
    CHECK(aclrtCreateStream(&stream));
    CHECK(aclrtLaunchHostFunc(stream, count_up, &number));
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtDestroyStream(stream));
}

void in_thread() {
    std::thread([] {
        pthread_setname_np(pthread_self(), "my \"worker\"");
        CHECK(aclrtSetDevice(1));
        aclrtStream stream = nullptr;
        CHECK(aclrtCreateStream(&stream));
        const Buffer a(4, 8), b(4, 4);
        forward(a, b, stream);
        CHECK(aclrtSynchronizeStream(stream));
        CHECK(aclrtDestroyStream(stream));
        CHECK(aclrtResetDevice(1));
    }).join();
}

void fork_one(bool finalizes) {
    callback();
    const pid_t child = fork();
    if (child == 0) {
        two_streams(true, 64);
        if (!finalizes) std::exit(0);
        CHECK(aclFinalize());
        _exit(0);  // as most children do
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) std::_Exit(8);
    std::printf("%d\n", child);
}

// Work that will not have ended, and a call that fails.
void unfinished() {
    static aclrtStream stream = nullptr;
    static aclrtEvent never = nullptr;
    static const Buffer* const x = new Buffer(512, 2048);
    static const Buffer* const y = new Buffer(512, 1024);
    CHECK(aclrtCreateStream(&stream));
    CHECK(aclrtCreateEventWithFlag(&never, ACL_EVENT_SYNC));
    forward(*x, *y, stream);
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtStreamWaitEvent(stream, never));
    forward(*x, *y, stream);
    if (aclrtFree(stream) == 0) std::_Exit(8);
}

void many(long launches) {
    const Buffer x(2, 64), y(2, 32);
    for (long i = 0; i < launches; ++i) {
        forward(x, y, nullptr);
        CHECK(aclrtSynchronizeStream(nullptr));
    }
}

}  // namespace

int main(int argc, char** argv) {
    const char* const what = argc > 1 ? argv[1] : "";
    const auto is = [what](const char* word) { return std::strcmp(what, word) == 0; };
    CHECK(aclInit(nullptr));
    CHECK(aclrtSetDevice(0));
    if (is("ordered")) two_streams(true, 4096);
    if (is("missing")) two_streams(false, 4096);
    if (is("all")) two_streams(true, 256), callback(), in_thread();
    if (is("ranks")) two_ranks();
    if (is("memory")) const Buffer alone(4, 8);
    if (is("fork")) fork_one(false);
    if (is("fork_finalize")) fork_one(true);
    if (is("many")) many(std::atol(argv[2]));
    if (is("chdir") && (callback(), chdir("/") != 0)) return 8;
    if (is("exit") || is("quick_exit") || is("abort") || is("terminate") || is("crash") || is("_exit")) unfinished();
    if (is("quick_exit")) std::quick_exit(3);
    if (is("abort")) std::abort();
    if (is("terminate")) kill(getpid(), SIGTERM);
    if (is("crash")) *static_cast<volatile int*>(nullptr) = 1;
    if (is("_exit")) _exit(aclFinalize() == 0 ? 3 : 8);
    if (is("exit")) return 3;
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}
