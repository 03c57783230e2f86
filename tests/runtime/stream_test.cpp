#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "testing/runtime.h"

namespace gradus::testing {
namespace {

class Streams : public Runtime {};

struct Log {
    std::vector<int> numbers;
    struct Entry {
        Log* log;
        int number;
    };
    std::vector<Entry> entries;
    explicit Log(int count) {
        for (int i = 0; i < count; ++i) entries.push_back({this, i});
    }
    static void write(void* argument) {
        auto& entry = *static_cast<Entry*>(argument);
        entry.log->numbers.push_back(entry.number);
    }
};

void throws(void*) { throw std::runtime_error("from a callback"); }
TEST_F(Streams, CreateRefuses) {
    EXPECT_EQ(aclrtCreateStream(nullptr), 100000);
    expect_message("aclrtCreateStream", "stream: NULL");
    EXPECT_EQ(aclrtCreateStreamWithConfig(nullptr, 0, ACL_STREAM_FAST_LAUNCH), 100000);
    std::thread([] {
        aclrtStream s = nullptr;
        EXPECT_EQ(aclrtCreateStream(&s), 107002);
        EXPECT_EQ(aclrtSynchronizeStream(nullptr), 107002);
        EXPECT_EQ(s, nullptr);
    }).join();
    aclrtStream s = nullptr;
    EXPECT_EQ(aclrtCreateStreamWithConfig(&s, 0, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC), 0);
    EXPECT_EQ(aclrtDestroyStream(s), 0);
}

TEST_F(Streams, StaleAndForeignHandles) {
    EXPECT_EQ(aclrtDestroyStream(nullptr), 100000);
    EXPECT_EQ(aclrtDestroyStreamForce(nullptr), 100000);
    EXPECT_EQ(aclrtDestroyStream(&stream), 107017);  // the variable's address for its value
    expect_message("aclrtDestroyStream", "stream: not a live stream");
    aclrtEvent event = nullptr;
    ASSERT_EQ(aclrtCreateEvent(&event), 0);
    aclrtContext context = nullptr;
    ASSERT_EQ(aclrtGetCurrentContext(&context), 0);
    aclrtStream dead = nullptr;
    ASSERT_EQ(aclrtCreateStream(&dead), 0);
    ASSERT_EQ(aclrtDestroyStream(dead), 0);
    aclrtStreamStatus status;
    for (void* wrong : {static_cast<void*>(&stream), event, context, dead}) {
        EXPECT_EQ(aclrtDestroyStream(wrong), 107017);
        EXPECT_EQ(aclrtDestroyStreamForce(wrong), 107017);
        EXPECT_EQ(aclrtSynchronizeStream(wrong), 107017);
        EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(wrong, 10), 107017);
        EXPECT_EQ(aclrtStreamQuery(wrong, &status), 107017);
        EXPECT_EQ(aclrtSetStreamFailureMode(wrong, 1), 107017);
        EXPECT_EQ(aclrtLaunchHostFunc(wrong, count_up, nullptr), 107017);
        EXPECT_EQ(aclrtRecordEvent(event, wrong), 107017);
        EXPECT_EQ(aclrtStreamWaitEvent(wrong, event), 107017);
    }
    EXPECT_EQ(aclrtDestroyEvent(event), 0);
}

TEST_F(Streams, DestroyAsksForTheContext) {
    aclrtContext own = nullptr, other = nullptr;
    ASSERT_EQ(aclrtGetCurrentContext(&own), 0);
    ASSERT_EQ(aclrtCreateContext(&other, 0), 0);
    EXPECT_EQ(aclrtDestroyStream(stream), 107003);
    expect_message("aclrtDestroyStream", "another context");
    ASSERT_EQ(aclrtDestroyContext(other), 0);
    EXPECT_EQ(aclrtDestroyStream(stream), 107002);
    ASSERT_EQ(aclrtSetCurrentContext(own), 0);
}

TEST_F(Streams, RunInOrder) {
    constexpr int kTasks = 1000;
    Log log(kTasks);
    for (auto& entry : log.entries) ASSERT_EQ(aclrtLaunchHostFunc(stream, Log::write, &entry), 0);
    ASSERT_EQ(aclrtSynchronizeStream(stream), 0);
    ASSERT_EQ(log.numbers.size(), size_t{kTasks});
    for (int i = 0; i < kTasks; ++i) ASSERT_EQ(log.numbers[static_cast<size_t>(i)], i);
    EXPECT_EQ(aclrtLaunchHostFunc(stream, nullptr, nullptr), 100000);
}

TEST_F(Streams, SmallWorkKeepsItsPlace) {
    auto* d = static_cast<char*>(device_memory(64));
    auto* e = static_cast<char*>(device_memory(64));
    Gate gate;
    ASSERT_EQ(gate.hold(stream), 0);
    ASSERT_EQ(aclrtMemsetAsync(d, 64, 3, 64, stream), 0);
    ASSERT_EQ(aclrtMemcpyAsync(e, 64, d, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, stream), 0);
    ASSERT_EQ(aclrtMemsetAsync(d, 64, 4, 64, stream), 0);
    EXPECT_EQ(d[0], 0);
    gate.open();
    ASSERT_EQ(aclrtSynchronizeStream(stream), 0);
    EXPECT_EQ(e[0], 3);
    EXPECT_EQ(d[0], 4);
    EXPECT_EQ(aclrtFree(d), 0);
    EXPECT_EQ(aclrtFree(e), 0);
}

TEST_F(Streams, NullIsTheDefaultStream) {
    std::atomic<int> ran = 0;
    ASSERT_EQ(aclrtLaunchHostFunc(nullptr, count_up, &ran), 0);
    ASSERT_EQ(aclrtSynchronizeStream(nullptr), 0);
    EXPECT_EQ(ran, 1);
}

TEST_F(Streams, QueryAndTimeouts) {
    aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
    EXPECT_EQ(aclrtStreamQuery(stream, nullptr), 100000);
    EXPECT_EQ(aclrtStreamQuery(stream, &status), 0);
    EXPECT_EQ(status, ACL_STREAM_STATUS_COMPLETE);
    for (int32_t wrong : {0, -2, INT32_MIN}) {
        EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream, wrong), 107000);
        expect_message("aclrtSynchronizeStreamWithTimeout", "timeout: " + std::to_string(wrong));
        EXPECT_EQ(aclrtSynchronizeDeviceWithTimeout(wrong), 107000);
    }
    Gate gate;
    ASSERT_EQ(gate.hold(stream), 0);
    EXPECT_EQ(aclrtStreamQuery(stream, &status), 0);
    EXPECT_EQ(status, ACL_STREAM_STATUS_NOT_READY);
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream, 20), 507046);
    expect_message("aclrtSynchronizeStreamWithTimeout", "20 ms");
    EXPECT_EQ(aclrtSynchronizeDeviceWithTimeout(20), 507046);
    gate.open();
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream, -1), 0);
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream, INT32_MAX), 0);
    EXPECT_EQ(aclrtSynchronizeDeviceWithTimeout(1000), 0);
}

// A time-out that is long enough is not one.
TEST_F(Streams, TimeoutsThatDoNotExpire) {
    aclrtContext context = nullptr;
    ASSERT_EQ(aclrtGetCurrentContext(&context), 0);
    Gate gate;
    ASSERT_EQ(gate.hold(stream), 0);
    int of_stream = -1, of_device = -1;
    WaitingThread first([&] { of_stream = aclrtSynchronizeStreamWithTimeout(stream, 600000); });
    WaitingThread second([&] {
        aclrtSetCurrentContext(context);
        of_device = aclrtSynchronizeDeviceWithTimeout(600000);
    });
    gate.open();
    first.join();
    second.join();
    EXPECT_EQ(of_stream, 0);
    EXPECT_EQ(of_device, 0);
}

TEST_F(Streams, ExceptionsBecomeTheStreamsError) {
    std::atomic<int> ran = 0;
    ASSERT_EQ(aclrtLaunchHostFunc(stream, throws, nullptr), 0);
    ASSERT_EQ(aclrtLaunchHostFunc(stream, count_up, &ran), 0);
    EXPECT_EQ(aclrtSynchronizeStream(stream), 507018);
    expect_message("aclrtSynchronizeStream", "threw");
    EXPECT_EQ(ran, 1);  // mode continue
    EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
    ASSERT_EQ(aclrtLaunchHostFunc(nullptr, throws, nullptr), 0);
    EXPECT_EQ(aclrtSynchronizeDevice(), 507018);
    EXPECT_EQ(aclrtSynchronizeDevice(), 0);
}

TEST_F(Streams, QueryShowsTheErrorAndKeepsIt) {
    aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
    ASSERT_EQ(aclrtLaunchHostFunc(stream, throws, nullptr), 0);
    while (aclrtStreamQuery(stream, &status) == 0 || status == ACL_STREAM_STATUS_NOT_READY) std::this_thread::yield();
    EXPECT_EQ(aclrtStreamQuery(stream, &status), 507018);
    EXPECT_EQ(aclrtSynchronizeStream(stream), 507018);
    EXPECT_EQ(aclrtStreamQuery(stream, &status), 0);
}

TEST_F(Streams, StopOnFailure) {
    EXPECT_EQ(aclrtSetStreamFailureMode(stream, 2), 107000);
    expect_message("aclrtSetStreamFailureMode", "mode: 2");
    ASSERT_EQ(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE), 0);
    std::atomic<int> ran = 0;
    aclrtEvent event = nullptr;
    ASSERT_EQ(aclrtCreateEvent(&event), 0);
    Gate gate;
    ASSERT_EQ(gate.hold(stream), 0);
    ASSERT_EQ(aclrtLaunchHostFunc(stream, throws, nullptr), 0);
    ASSERT_EQ(aclrtLaunchHostFunc(stream, count_up, &ran), 0);
    ASSERT_EQ(aclrtRecordEvent(event, stream), 0);
    gate.open();
    EXPECT_EQ(aclrtSynchronizeEvent(event), 0);                 // who waits for dropped work is let go
    ASSERT_EQ(aclrtLaunchHostFunc(stream, count_up, &ran), 0);  // after the failure: dropped as well
    EXPECT_EQ(aclrtSynchronizeStream(stream), 507018);
    EXPECT_EQ(ran, 0);
    ASSERT_EQ(aclrtLaunchHostFunc(stream, count_up, &ran), 0);
    EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
    EXPECT_EQ(ran, 1);
    EXPECT_EQ(aclrtDestroyEvent(event), 0);
}

TEST_F(Streams, DestroyWaitsForQueuedWork) {
    constexpr size_t kBytes = 16 << 20;
    auto* d = static_cast<char*>(device_memory(kBytes));
    for (int value = 1; value <= 20; ++value) ASSERT_EQ(aclrtMemsetAsync(d, kBytes, value, kBytes, stream), 0);
    EXPECT_EQ(aclrtDestroyStream(stream), 0);
    EXPECT_EQ(d[kBytes - 1], 20);
    EXPECT_EQ(aclrtDestroyStream(stream), 107017);
    stream = nullptr;
    EXPECT_EQ(aclrtFree(d), 0);
}

TEST_F(Streams, ForcedDestructionDropsTheQueue) {
    std::atomic<int> ran = 0;
    aclrtEvent never = nullptr, after = nullptr;
    ASSERT_EQ(aclrtCreateEventWithFlag(&never, ACL_EVENT_SYNC), 0);
    ASSERT_EQ(aclrtCreateEvent(&after), 0);
    ASSERT_EQ(aclrtStreamWaitEvent(stream, never), 0);
    ASSERT_EQ(aclrtLaunchHostFunc(stream, count_up, &ran), 0);
    ASSERT_EQ(aclrtRecordEvent(after, stream), 0);
    EXPECT_EQ(aclrtDestroyStreamForce(stream), 0);
    stream = nullptr;
    EXPECT_EQ(aclrtSynchronizeEvent(after), 0);
    EXPECT_EQ(ran, 0);
    EXPECT_EQ(aclrtDestroyEvent(never), 0);
    EXPECT_EQ(aclrtDestroyEvent(after), 0);
}

TEST_F(Streams, ForcedDestructionLeavesARunningCallback) {
    Gate gate;
    ASSERT_EQ(gate.hold(stream), 0);
    gate.wait_until_reached();
    EXPECT_EQ(aclrtDestroyStreamForce(stream), 0);
    stream = nullptr;
}

struct Inside {
    aclrtStream stream;
    aclrtContext context;
    char* device;
    std::string why;
    int synchronize = -1, destroy = -1, force = -1, query = -1, copy = -1, copy_async = -1, queue = -1,
        device_sync = -1, reset = -1, destroy_context = -1;
    std::atomic<int> ran = 0;

    static void run(void* argument) {
        auto& in = *static_cast<Inside*>(argument);
        char host = 6;
        aclrtStreamStatus status;
        aclrtSetCurrentContext(in.context);
        in.synchronize = aclrtSynchronizeStream(in.stream);
        in.why = take_message();
        in.destroy = aclrtDestroyStream(in.stream);
        in.force = aclrtDestroyStreamForce(in.stream);
        in.query = aclrtStreamQuery(in.stream, &status);
        in.copy = aclrtMemcpy(in.device, 1, &host, 1, ACL_MEMCPY_HOST_TO_DEVICE);
        in.copy_async = aclrtMemcpyAsync(in.device + 1, 1, &host, 1, ACL_MEMCPY_HOST_TO_DEVICE, in.stream);
        in.queue = aclrtLaunchHostFunc(in.stream, count_up, &in.ran);
        in.device_sync = aclrtSynchronizeDevice();
        in.reset = aclrtResetDeviceForce(0);
        in.destroy_context = aclrtDestroyContext(in.context);
    }
};

TEST_F(Streams, CallbacksMayCallTheRuntime) {
    Inside in;
    in.stream = stream;
    in.device = static_cast<char*>(device_memory(64));
    ASSERT_EQ(aclrtGetCurrentContext(&in.context), 0);
    ASSERT_EQ(aclrtLaunchHostFunc(stream, Inside::run, &in), 0);
    ASSERT_EQ(aclrtSynchronizeStream(stream), 0);
    ASSERT_EQ(aclrtSynchronizeStream(stream), 0);  // what the callback queued
    EXPECT_EQ(in.synchronize, 107000);
    EXPECT_NE(in.why.find("called from a callback"), std::string::npos) << in.why;
    EXPECT_EQ(in.destroy, 107000);
    EXPECT_EQ(in.force, 107000);
    EXPECT_EQ(in.query, 0);
    EXPECT_EQ(in.copy, 0);
    EXPECT_EQ(in.copy_async, 0);
    EXPECT_EQ(in.queue, 0);
    EXPECT_EQ(in.device_sync, 0);
    EXPECT_EQ(in.reset, 107000);
    EXPECT_EQ(in.destroy_context, 107000);
    EXPECT_EQ(in.ran, 1);
    EXPECT_EQ(in.device[0], 6);
    EXPECT_EQ(in.device[1], 6);
    EXPECT_EQ(aclrtFree(in.device), 0);
}

TEST_F(Streams, ThreadsHammerOneStream) {
    constexpr int kThreads = 3, kRounds = 2000;
    auto* d = static_cast<char*>(device_memory(1024));
    std::atomic<int> ran = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < kRounds; ++i) {
                ASSERT_EQ(aclrtMemsetAsync(d + 64 * t, 64, i, 64, stream), 0);
                if (i % 7 == 0) {
                    ASSERT_EQ(aclrtLaunchHostFunc(stream, count_up, &ran), 0);
                }
                if (i % 5 == 0) {
                    ASSERT_EQ(aclrtSynchronizeStream(stream), 0);
                    ASSERT_EQ(d[64 * t + 63], static_cast<char>(i));
                }
            }
        });
    for (auto& thread : threads) thread.join();
    ASSERT_EQ(aclrtSynchronizeStream(stream), 0);
    EXPECT_EQ(ran, kThreads * ((kRounds + 6) / 7));
    EXPECT_EQ(aclrtFree(d), 0);
}

TEST_F(Streams, FailureModeIsSetWhileWorkFails) {
    std::atomic<bool> ended = false;
    std::thread setter([&] {
        EXPECT_EQ(aclrtSetDevice(0), 0);
        for (uint64_t mode = 0; !ended; mode ^= 1) EXPECT_EQ(aclrtSetStreamFailureMode(stream, mode), 0);
    });
    for (int i = 0; i < 200; ++i) {
        EXPECT_EQ(aclrtLaunchHostFunc(stream, throws, nullptr), 0);
        EXPECT_EQ(aclrtSynchronizeStream(stream), 507018);
    }
    ended = true;
    setter.join();
}

// One thread's small task runs on that thread; what another queues meanwhile must still be begun afterwards.
TEST_F(Streams, QueuedBehindAnothersSmallTask) {
    constexpr size_t kBytes = 256 << 10;
    constexpr int kRounds = 500;
    auto* d = static_cast<char*>(device_memory(kBytes));
    std::atomic<int> ran = 0;
    std::atomic<int> round = -1;  // spun on: sleeping threads would not start together
    std::thread other([&] {
        for (int i = 0; i < kRounds; ++i) {
            while (round < i) {
            }
            EXPECT_EQ(aclrtMemsetAsync(d, kBytes, i, kBytes, stream), 0);
        }
    });
    for (int i = 0; i < kRounds; ++i) {
        round = i;
        const auto go = std::chrono::steady_clock::now() + std::chrono::microseconds(i % 20);
        while (std::chrono::steady_clock::now() < go) {
        }
        EXPECT_EQ(aclrtLaunchHostFunc(stream, count_up, &ran), 0);
        // with a timeout the waiting thread does not run the work itself; were it not begun, this would never end
        EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream, INT32_MAX), 0);
    }
    other.join();
    EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
    EXPECT_EQ(ran, kRounds);
    EXPECT_EQ(aclrtFree(d), 0);
}

TEST_F(Streams, ComeAndGoWhileOthersWork) {
    std::vector<std::thread> threads;
    std::atomic<int> waited_for = 0;
    static std::atomic<int> maybe_dropped = 0;  // outlives the test: a forced destruction leaves a callback running
    for (int t = 0; t < 3; ++t)
        threads.emplace_back([&] {
            ASSERT_EQ(aclrtSetDevice(0), 0);
            for (int i = 0; i < 100; ++i) {
                const bool force = i % 2 != 0;
                aclrtStream s = nullptr;
                char host = 0;
                ASSERT_EQ(aclrtCreateStream(&s), 0);
                void *p = device_memory(64), *d = device_memory(64);
                ASSERT_EQ(aclrtLaunchHostFunc(s, count_up, force ? &maybe_dropped : &waited_for), 0);
                ASSERT_EQ(aclrtMemsetAsync(p, 64, 1, 64, s), 0);
                ASSERT_EQ(aclrtMemcpy(&host, 1, d, 1, ACL_MEMCPY_DEVICE_TO_HOST), 0);
                ASSERT_EQ((force ? aclrtDestroyStreamForce : aclrtDestroyStream)(s), 0);
                ASSERT_EQ(aclrtFree(p), 0);
                ASSERT_EQ(aclrtFree(d), 0);
            }
            ASSERT_EQ(aclrtResetDevice(0), 0);
        });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(waited_for, 150);
}

// The launch queues and returns: the host goes on while the work runs.
TEST_F(Streams, LargeWorkRunsBesideTheHost) {
    constexpr size_t kBytes = 64 << 20;
    auto* d = static_cast<char*>(device_memory(kBytes));
    aclrtStreamStatus status = ACL_STREAM_STATUS_COMPLETE;
    for (int tries = 0; tries < 100 && status == ACL_STREAM_STATUS_COMPLETE; ++tries) {
        ASSERT_EQ(aclrtMemsetAsync(d, kBytes, tries, kBytes, stream), 0);
        ASSERT_EQ(aclrtStreamQuery(stream, &status), 0);
        ASSERT_EQ(aclrtSynchronizeStream(stream), 0);
    }
    EXPECT_EQ(status, ACL_STREAM_STATUS_NOT_READY);
    EXPECT_EQ(aclrtFree(d), 0);
}

}  // namespace
}  // namespace gradus::testing
