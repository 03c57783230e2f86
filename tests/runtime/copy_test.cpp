// Copies and fills: what they check, and what they wait for.
#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "testing/runtime.h"

namespace gradus::testing {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

class Copies : public Runtime {};

TEST_F(Copies, CopyChecks) {
    char* d = static_cast<char*>(device_memory(64));
    char host[64] = {};
    // count 0 wins over everything else
    EXPECT_EQ(aclrtMemcpy(nullptr, 0, nullptr, 0, static_cast<aclrtMemcpyKind>(7)), 0);
    EXPECT_EQ(aclrtMemcpy(nullptr, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE), 100000);
    expect_message("aclrtMemcpy", "dst: NULL");
    EXPECT_EQ(aclrtMemcpy(d, 64, nullptr, 64, ACL_MEMCPY_HOST_TO_DEVICE), 100000);
    expect_message("aclrtMemcpy", "src: NULL");
    for (aclrtMemcpyKind kind : {ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, ACL_MEMCPY_INTER_DEVICE_TO_DEVICE}) {
        EXPECT_EQ(aclrtMemcpy(d, 64, host, 64, kind), 100000);
        expect_message("aclrtMemcpy", "expected 0 to 5");
    }
    EXPECT_EQ(aclrtMemcpy(d, 63, host, 64, ACL_MEMCPY_HOST_TO_DEVICE), 107000);
    expect_message("aclrtMemcpy", "count: 64, expected at most destMax = 63");
    for (int kind = 0; kind <= 5; ++kind) {  // a wrong but valid kind succeeds
        host[0] = static_cast<char>(10 + kind);
        EXPECT_EQ(aclrtMemcpy(d, 64, host, 64, static_cast<aclrtMemcpyKind>(kind)), 0);
        EXPECT_EQ(d[0], host[0]);
        EXPECT_EQ(aclrtMemcpyAsync(host, 64, d, 64, static_cast<aclrtMemcpyKind>(kind), stream), 0);
    }
    EXPECT_EQ(aclrtMemcpyAsync(d, 63, host, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream), 107000);
    EXPECT_EQ(aclrtMemcpyAsync(nullptr, 63, host, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream), 100000);
    EXPECT_EQ(aclrtMemcpyAsync(d, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE, &stream), 107017);
    EXPECT_EQ(aclrtMemsetAsync(d, 63, 0, 64, stream), 107000);
    EXPECT_EQ(aclrtMemsetAsync(nullptr, 64, 0, 64, stream), 100000);
    EXPECT_EQ(aclrtMemset(nullptr, 64, 0, 64), 100000);
    EXPECT_EQ(aclrtMemset(d, 63, 0, 64), 107000);
    EXPECT_EQ(aclrtMemset(d, 64, 0, 0), 0);
    EXPECT_EQ(aclrtMemset(&host, 64, 9, 0), 0);  // nothing to do, whatever the address
    EXPECT_EQ(aclrtMemset(d, 1, 9, 1), 0);
    EXPECT_EQ(d[0], 9);
    EXPECT_EQ(aclrtFree(d), 0);
    EXPECT_EQ(aclrtMemcpy(d, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE), 107000);  // freed: an answer, not a fault
    expect_message("aclrtMemcpy", "dst: not the address of live memory");
    EXPECT_EQ(aclrtMemset(d, 64, 0, 64), 107000);
}

TEST_F(Copies, LargeAndOverlappingCopies) {
    constexpr size_t kCount = 3 * kMiB;
    auto* d = static_cast<uint32_t*>(device_memory(kCount * 4 + 64));
    std::vector<uint32_t> host(kCount);
    for (size_t i = 0; i < kCount; ++i) host[i] = static_cast<uint32_t>(i * 2654435761U);
    ASSERT_EQ(aclrtMemcpy(d, kCount * 4, host.data(), kCount * 4, ACL_MEMCPY_HOST_TO_DEVICE), 0);
    EXPECT_EQ(std::memcmp(d, host.data(), kCount * 4), 0);
    ASSERT_EQ(aclrtMemcpyAsync(d + 16, kCount * 4, d, kCount * 4, ACL_MEMCPY_DEVICE_TO_DEVICE, stream), 0);
    ASSERT_EQ(aclrtSynchronizeStream(stream), 0);
    EXPECT_EQ(std::memcmp(d + 16, host.data(), kCount * 4), 0);
    ASSERT_EQ(aclrtMemset(d, kCount * 4, 0x1A5, kCount * 4), 0);  // the low byte counts
    EXPECT_EQ(d[0], 0xA5A5A5A5U);
    EXPECT_EQ(d[kCount - 1], 0xA5A5A5A5U);
    EXPECT_EQ(d[kCount], host[kCount - 16]);
    EXPECT_EQ(aclrtFree(d), 0);
}

TEST_F(Copies, Copy2d) {
    auto* d = static_cast<char*>(device_memory(64));
    const char rows[] = "abc.def.ghi.";
    EXPECT_EQ(aclrtMemcpy2d(d, 5, rows, 4, 3, 3, ACL_MEMCPY_HOST_TO_DEVICE), 0);
    EXPECT_EQ(std::memcmp(d, "abc\0\0def\0\0ghi\0\0", 15), 0);
    char back[13] = "............";
    EXPECT_EQ(aclrtMemcpy2dAsync(back, 4, d, 5, 3, 3, ACL_MEMCPY_DEVICE_TO_HOST, stream), 0);  // pageable: done
    EXPECT_STREQ(back, rows);
    EXPECT_EQ(aclrtMemcpy2d(d, 2, rows, 4, 3, 3, ACL_MEMCPY_HOST_TO_DEVICE), 107000);
    expect_message("aclrtMemcpy2d", "width: 3, expected at most dpitch = 2");
    EXPECT_EQ(aclrtMemcpy2d(d, 4, rows, 2, 3, 3, ACL_MEMCPY_HOST_TO_DEVICE), 107000);
    EXPECT_EQ(aclrtMemcpy2d(d, SIZE_MAX / 2, rows, 4, 3, 3, ACL_MEMCPY_HOST_TO_DEVICE), 107000);
    EXPECT_EQ(aclrtMemcpy2d(nullptr, 4, rows, 4, 3, 3, ACL_MEMCPY_HOST_TO_DEVICE), 100000);
    EXPECT_EQ(aclrtMemcpy2d(d, 4, rows, 4, 3, 3, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE), 100000);
    EXPECT_EQ(aclrtMemcpy2d(d, 4, rows, 4, 0, 3, ACL_MEMCPY_HOST_TO_DEVICE), 0);
    EXPECT_EQ(aclrtMemcpy2d(d, 4, rows, 4, 3, 0, ACL_MEMCPY_HOST_TO_DEVICE), 0);
    // the last row ends with its width, not with its pitch
    std::vector<char> host(4096, 5);
    EXPECT_EQ(aclrtMemcpy2d(d, 4095, host.data(), 1, 1, 2, ACL_MEMCPY_HOST_TO_DEVICE), 0);
    EXPECT_EQ(d[4095], 5);
    EXPECT_EQ(aclrtMemcpy2d(d, 4096, host.data(), 1, 1, 2, ACL_MEMCPY_HOST_TO_DEVICE), 107000);
    EXPECT_EQ(aclrtFree(d), 0);
}

void write_42(void* argument) { *static_cast<char*>(argument) = 42; }

TEST_F(Copies, PageableAsyncCopyIsDoneWhenItReturns) {
    auto* d = static_cast<char*>(device_memory(64));
    char host[64] = {};
    Gate gate;
    ASSERT_EQ(gate.hold(stream), 0);
    ASSERT_EQ(aclrtLaunchHostFunc(stream, write_42, d), 0);
    WaitingThread copy([&] {
        EXPECT_EQ(aclrtMemcpyAsync(host, 64, d, 64, ACL_MEMCPY_DEVICE_TO_HOST, stream), 0);
        EXPECT_EQ(host[0], 42);
    });
    gate.open();
    copy.join();
    EXPECT_EQ(aclrtFree(d), 0);
}

TEST_F(Copies, PinnedAsyncCopyIsQueued) {
    auto* d = static_cast<char*>(device_memory(64));
    void* pinned = nullptr;
    ASSERT_EQ(aclrtMallocHost(&pinned, 64), 0);
    static_cast<char*>(pinned)[0] = 5;
    Gate gate;
    ASSERT_EQ(gate.hold(stream), 0);
    ASSERT_EQ(aclrtMemcpyAsync(d, 64, pinned, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream), 0);
    EXPECT_EQ(d[0], 0);
    gate.open();
    ASSERT_EQ(aclrtSynchronizeStream(stream), 0);
    EXPECT_EQ(d[0], 5);
    EXPECT_EQ(aclrtFreeHost(pinned), 0);
    EXPECT_EQ(aclrtFree(d), 0);
}

// Many copies in a queue, no synchronisation, and yet the synchronous copy reads what they made.
TEST_F(Copies, SynchronousCopyWaitsForQueuedWork) {
    constexpr size_t kBytes = 8 * kMiB;
    auto* a = static_cast<char*>(device_memory(kBytes));
    auto* b = static_cast<char*>(device_memory(kBytes));
    for (char value = 1; value <= 10; ++value) {
        ASSERT_EQ(aclrtMemsetAsync(a, kBytes, value, kBytes, stream), 0);
        ASSERT_EQ(aclrtMemcpyAsync(b, kBytes, a, kBytes, ACL_MEMCPY_DEVICE_TO_DEVICE, stream), 0);
        char last = 0;
        ASSERT_EQ(aclrtMemcpy(&last, 1, b + kBytes - 1, 1, ACL_MEMCPY_DEVICE_TO_HOST), 0);
        EXPECT_EQ(last, value);
    }
    EXPECT_EQ(aclrtFree(a), 0);
    EXPECT_EQ(aclrtFree(b), 0);
}

// Whether the host function has begun or not: the copy reads what is behind it.
TEST_F(Copies, SynchronousCopyWaitsForHostFunctions) {
    auto* d = static_cast<char*>(device_memory(64));
    for (const bool begun : {false, true}) {
        Gate first, gate;
        ASSERT_EQ(aclrtMemset(d, 64, 0, 64), 0);
        ASSERT_EQ(first.hold(stream), 0);  // keeps the other from beginning
        ASSERT_EQ(gate.hold(stream), 0);
        ASSERT_EQ(aclrtMemsetAsync(d, 64, 7, 64, stream), 0);
        if (begun) {
            first.open();
            gate.wait_until_reached();
        }
        char host = 0;
        WaitingThread copy([&] {
            EXPECT_EQ(aclrtSetDevice(0), 0);
            EXPECT_EQ(aclrtMemcpy(&host, 1, d, 1, ACL_MEMCPY_DEVICE_TO_HOST), 0);
            EXPECT_EQ(aclrtResetDevice(0), 0);
        });
        EXPECT_EQ(host, 0) << "begun: " << begun;
        first.open();
        gate.open();
        copy.join();
        EXPECT_EQ(host, 7) << "begun: " << begun;
    }
    EXPECT_EQ(aclrtFree(d), 0);
}

// Two host functions that copy must not wait for each other.
TEST_F(Copies, HostFunctionsThatCopyDoNotWaitForEachOther) {
    struct Copying {
        aclrtContext context;
        char* device;
        std::atomic<int>* there;
        int code = -1;
        static void run(void* argument) {
            auto& copying = *static_cast<Copying*>(argument);
            ++*copying.there;
            while (*copying.there < 2) std::this_thread::yield();
            char host = 3;
            copying.code = aclrtSetCurrentContext(copying.context);
            if (copying.code == 0) copying.code = aclrtMemcpy(copying.device, 1, &host, 1, ACL_MEMCPY_HOST_TO_DEVICE);
        }
    };
    aclrtStream other = nullptr;
    ASSERT_EQ(aclrtCreateStream(&other), 0);
    aclrtContext context = nullptr;
    ASSERT_EQ(aclrtGetCurrentContext(&context), 0);
    auto* d = static_cast<char*>(device_memory(64));
    std::atomic<int> there = 0;
    Copying a{context, d, &there}, b{context, d + 1, &there};
    ASSERT_EQ(aclrtLaunchHostFunc(stream, Copying::run, &a), 0);
    ASSERT_EQ(aclrtLaunchHostFunc(other, Copying::run, &b), 0);
    EXPECT_EQ(aclrtSynchronizeDevice(), 0);
    EXPECT_EQ(a.code, 0);
    EXPECT_EQ(b.code, 0);
    EXPECT_EQ(d[0] + d[1], 6);
    EXPECT_EQ(aclrtDestroyStream(other), 0);
    EXPECT_EQ(aclrtFree(d), 0);
}

// What needs the program to go on is not waited for, on whatever stream it is, nor what is behind it; what will be
// recorded is, even by a stream of another device.
TEST_F(Copies, SynchronousCopyDoesNotWaitForTheProgram) {
    auto* d = static_cast<char*>(device_memory(64));
    char host = 1;
    aclrtEvent awaited = nullptr, behind = nullptr, circle = nullptr;
    aclrtStream other = nullptr;
    ASSERT_EQ(aclrtCreateStream(&other), 0);
    ASSERT_EQ(aclrtCreateEventWithFlag(&awaited, ACL_EVENT_SYNC), 0);
    ASSERT_EQ(aclrtCreateEvent(&behind), 0);
    ASSERT_EQ(aclrtCreateEventWithFlag(&circle, ACL_EVENT_SYNC), 0);
    ASSERT_EQ(aclrtStreamWaitEvent(stream, awaited), 0);
    ASSERT_EQ(aclrtRecordEvent(behind, stream), 0);
    ASSERT_EQ(aclrtStreamWaitEvent(other, behind), 0);
    EXPECT_EQ(aclrtMemcpy(d, 1, &host, 1, ACL_MEMCPY_HOST_TO_DEVICE), 0);
    EXPECT_EQ(d[0], 1);
    ASSERT_EQ(aclrtRecordEvent(awaited, nullptr), 0);
    EXPECT_EQ(aclrtSynchronizeDevice(), 0);
    // a circle of waits: nothing that is queued will end it
    ASSERT_EQ(aclrtStreamWaitEvent(stream, circle), 0);
    ASSERT_EQ(aclrtRecordEvent(behind, stream), 0);
    ASSERT_EQ(aclrtStreamWaitEvent(other, behind), 0);
    ASSERT_EQ(aclrtRecordEvent(circle, other), 0);
    EXPECT_EQ(aclrtMemcpy(d + 1, 1, &host, 1, ACL_MEMCPY_HOST_TO_DEVICE), 0);
    EXPECT_EQ(d[1], 1);
    EXPECT_EQ(aclrtDestroyStreamForce(other), 0);
    EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
    for (aclrtEvent event : {awaited, behind, circle}) EXPECT_EQ(aclrtDestroyEvent(event), 0);
    EXPECT_EQ(aclrtFree(d), 0);
}

// The memory's own device counts, not only the current one.
TEST_F(Copies, SynchronousCopyWaitsForTheDeviceOfTheMemory) {
    aclrtContext here = nullptr;
    ASSERT_EQ(aclrtGetCurrentContext(&here), 0);
    ASSERT_EQ(aclrtSetDevice(1), 0);
    aclrtStream far = nullptr;
    ASSERT_EQ(aclrtCreateStream(&far), 0);
    auto* d = static_cast<char*>(device_memory(64));
    Gate gate;
    ASSERT_EQ(gate.hold(far), 0);
    ASSERT_EQ(aclrtMemsetAsync(d, 64, 7, 64, far), 0);
    ASSERT_EQ(aclrtSetCurrentContext(here), 0);
    char from = 0, to = 1;
    WaitingThread read([&] {
        EXPECT_EQ(aclrtSetCurrentContext(here), 0);
        EXPECT_EQ(aclrtMemcpy(&from, 1, d, 1, ACL_MEMCPY_DEVICE_TO_HOST), 0);
    });
    WaitingThread write([&] {
        EXPECT_EQ(aclrtSetCurrentContext(here), 0);
        EXPECT_EQ(aclrtMemcpy(d + 1, 1, &to, 1, ACL_MEMCPY_HOST_TO_DEVICE), 0);
    });
    EXPECT_EQ(from, 0);
    gate.open();
    read.join();
    write.join();
    EXPECT_EQ(from, 7);
    EXPECT_EQ(d[1], 1);
    EXPECT_EQ(aclrtResetDevice(1), 0);
    EXPECT_EQ(aclrtFree(d), 0);
}

TEST_F(Copies, SynchronousCopyWaitsForWhatAnotherDeviceWillRecord) {
    auto* d = static_cast<char*>(device_memory(64));
    aclrtContext here = nullptr;
    ASSERT_EQ(aclrtGetCurrentContext(&here), 0);
    ASSERT_EQ(aclrtSetDevice(1), 0);
    aclrtStream far = nullptr;
    aclrtEvent event = nullptr;
    ASSERT_EQ(aclrtCreateStream(&far), 0);
    ASSERT_EQ(aclrtCreateEvent(&event), 0);
    Gate gate;
    ASSERT_EQ(gate.hold(far), 0);
    ASSERT_EQ(aclrtRecordEvent(event, far), 0);
    ASSERT_EQ(aclrtSetCurrentContext(here), 0);
    ASSERT_EQ(aclrtStreamWaitEvent(stream, event), 0);
    ASSERT_EQ(aclrtMemsetAsync(d, 64, 7, 64, stream), 0);
    char host = 0;
    WaitingThread copy([&] {
        EXPECT_EQ(aclrtSetCurrentContext(here), 0);
        EXPECT_EQ(aclrtMemcpy(&host, 1, d, 1, ACL_MEMCPY_DEVICE_TO_HOST), 0);
    });
    EXPECT_EQ(host, 0);
    gate.open();
    copy.join();
    EXPECT_EQ(host, 7);
    EXPECT_EQ(aclrtResetDevice(1), 0);
    EXPECT_EQ(aclrtDestroyEvent(event), 0);
    EXPECT_EQ(aclrtFree(d), 0);
}

TEST(SyncCopies, CanBeSwitchedOff) {
    EXPECT_EQ(run_helper("copies_wait"), 0);
    EXPECT_EQ(run_helper("copies_do_not_wait", "GRADUS_SYNC_COPIES=0"), 0);
}

}  // namespace
}  // namespace gradus::testing
