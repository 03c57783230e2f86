#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <thread>

#include "aclnnop/aclnn_swi_glu.h"
#include "gradus/gradus.h"
#include "testing/runtime.h"

namespace gradus::testing {
namespace {

// A fork of AddressSanitizer's finds its allocator as it was, with the locks of threads that the child has not.
#if defined(__SANITIZE_ADDRESS__)
#define SKIP_WHERE_LOCKS_STAY_TAKEN() GTEST_SKIP() << "the sanitizer's allocator keeps its locks taken in the child"
#else
#define SKIP_WHERE_LOCKS_STAY_TAKEN()
#endif

// Runs f in a child; returns the line that failed there, 0 for none, -1 for a crash or a hang.
int in_child(const std::function<int()>& f) {
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        const int line = f();
        if (line != 0) std::fprintf(stderr, "child: line %d: %s\n", line, take_message().c_str());
        _exit(line != 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define EXPECT_IN_CHILD(condition) \
    if (!(condition)) return __LINE__

// What any program does, with the handles of the parent and with new ones.
int use_everything(aclrtStream stream) {
    constexpr size_t kBytes = 4 << 20;
    void *a = nullptr, *b = nullptr;
    std::atomic<int> ran = 0;
    char last = 0;
    EXPECT_IN_CHILD(aclrtMalloc(&a, kBytes, ACL_MEM_MALLOC_HUGE_FIRST) == 0);
    EXPECT_IN_CHILD(aclrtMalloc(&b, kBytes, ACL_MEM_MALLOC_HUGE_FIRST) == 0);
    for (aclrtStream s : {stream, static_cast<aclrtStream>(nullptr)}) {
        EXPECT_IN_CHILD(aclrtMemsetAsync(a, kBytes, 7, kBytes, s) == 0);
        EXPECT_IN_CHILD(aclrtMemcpyAsync(b, kBytes, a, kBytes, ACL_MEMCPY_DEVICE_TO_DEVICE, s) == 0);
        EXPECT_IN_CHILD(aclrtLaunchHostFunc(s, count_up, &ran) == 0);
        EXPECT_IN_CHILD(aclrtSynchronizeStream(s) == 0);
    }
    EXPECT_IN_CHILD(ran == 2);
    EXPECT_IN_CHILD(aclrtMemcpy(&last, 1, static_cast<char*>(b) + kBytes - 1, 1, ACL_MEMCPY_DEVICE_TO_HOST) == 0);
    EXPECT_IN_CHILD(last == 7);
    EXPECT_IN_CHILD(aclrtFree(a) == 0 && aclrtFree(b) == 0);
    EXPECT_IN_CHILD(aclrtDestroyStream(stream) == 0);
    EXPECT_IN_CHILD(aclrtResetDevice(0) == 0);
    return 0;
}

class Fork : public Runtime {
  protected:
    void SetUp() override {
#if defined(__SANITIZE_THREAD__)
        GTEST_SKIP() << "the thread sanitizer does not survive a fork between threads";
#endif
        Runtime::SetUp();
    }
    void TearDown() override {
        if (stream != nullptr) Runtime::TearDown();
    }
};

TEST_F(Fork, Idle) {
    EXPECT_EQ(in_child([&] { return use_everything(stream); }), 0);
}

TEST_F(Fork, AfterItsThreadHasStarted) {
    std::atomic<int> ran = 0;
    ASSERT_EQ(aclrtLaunchHostFunc(stream, count_up, &ran), 0);
    ASSERT_EQ(aclrtSynchronizeStream(stream), 0);
    EXPECT_EQ(in_child([&] { return use_everything(stream); }), 0);
}

TEST_F(Fork, MemoryIsCopied) {
    auto* d = static_cast<char*>(device_memory(64));
    d[0] = 1;
    EXPECT_EQ(in_child([&] {
                  EXPECT_IN_CHILD(d[0] == 1);
                  EXPECT_IN_CHILD(aclrtMemset(d, 64, 2, 64) == 0 && d[0] == 2);
                  EXPECT_IN_CHILD(aclrtFree(d) == 0);
                  return 0;
              }),
              0);
    EXPECT_EQ(d[0], 1);
    EXPECT_EQ(aclrtFree(d), 0);
}

TEST_F(Fork, QueuedWorkBelongsToTheParent) {
    std::atomic<int> ran = 0;
    aclrtEvent event = nullptr;
    ASSERT_EQ(aclrtCreateEvent(&event), 0);
    Gate gate;
    ASSERT_EQ(gate.hold(stream), 0);
    ASSERT_EQ(aclrtLaunchHostFunc(stream, count_up, &ran), 0);
    ASSERT_EQ(aclrtRecordEvent(event, stream), 0);
    gate.wait_until_reached();
    EXPECT_EQ(in_child([&] {
                  EXPECT_IN_CHILD(aclrtSynchronizeEvent(event) == 0);  // what would have recorded it is gone
                  EXPECT_IN_CHILD(aclrtSynchronizeStream(stream) == 0);
                  EXPECT_IN_CHILD(ran == 0);
                  return use_everything(stream);
              }),
              0);
    gate.open();
    EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
    EXPECT_EQ(ran, 1);
    EXPECT_EQ(aclrtDestroyEvent(event), 0);
}

TEST_F(Fork, WhileTheStreamWaits) {
    aclrtEvent event = nullptr;
    ASSERT_EQ(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC), 0);
    ASSERT_EQ(aclrtStreamWaitEvent(stream, event), 0);
    WaitingThread waiter([&] { EXPECT_EQ(aclrtSynchronizeStream(stream), 0); });
    EXPECT_EQ(in_child([&] { return use_everything(stream); }), 0);
    ASSERT_EQ(aclrtRecordEvent(event, nullptr), 0);
    waiter.join();
    EXPECT_EQ(aclrtDestroyEvent(event), 0);
}

TEST_F(Fork, WhileOthersAreInside) {
    SKIP_WHERE_LOCKS_STAY_TAKEN();
    std::atomic<bool> stop = false;
    auto* d = static_cast<char*>(device_memory(2 << 20));
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
        threads.emplace_back([&, t] {
            ASSERT_EQ(aclrtSetDevice(0), 0);
            while (!stop) {
                aclrtStream s = nullptr;
                aclrtEvent e = nullptr;
                ASSERT_EQ(aclrtCreateStream(&s), 0);
                ASSERT_EQ(aclrtCreateEvent(&e), 0);
                ASSERT_EQ(aclrtMemsetAsync(d, size_t{1} << 20, t, size_t{1} << 20, stream), 0);
                ASSERT_EQ(aclrtRecordEvent(e, stream), 0);
                ASSERT_EQ(aclrtStreamWaitEvent(s, e), 0);
                ASSERT_EQ(aclrtSynchronizeStream(s), 0);
                void* p = device_memory(100);
                ASSERT_EQ(aclrtFree(p), 0);
                ASSERT_EQ(aclrtDestroyEvent(e), 0);
                ASSERT_EQ(aclrtDestroyStream(s), 0);
            }
            ASSERT_EQ(aclrtResetDevice(0), 0);
        });
    for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(in_child([&] {
                      aclrtStream s = nullptr;
                      EXPECT_IN_CHILD(aclrtCreateStream(&s) == 0);
                      EXPECT_IN_CHILD(aclrtSynchronizeStream(stream) == 0);
                      return use_everything(s);
                  }),
                  0);
    }
    stop = true;
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(aclrtFree(d), 0);
}

struct ForkInside {
    aclrtStream stream;
    int result = -2;
    static void run(void* argument) {
        auto& in = *static_cast<ForkInside*>(argument);
        in.result = in_child([&] {
            aclrtStream s = nullptr;
            EXPECT_IN_CHILD(aclrtSetDevice(0) == 0);
            EXPECT_IN_CHILD(aclrtSynchronizeStream(in.stream) == 107000);  // still inside it
            EXPECT_IN_CHILD(aclrtCreateStream(&s) == 0);
            return use_everything(s);
        });
    }
};

TEST_F(Fork, FromACallback) {
    ForkInside in{stream};
    ASSERT_EQ(aclrtLaunchHostFunc(stream, ForkInside::run, &in), 0);
    ASSERT_EQ(aclrtSynchronizeStream(stream), 0);
    EXPECT_EQ(in.result, 0);
}

TEST_F(Fork, ChildOfAChild) {
    Gate gate;
    ASSERT_EQ(gate.hold(stream), 0);
    gate.wait_until_reached();
    EXPECT_EQ(in_child([&] { return in_child([&] { return use_everything(stream); }); }), 0);
    gate.open();
}

TEST_F(Fork, ExitOfTheChildWhileTheParentWorks) {
    SKIP_WHERE_LOCKS_STAY_TAKEN();
    EXPECT_EQ(run_helper("fork_exit"), 7);
}

// daemon(), multiprocessing, servers that fork before they work: the child has all its threads. Once the parent has
// worker threads, a child computes in the one it has.
TEST(ForkAndThreads, ChildrenBeforeAndAfterTheFirstThread) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the thread sanitizer has a thread of its own";
#endif
    ASSERT_EQ(run_helper("fork_threads"), 7);
}

// A thread works through the library while another forks: what it was inside of is not lost to the child.
TEST_F(Fork, WhileAnotherThreadCalls) {
    SKIP_WHERE_LOCKS_STAY_TAKEN();
    std::atomic<bool> stop = false;
    const int64_t dims[2] = {4, 8}, half[2] = {4, 4};
    std::thread busy([&] {
        aclTensor* x = aclCreateTensor(dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 2, nullptr);
        aclTensor* y = aclCreateTensor(half, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, half, 2, nullptr);
        while (!stop) {
            uint64_t size = 0;
            aclOpExecutor* executor = nullptr;
            EXPECT_EQ(aclrtSetDevice(0), 0);
            EXPECT_EQ(aclnnSwiGluGetWorkspaceSize(x, -1, y, &size, &executor), 0);
            EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);
            EXPECT_EQ(aclrtResetDevice(0), 0);
            EXPECT_NE(gradusCatalogue(), nullptr);
        }
        EXPECT_EQ(aclDestroyTensor(x) + aclDestroyTensor(y), 0);
    });
    for (int i = 0; i < 100; ++i)
        ASSERT_EQ(in_child([&] {
                      aclTensor* x = aclCreateTensor(dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 2, nullptr);
                      aclTensor* y = aclCreateTensor(half, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, half, 2, nullptr);
                      uint64_t size = 0;
                      aclOpExecutor* executor = nullptr;
                      EXPECT_IN_CHILD(aclrtSetDevice(1) == 0);
                      EXPECT_IN_CHILD(aclnnSwiGluGetWorkspaceSize(x, -1, y, &size, &executor) == 0);
                      EXPECT_IN_CHILD(gradusCatalogue() != nullptr);
                      return 0;
                  }),
                  0)
            << "child " << i;
    stop = true;
    busy.join();
}

}  // namespace
}  // namespace gradus::testing
