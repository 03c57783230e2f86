#include <atomic>
#include <chrono>
#include <thread>

#include "testing/runtime.h"

namespace gradus::testing {
namespace {

class Events : public Runtime {
  protected:
    void SetUp() override {
        Runtime::SetUp();
        ASSERT_EQ(aclrtCreateStream(&other), 0);
        ASSERT_EQ(aclrtCreateEvent(&plain), 0);
        ASSERT_EQ(aclrtCreateEventWithFlag(&flagged, ACL_EVENT_SYNC), 0);
        ASSERT_EQ(aclrtCreateEventExWithFlag(&extended, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE), 0);
    }
    void TearDown() override {
        for (aclrtEvent event : {plain, flagged, extended})
            EXPECT_EQ(aclrtDestroyEvent(event), event != nullptr ? 0 : 100000);
        EXPECT_EQ(aclrtDestroyStream(other), 0);
        Runtime::TearDown();
    }

    aclrtStream other = nullptr;
    aclrtEvent plain = nullptr, flagged = nullptr, extended = nullptr;
};

TEST_F(Events, CreateRefuses) {
    EXPECT_EQ(aclrtCreateEvent(nullptr), 100000);
    EXPECT_EQ(aclrtCreateEventWithFlag(nullptr, ACL_EVENT_SYNC), 100000);
    EXPECT_EQ(aclrtCreateEventExWithFlag(nullptr, ACL_EVENT_SYNC), 100000);
    aclrtEvent event = nullptr;
    EXPECT_EQ(aclrtCreateEventWithFlag(&event, 0x4000), 107000);
    expect_message("aclrtCreateEventWithFlag", "flag: 16384");
    std::thread([&] { EXPECT_EQ(aclrtCreateEvent(&event), 107002); }).join();
    EXPECT_EQ(event, nullptr);
}

TEST_F(Events, StaleHandles) {
    aclrtEvent dead = nullptr;
    ASSERT_EQ(aclrtCreateEvent(&dead), 0);
    ASSERT_EQ(aclrtDestroyEvent(dead), 0);
    float ms = 0;
    uint64_t us = 0;
    aclrtEventStatus old_status;
    aclrtEventRecordedStatus status;
    for (void* wrong : {dead, static_cast<void*>(&plain), stream}) {
        EXPECT_EQ(aclrtDestroyEvent(wrong), 107017);
        expect_message("aclrtDestroyEvent", "event: not a live event");
        EXPECT_EQ(aclrtRecordEvent(wrong, stream), 107017);
        EXPECT_EQ(aclrtResetEvent(wrong, stream), 107017);
        EXPECT_EQ(aclrtStreamWaitEvent(stream, wrong), 107017);
        EXPECT_EQ(aclrtSynchronizeEvent(wrong), 107017);
        EXPECT_EQ(aclrtSynchronizeEventWithTimeout(wrong, 10), 107017);
        EXPECT_EQ(aclrtQueryEventStatus(wrong, &status), 107017);
        EXPECT_EQ(aclrtQueryEvent(wrong, &old_status), 107017);
        EXPECT_EQ(aclrtEventElapsedTime(&ms, wrong, plain), 107017);
        EXPECT_EQ(aclrtEventGetTimestamp(wrong, &us), 107017);
    }
    EXPECT_EQ(aclrtDestroyEvent(nullptr), 100000);
    EXPECT_EQ(aclrtRecordEvent(nullptr, stream), 100000);
    EXPECT_EQ(aclrtStreamWaitEvent(stream, nullptr), 100000);
    EXPECT_EQ(aclrtSynchronizeEvent(nullptr), 100000);
    EXPECT_EQ(aclrtSynchronizeEventWithTimeout(nullptr, 10), 100000);
    EXPECT_EQ(aclrtResetEvent(nullptr, stream), 100000);
    EXPECT_EQ(aclrtQueryEventStatus(nullptr, &status), 100000);
    EXPECT_EQ(aclrtQueryEvent(nullptr, &old_status), 100000);
    EXPECT_EQ(aclrtEventElapsedTime(&ms, nullptr, plain), 100000);
    EXPECT_EQ(aclrtEventElapsedTime(&ms, plain, nullptr), 100000);
    EXPECT_EQ(aclrtEventGetTimestamp(nullptr, &us), 100000);
    EXPECT_EQ(aclrtQueryEventStatus(plain, nullptr), 100000);
    EXPECT_EQ(aclrtQueryEvent(plain, nullptr), 100000);
    EXPECT_EQ(aclrtEventElapsedTime(nullptr, plain, plain), 100000);
    EXPECT_EQ(aclrtEventGetTimestamp(plain, nullptr), 100000);
}

TEST_F(Events, NeverRecorded) {
    EXPECT_EQ(aclrtStreamWaitEvent(stream, plain), 107000);
    expect_message("aclrtStreamWaitEvent", "never recorded");
    EXPECT_EQ(aclrtStreamWaitEvent(stream, extended), 0);
    EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
    EXPECT_EQ(aclrtSynchronizeEvent(plain), 107000);
    EXPECT_EQ(aclrtSynchronizeEvent(flagged), 107000);
    EXPECT_EQ(aclrtSynchronizeEvent(extended), 0);
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_COMPLETE;
    EXPECT_EQ(aclrtQueryEventStatus(plain, &status), 0);
    EXPECT_EQ(status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
    float ms = 0;
    uint64_t us = 0;
    ASSERT_EQ(aclrtRecordEvent(plain, stream), 0);
    ASSERT_EQ(aclrtSynchronizeEvent(plain), 0);
    EXPECT_EQ(aclrtEventElapsedTime(&ms, plain, extended), 507000);
    EXPECT_EQ(aclrtEventElapsedTime(&ms, extended, plain), 507000);
    EXPECT_EQ(aclrtEventGetTimestamp(extended, &us), 507000);
}

TEST_F(Events, SyncKindBlocksUntilTheRecordArrives) {
    std::atomic<int> ran = 0;
    ASSERT_EQ(aclrtStreamWaitEvent(stream, flagged), 0);
    ASSERT_EQ(aclrtLaunchHostFunc(stream, count_up, &ran), 0);
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream, 30), 507046);
    EXPECT_EQ(ran, 0);
    ASSERT_EQ(aclrtRecordEvent(flagged, other), 0);
    EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
    EXPECT_EQ(ran, 1);
    // forgotten, it blocks again
    ASSERT_EQ(aclrtResetEvent(flagged, stream), 0);
    ASSERT_EQ(aclrtStreamWaitEvent(stream, flagged), 0);
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream, 30), 507046);
    ASSERT_EQ(aclrtRecordEvent(flagged, other), 0);
    EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
}

TEST_F(Events, OrderTwoStreams) {
    constexpr size_t kBytes = 8 << 20;
    auto* a = static_cast<char*>(device_memory(kBytes));
    auto* b = static_cast<char*>(device_memory(kBytes));
    for (char value = 1; value <= 10; ++value)
        for (aclrtEvent event : {plain, flagged, extended}) {
            ASSERT_EQ(aclrtMemsetAsync(a, kBytes, value, kBytes, stream), 0);
            ASSERT_EQ(aclrtRecordEvent(event, stream), 0);
            ASSERT_EQ(aclrtStreamWaitEvent(other, event), 0);
            ASSERT_EQ(aclrtMemcpyAsync(b, kBytes, a, kBytes, ACL_MEMCPY_DEVICE_TO_DEVICE, other), 0);
            ASSERT_EQ(aclrtSynchronizeStream(other), 0);
            ASSERT_EQ(b[kBytes - 1], value);
        }
    // and the synchronous copy follows the chain over both streams
    ASSERT_EQ(aclrtMemsetAsync(a, kBytes, 99, kBytes, stream), 0);
    ASSERT_EQ(aclrtRecordEvent(plain, stream), 0);
    ASSERT_EQ(aclrtStreamWaitEvent(other, plain), 0);
    ASSERT_EQ(aclrtMemcpyAsync(b, kBytes, a, kBytes, ACL_MEMCPY_DEVICE_TO_DEVICE, other), 0);
    char last = 0;
    ASSERT_EQ(aclrtMemcpy(&last, 1, b + kBytes - 1, 1, ACL_MEMCPY_DEVICE_TO_HOST), 0);
    EXPECT_EQ(last, 99);
    EXPECT_EQ(aclrtFree(a), 0);
    EXPECT_EQ(aclrtFree(b), 0);
}

TEST_F(Events, QueryTimeAndTimeouts) {
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_COMPLETE;
    aclrtEventStatus old_status = ACL_EVENT_STATUS_COMPLETE;
    float ms = -1;
    uint64_t us = 0, later = 0;
    const auto before = std::chrono::steady_clock::now();
    ASSERT_EQ(aclrtRecordEvent(plain, stream), 0);
    ASSERT_EQ(aclrtSynchronizeEvent(plain), 0);
    {
        Gate gate;
        ASSERT_EQ(gate.hold(stream), 0);
        ASSERT_EQ(aclrtRecordEvent(extended, stream), 0);
        EXPECT_EQ(aclrtQueryEventStatus(extended, &status), 0);
        EXPECT_EQ(status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
        EXPECT_EQ(aclrtQueryEvent(extended, &old_status), 0);
        EXPECT_EQ(old_status, ACL_EVENT_STATUS_NOT_READY);
        EXPECT_EQ(aclrtEventElapsedTime(&ms, plain, extended), 107006);
        EXPECT_EQ(aclrtEventGetTimestamp(extended, &us), 107006);
        EXPECT_EQ(aclrtSynchronizeEventWithTimeout(extended, 20), 507047);
        expect_message("aclrtSynchronizeEventWithTimeout", "20 ms");
        EXPECT_EQ(aclrtSynchronizeEventWithTimeout(extended, 0), 107000);
        EXPECT_EQ(aclrtSynchronizeEventWithTimeout(extended, -2), 107000);
    }
    EXPECT_EQ(aclrtSynchronizeEvent(extended), 0);
    EXPECT_EQ(aclrtSynchronizeEventWithTimeout(extended, -1), 0);
    EXPECT_EQ(aclrtQueryEventStatus(extended, &status), 0);
    EXPECT_EQ(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
    EXPECT_EQ(aclrtQueryEvent(extended, &old_status), 0);
    EXPECT_EQ(old_status, ACL_EVENT_STATUS_COMPLETE);
    EXPECT_EQ(aclrtEventElapsedTime(&ms, plain, extended), 0);
    EXPECT_GE(ms, 20);  // the timeout that expired between them
    const std::chrono::duration<float, std::milli> around = std::chrono::steady_clock::now() - before;
    EXPECT_LE(ms, around.count());
    EXPECT_EQ(aclrtEventGetTimestamp(plain, &us), 0);
    EXPECT_EQ(aclrtEventGetTimestamp(extended, &later), 0);
    EXPECT_NEAR(static_cast<double>(later - us) / 1000, ms, 1);
}

// Who sees that a stream's last record is reached, or its last wait ended, finds the stream idle.
TEST_F(Events, WhatIsReachedIsOver) {
    std::atomic<int> ran = 0;
    for (int round = 0; round < 3000; ++round) {
        ASSERT_EQ(aclrtLaunchHostFunc(stream, count_up, &ran), 0);  // so that the streams' own threads run what follows
        ASSERT_EQ(aclrtRecordEvent(plain, stream), 0);
        ASSERT_EQ(aclrtStreamWaitEvent(other, plain), 0);
        aclrtEventRecordedStatus reached = ACL_EVENT_RECORDED_STATUS_NOT_READY;
        while (reached != ACL_EVENT_RECORDED_STATUS_COMPLETE) ASSERT_EQ(aclrtQueryEventStatus(plain, &reached), 0);
        aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
        ASSERT_EQ(aclrtStreamQuery(stream, &status), 0);
        ASSERT_EQ(status, ACL_STREAM_STATUS_COMPLETE) << round;
        aclrtEventWaitStatus waited = ACL_EVENT_WAIT_STATUS_NOT_READY;
        while (waited != ACL_EVENT_WAIT_STATUS_COMPLETE) ASSERT_EQ(aclrtQueryEventWaitStatus(plain, &waited), 0);
        ASSERT_EQ(aclrtStreamQuery(other, &status), 0);
        ASSERT_EQ(status, ACL_STREAM_STATUS_COMPLETE) << round;
    }
}

TEST_F(Events, DestroyedWhileWorkWaits) {
    std::atomic<int> ran = 0;
    ASSERT_EQ(aclrtStreamWaitEvent(stream, flagged), 0);
    ASSERT_EQ(aclrtLaunchHostFunc(stream, count_up, &ran), 0);
    ASSERT_EQ(aclrtDestroyEvent(flagged), 0);  // nobody can record it any more
    flagged = nullptr;
    EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
    EXPECT_EQ(ran, 1);
    // a record that is queued still arrives, and is waited for
    Gate gate;
    ASSERT_EQ(gate.hold(stream), 0);
    ASSERT_EQ(aclrtRecordEvent(plain, stream), 0);
    ASSERT_EQ(aclrtStreamWaitEvent(other, plain), 0);
    ASSERT_EQ(aclrtDestroyEvent(plain), 0);
    plain = nullptr;
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(other, 20), 507046);
    gate.open();
    EXPECT_EQ(aclrtSynchronizeStream(other), 0);
}

// A wait belongs to the record that was the newest when it was asked for, whatever is recorded later.
TEST_F(Events, WaitBelongsToOneRecord) {
    aclrtStream waiting = nullptr;
    ASSERT_EQ(aclrtCreateStream(&waiting), 0);
    for (aclrtEvent event : {plain, flagged, extended}) {
        std::atomic<int> ran = 0;
        Gate gate;
        ASSERT_EQ(gate.hold(stream), 0);
        ASSERT_EQ(aclrtRecordEvent(event, stream), 0);
        ASSERT_EQ(aclrtStreamWaitEvent(waiting, event), 0);
        ASSERT_EQ(aclrtLaunchHostFunc(waiting, count_up, &ran), 0);
        ASSERT_EQ(aclrtRecordEvent(event, other), 0);  // reached at once
        EXPECT_EQ(aclrtSynchronizeEvent(event), 0);
        EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(waiting, 20), 507046);
        EXPECT_EQ(ran, 0);
        gate.open();
        EXPECT_EQ(aclrtSynchronizeStream(waiting), 0);
        EXPECT_EQ(ran, 1);
    }
    // and the host's wait too
    Gate gate;
    ASSERT_EQ(gate.hold(stream), 0);
    ASSERT_EQ(aclrtRecordEvent(plain, stream), 0);
    std::atomic<bool> back = false;
    WaitingThread host([&] {
        EXPECT_EQ(aclrtSynchronizeEvent(plain), 0);
        back = true;
    });
    ASSERT_EQ(aclrtRecordEvent(plain, other), 0);
    EXPECT_EQ(aclrtSynchronizeEvent(plain), 0);
    EXPECT_FALSE(back);
    gate.open();
    host.join();
    EXPECT_EQ(aclrtDestroyStream(waiting), 0);
}

// Two waits before the first record both wait for it, and only for it.
TEST_F(Events, FlaggedWaitsShareTheNextRecord) {
    std::atomic<int> ran = 0;
    aclrtStream waiting = nullptr;
    ASSERT_EQ(aclrtCreateStream(&waiting), 0);
    for (aclrtStream s : {other, waiting}) {
        ASSERT_EQ(aclrtStreamWaitEvent(s, flagged), 0);
        ASSERT_EQ(aclrtLaunchHostFunc(s, count_up, &ran), 0);
    }
    Gate gate;
    ASSERT_EQ(gate.hold(stream), 0);
    ASSERT_EQ(aclrtRecordEvent(flagged, stream), 0);
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(other, 20), 507046);
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(waiting, 20), 507046);
    EXPECT_EQ(ran, 0);
    gate.open();
    EXPECT_EQ(aclrtSynchronizeStream(other), 0);
    EXPECT_EQ(aclrtSynchronizeStream(waiting), 0);
    EXPECT_EQ(ran, 2);
    EXPECT_EQ(aclrtDestroyStream(waiting), 0);
}

TEST_F(Events, ResetActsInTheOrderOfItsStream) {
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    uint64_t us = 0;
    ASSERT_EQ(aclrtRecordEvent(plain, other), 0);
    Gate gate;
    ASSERT_EQ(gate.hold(stream), 0);
    ASSERT_EQ(aclrtResetEvent(plain, stream), 0);
    EXPECT_EQ(aclrtQueryEventStatus(plain, &status), 0);
    EXPECT_EQ(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
    EXPECT_EQ(aclrtStreamWaitEvent(other, plain), 0);
    gate.open();
    ASSERT_EQ(aclrtSynchronizeStream(stream), 0);
    EXPECT_EQ(aclrtQueryEventStatus(plain, &status), 0);
    EXPECT_EQ(status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
    EXPECT_EQ(aclrtStreamWaitEvent(other, plain), 107000);
    EXPECT_EQ(aclrtEventGetTimestamp(plain, &us), 507000);
    // a record behind the reset counts
    Gate again;
    ASSERT_EQ(aclrtRecordEvent(plain, other), 0);
    ASSERT_EQ(again.hold(stream), 0);
    ASSERT_EQ(aclrtResetEvent(plain, stream), 0);
    ASSERT_EQ(aclrtRecordEvent(plain, stream), 0);
    again.open();
    ASSERT_EQ(aclrtSynchronizeStream(stream), 0);
    EXPECT_EQ(aclrtQueryEventStatus(plain, &status), 0);
    EXPECT_EQ(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
}

TEST_F(Events, TimeIsThatOfTheNewestRecord) {
    uint64_t first = 0, second = 0;
    float ms = -1;
    ASSERT_EQ(aclrtRecordEvent(plain, stream), 0);
    ASSERT_EQ(aclrtEventGetTimestamp(plain, &first), 0);
    ASSERT_EQ(aclrtRecordEvent(extended, stream), 0);
    {
        Gate gate;
        ASSERT_EQ(gate.hold(stream), 0);
        ASSERT_EQ(aclrtRecordEvent(plain, stream), 0);
        EXPECT_EQ(aclrtEventGetTimestamp(plain, &second), 107006);  // not the first one's
        EXPECT_EQ(aclrtEventElapsedTime(&ms, extended, plain), 107006);
        const auto later = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
        while (std::chrono::steady_clock::now() < later) {
        }
    }
    ASSERT_EQ(aclrtSynchronizeEvent(plain), 0);
    ASSERT_EQ(aclrtEventGetTimestamp(plain, &second), 0);
    EXPECT_GE(second, first + 2000);
    ASSERT_EQ(aclrtEventElapsedTime(&ms, extended, plain), 0);
    EXPECT_GE(ms, 2);
}

// Work that is dropped with its stream lets go who waits for its record.
TEST_F(Events, RecordOnAStreamThatIsDestroyed) {
    Gate gate;
    ASSERT_EQ(gate.hold(stream), 0);
    gate.wait_until_reached();
    ASSERT_EQ(aclrtRecordEvent(plain, stream), 0);
    ASSERT_EQ(aclrtStreamWaitEvent(other, plain), 0);
    EXPECT_EQ(aclrtDestroyStreamForce(stream), 0);
    stream = nullptr;
    EXPECT_EQ(aclrtSynchronizeStream(other), 0);
    EXPECT_EQ(aclrtSynchronizeEvent(plain), 0);
}

TEST_F(Events, ThreadsRecordAndWait) {
    std::thread recorder([&] {
        for (int i = 0; i < 2000; ++i) ASSERT_EQ(aclrtRecordEvent(extended, stream), 0);
    });
    for (int i = 0; i < 2000; ++i) {
        ASSERT_EQ(aclrtStreamWaitEvent(other, extended), 0);
        ASSERT_EQ(aclrtSynchronizeEvent(extended), 0);
    }
    recorder.join();
    EXPECT_EQ(aclrtSynchronizeStream(other), 0);
}

}  // namespace
}  // namespace gradus::testing
