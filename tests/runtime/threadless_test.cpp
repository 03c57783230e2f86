// Where no thread can be had, as in a container at its limit, everything works on the threads that are there. This
// program has one thread; every attempt of the library to start another fails, or all after the first few.
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

#include <dlfcn.h>

#include "aclnnop/aclnn_swi_glu.h"
#include "gradus/gradus.h"
#include "hccl/hccl.h"
#include "testing/runtime.h"

namespace {

std::atomic<int> threads_to_give = 0;
std::atomic<int> threads_asked_for = 0;

}  // namespace

extern "C" __attribute__((visibility("default"))) int pthread_create(pthread_t* thread,
                                                                     const pthread_attr_t* attributes,
                                                                     void* (*body)(void*), void* argument) {
    ++threads_asked_for;
    if (threads_to_give == 0) return EAGAIN;
    --threads_to_give;
    using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
    static const auto real = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
    return real(thread, attributes, body, argument);
}

namespace gradus::testing {
namespace {

constexpr size_t kBytes = 8 << 20;

class Threadless : public Runtime {
  protected:
    void SetUp() override {
        Runtime::SetUp();
        ASSERT_EQ(aclrtCreateStream(&other), 0);
        threads_to_give = threads_asked_for = 0;
    }
    void TearDown() override {
        threads_to_give = 0;
        EXPECT_EQ(aclrtDestroyStream(other), 0);
        Runtime::TearDown();
    }
    aclrtStream other = nullptr;
};

TEST_F(Threadless, CopiesAndFills) {
    auto* d = static_cast<char*>(device_memory(kBytes));
    std::vector<char> host(kBytes, 3);
    EXPECT_EQ(aclrtMemcpy(d, kBytes, host.data(), kBytes, ACL_MEMCPY_HOST_TO_DEVICE), 0);
    EXPECT_EQ(std::memcmp(d, host.data(), kBytes), 0);
    EXPECT_EQ(aclrtMemsetAsync(d, kBytes, 5, kBytes, stream), 0);
    EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
    EXPECT_EQ(d[kBytes - 1], 5);
    EXPECT_GT(threads_asked_for, 0);
    EXPECT_EQ(aclrtFree(d), 0);
}

TEST_F(Threadless, OperatorsGiveTheSameBits) {
    const int64_t dims[2] = {512, 2048}, half[2] = {512, 1024};
    auto* x = static_cast<float*>(device_memory(sizeof(float) * 512 * 2048));
    std::vector<std::vector<float>> results;
    for (int i = 0; i < 512 * 2048; ++i) x[i] = static_cast<float>(i % 977 - 488) * 0.01F;
    for (const char* threads : {"1", "4"}) {
        auto* y = static_cast<float*>(device_memory(sizeof(float) * 512 * 1024));
        ASSERT_EQ(gradusSetOption("num_threads", threads), 0);
        aclTensor* in = aclCreateTensor(dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 2, x);
        aclTensor* out = aclCreateTensor(half, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, half, 2, y);
        uint64_t size = 0;
        aclOpExecutor* executor = nullptr;
        ASSERT_EQ(aclnnSwiGluGetWorkspaceSize(in, -1, out, &size, &executor), 0);
        ASSERT_EQ(aclnnSwiGlu(nullptr, size, executor, stream), 0);
        ASSERT_EQ(aclrtSynchronizeStream(stream), 0);
        results.emplace_back(y, y + 512 * 1024);
        EXPECT_EQ(aclDestroyTensor(in) + aclDestroyTensor(out), 0);
        EXPECT_EQ(aclrtFree(y), 0);
        threads_to_give = 1;  // of the three that the second round wants
    }
    EXPECT_EQ(std::memcmp(results[0].data(), results[1].data(), results[0].size() * sizeof(float)), 0);
    EXPECT_EQ(aclrtFree(x), 0);
}

TEST_F(Threadless, HostFunctionsRunInOrder) {
    std::atomic<int> ran = 0;
    auto* d = static_cast<char*>(device_memory(kBytes));
    EXPECT_EQ(aclrtMemsetAsync(d, kBytes, 1, kBytes, stream), 0);
    EXPECT_EQ(aclrtLaunchHostFunc(stream, count_up, &ran), 0);
    EXPECT_EQ(aclrtMemsetAsync(d, kBytes, 2, kBytes, stream), 0);
    EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
    EXPECT_EQ(ran, 1);
    EXPECT_EQ(d[kBytes - 1], 2);
    EXPECT_EQ(aclrtFree(d), 0);
}

// Nobody is stuck in the wait: the calls return, and the record lets the other stream's work run.
TEST_F(Threadless, WaitForAnEventThatComesLater) {
    aclrtEvent event = nullptr;
    std::atomic<int> ran = 0;
    ASSERT_EQ(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC), 0);
    for (const bool poll : {false, true}) {
        ran = 0;
        EXPECT_EQ(aclrtStreamWaitEvent(stream, event), 0);
        EXPECT_EQ(aclrtLaunchHostFunc(stream, count_up, &ran), 0);
        EXPECT_EQ(ran, 0);
        EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream, 5), 507046);
        EXPECT_EQ(aclrtRecordEvent(event, other), 0);
        if (poll) {
            aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
            EXPECT_EQ(aclrtStreamQuery(stream, &status), 0);
            EXPECT_EQ(status, ACL_STREAM_STATUS_COMPLETE);
        } else {
            EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
        }
        EXPECT_EQ(ran, 1);
        EXPECT_EQ(aclrtResetEvent(event, other), 0);
    }
    EXPECT_EQ(aclrtDestroyEvent(event), 0);
}

TEST_F(Threadless, OrderOverTwoStreams) {
    aclrtEvent first = nullptr, second = nullptr;
    ASSERT_EQ(aclrtCreateEventWithFlag(&first, ACL_EVENT_SYNC), 0);
    ASSERT_EQ(aclrtCreateEvent(&second), 0);
    auto* d = static_cast<char*>(device_memory(kBytes));
    EXPECT_EQ(aclrtStreamWaitEvent(stream, first), 0);
    EXPECT_EQ(aclrtMemsetAsync(d, kBytes, 1, kBytes, stream), 0);
    EXPECT_EQ(aclrtRecordEvent(second, stream), 0);
    EXPECT_EQ(aclrtStreamWaitEvent(other, second), 0);
    EXPECT_EQ(aclrtMemsetAsync(d, kBytes, 2, kBytes, other), 0);
    EXPECT_EQ(d[0], 0);
    EXPECT_EQ(aclrtRecordEvent(first, nullptr), 0);
    EXPECT_EQ(aclrtSynchronizeEvent(second), 0);
    char last = 0;
    EXPECT_EQ(aclrtMemcpy(&last, 1, d + kBytes - 1, 1, ACL_MEMCPY_DEVICE_TO_HOST), 0);
    EXPECT_EQ(last, 2);
    EXPECT_EQ(aclrtDestroyEvent(first) + aclrtDestroyEvent(second), 0);
    EXPECT_EQ(aclrtFree(d), 0);
}

// One thread is both ranks: it comes to the collective twice, and does the work when it waits.
TEST_F(Threadless, CollectivesOfTwoRanks) {
    int32_t devices[] = {0, 1};
    HcclComm comms[2] = {};
    aclrtStream second = nullptr;
    ASSERT_EQ(HcclCommInitAll(2, devices, comms), HCCL_SUCCESS);
    ASSERT_EQ(aclrtSetDevice(1) + aclrtCreateStream(&second) + aclrtSetDevice(0), 0);
    const aclrtStream streams[] = {stream, second};
    float* data[2];
    constexpr size_t kCount = kBytes / sizeof(float);
    for (int r = 0; r < 2; ++r) {
        data[r] = static_cast<float*>(device_memory(kBytes));
        for (size_t i = 0; i < kCount; ++i) data[r][i] = static_cast<float>(i % 5 + static_cast<size_t>(r));
    }
    for (int r = 0; r < 2; ++r)
        EXPECT_EQ(HcclAllReduce(data[r], data[r], kCount, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comms[r], streams[r]),
                  HCCL_SUCCESS);
    for (const aclrtStream each : streams) EXPECT_EQ(aclrtSynchronizeStream(each), 0);
    for (const float* const each : data)
        for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(each[i], static_cast<float>(2 * (i % 5) + 1)) << i;
    EXPECT_GT(threads_asked_for, 0);
    for (int r = 0; r < 2; ++r) {
        EXPECT_EQ(HcclCommDestroy(comms[r]), HCCL_SUCCESS);
        EXPECT_EQ(aclrtFree(data[r]), 0);
    }
    EXPECT_EQ(aclrtSetDevice(1) + aclrtDestroyStream(second) + aclrtResetDeviceForce(1) + aclrtSetDevice(0), 0);
}

TEST_F(Threadless, CallbacksOfASubscribedThread) {
    std::atomic<int> ran = 0, after = 0;
    ASSERT_EQ(aclrtSubscribeReport(pthread_self(), stream), 0);
    ASSERT_EQ(aclrtLaunchCallback(count_up, &ran, ACL_CALLBACK_BLOCK, stream), 0);
    ASSERT_EQ(aclrtLaunchHostFunc(stream, count_up, &after), 0);
    EXPECT_EQ(ran, 0);
    EXPECT_EQ(after, 0);
    EXPECT_EQ(aclrtProcessReport(1000), 0);
    EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
    EXPECT_EQ(ran, 1);
    EXPECT_EQ(after, 1);
    EXPECT_EQ(aclrtUnSubscribeReport(pthread_self(), stream), 0);
}

// A stream that could not get a thread asks again.
TEST_F(Threadless, ThreadsThatComeBackAreUsed) {
    auto* d = static_cast<char*>(device_memory(kBytes));
    EXPECT_EQ(aclrtMemsetAsync(d, kBytes, 1, kBytes, stream), 0);
    const int refused = threads_asked_for;
    EXPECT_GT(refused, 0);
    threads_to_give = 100;
    EXPECT_EQ(aclrtMemsetAsync(d, kBytes, 2, kBytes, stream), 0);
    EXPECT_GT(threads_asked_for, refused);
    EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
    EXPECT_EQ(d[kBytes - 1], 2);
    EXPECT_EQ(aclrtFree(d), 0);
}

}  // namespace
}  // namespace gradus::testing
