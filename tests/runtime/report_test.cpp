// Callbacks that a subscribed thread of the program runs.
#include <pthread.h>

#include <atomic>
#include <thread>
#include <vector>

#include "testing/runtime.h"

namespace gradus::testing {
namespace {

void throws(void*) { throw 1; }

class Reports : public Runtime {};

TEST_F(Reports, WithoutSubscription) {
    std::atomic<int> ran = 0;
    EXPECT_EQ(aclrtLaunchCallback(count_up, &ran, ACL_CALLBACK_BLOCK, stream), 107015);
    expect_message("aclrtLaunchCallback", "aclrtSubscribeReport");
    EXPECT_EQ(aclrtProcessReport(10), 107012);
    EXPECT_EQ(aclrtUnSubscribeReport(pthread_self(), stream), 107012);
    EXPECT_EQ(aclrtSubscribeReport(pthread_self(), &stream), 107017);
    EXPECT_EQ(aclrtLaunchCallback(count_up, &ran, ACL_CALLBACK_BLOCK, &stream), 107017);
    EXPECT_EQ(aclrtUnSubscribeReport(pthread_self(), &stream), 107017);
    EXPECT_EQ(aclrtProcessReport(0), 107000);
    EXPECT_EQ(aclrtProcessReport(-2), 107000);
}

TEST_F(Reports, RunOnTheSubscribedThread) {
    struct Seen {
        std::thread::id thread;
        std::atomic<int> count = 0;
        static void note(void* argument) {
            auto& seen = *static_cast<Seen*>(argument);
            seen.thread = std::this_thread::get_id();
            ++seen.count;
        }
    } seen;
    std::atomic<bool> subscribed = false;
    int end = 0;
    std::thread server([&] {
        subscribed.wait(false);
        do end = aclrtProcessReport(-1);
        while (end == 0);
    });
    const auto id = static_cast<uint64_t>(server.native_handle());
    EXPECT_EQ(aclrtSubscribeReport(id, stream), 0);
    subscribed = true;
    subscribed.notify_one();
    EXPECT_EQ(aclrtSubscribeReport(id, stream), 107000);
    EXPECT_EQ(aclrtLaunchCallback(nullptr, &seen, ACL_CALLBACK_BLOCK, stream), 100000);
    for (int i = 0; i < 50; ++i) ASSERT_EQ(aclrtLaunchCallback(Seen::note, &seen, ACL_CALLBACK_BLOCK, stream), 0);
    EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
    EXPECT_EQ(seen.count, 50);
    EXPECT_EQ(seen.thread, server.get_id());
    EXPECT_EQ(aclrtUnSubscribeReport(id, stream), 0);  // which ends the server
    server.join();
    EXPECT_EQ(end, 107012);
}

TEST_F(Reports, BlockingHoldsTheStreamAndTheOtherDoesNot) {
    std::atomic<int> ran = 0, after = 0;
    ASSERT_EQ(aclrtSubscribeReport(pthread_self(), stream), 0);
    EXPECT_EQ(aclrtProcessReport(10), 507012);
    ASSERT_EQ(aclrtLaunchCallback(count_up, &ran, ACL_CALLBACK_NO_BLOCK, stream), 0);
    ASSERT_EQ(aclrtSynchronizeStream(stream), 0);
    EXPECT_EQ(ran, 0);
    ASSERT_EQ(aclrtLaunchCallback(count_up, &ran, ACL_CALLBACK_BLOCK, stream), 0);
    ASSERT_EQ(aclrtLaunchHostFunc(stream, count_up, &after), 0);
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream, 20), 507046);
    EXPECT_EQ(after, 0);
    while (ran < 2) ASSERT_EQ(aclrtProcessReport(-1), 0);
    EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
    EXPECT_EQ(after, 1);
    // unsubscribing lets the stream go
    ASSERT_EQ(aclrtLaunchCallback(count_up, &ran, ACL_CALLBACK_BLOCK, stream), 0);
    wait_until_streams_wait();
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream, 20), 507046);
    ASSERT_EQ(aclrtUnSubscribeReport(pthread_self(), stream), 0);
    EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
    EXPECT_EQ(ran, 2);
    EXPECT_EQ(aclrtProcessReport(10), 107012);
}

TEST_F(Reports, ExceptionsStayInside) {
    ASSERT_EQ(aclrtSubscribeReport(pthread_self(), stream), 0);
    ASSERT_EQ(aclrtLaunchCallback(throws, nullptr, ACL_CALLBACK_BLOCK, stream), 0);
    EXPECT_EQ(aclrtProcessReport(-1), 507018);
    EXPECT_EQ(aclrtSynchronizeStream(stream), 507018);
    EXPECT_EQ(aclrtUnSubscribeReport(pthread_self(), stream), 0);
}

TEST_F(Reports, StreamDestroyedByForceWhileItWaits) {
    std::atomic<int> ran = 0;
    ASSERT_EQ(aclrtSubscribeReport(pthread_self(), stream), 0);
    ASSERT_EQ(aclrtLaunchCallback(count_up, &ran, ACL_CALLBACK_BLOCK, stream), 0);
    wait_until_streams_wait();
    EXPECT_EQ(aclrtDestroyStreamForce(stream), 0);
    stream = nullptr;
    EXPECT_EQ(aclrtProcessReport(10), 0);  // it was due
    EXPECT_EQ(aclrtProcessReport(10), 107012);
    EXPECT_EQ(ran, 1);
}

// Of what is due, only the callbacks of that stream go.
TEST_F(Reports, UnsubscribingOneOfTwoStreams) {
    std::atomic<int> gone = 0, left = 0;
    aclrtStream other = nullptr;
    ASSERT_EQ(aclrtCreateStream(&other), 0);
    ASSERT_EQ(aclrtSubscribeReport(pthread_self(), stream), 0);
    ASSERT_EQ(aclrtSubscribeReport(pthread_self(), other), 0);
    for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(aclrtLaunchCallback(count_up, &gone, ACL_CALLBACK_NO_BLOCK, stream), 0);
        ASSERT_EQ(aclrtLaunchCallback(count_up, &left, ACL_CALLBACK_NO_BLOCK, other), 0);
    }
    ASSERT_EQ(aclrtSynchronizeDevice(), 0);
    ASSERT_EQ(aclrtUnSubscribeReport(pthread_self(), stream), 0);
    EXPECT_EQ(aclrtProcessReport(1000), 0);
    EXPECT_EQ(gone, 0);
    EXPECT_EQ(left, 3);
    EXPECT_EQ(aclrtUnSubscribeReport(pthread_self(), other), 0);
    EXPECT_EQ(aclrtDestroyStream(other), 0);
}

TEST_F(Reports, ThreadsSubscribeAndLaunch) {
    std::atomic<int> ran = 0;
    aclrtStream others[3] = {};
    std::vector<std::thread> subscribers;
    for (aclrtStream& other : others) {
        ASSERT_EQ(aclrtCreateStream(&other), 0);
        subscribers.emplace_back([self = pthread_self(), other] {
            for (int i = 0; i < 1000; ++i) {
                EXPECT_EQ(aclrtSubscribeReport(self, other), 0);
                EXPECT_EQ(aclrtUnSubscribeReport(self, other), 0);
            }
        });
    }
    for (int i = 0; i < 500; ++i) EXPECT_EQ(aclrtLaunchCallback(count_up, &ran, ACL_CALLBACK_NO_BLOCK, stream), 107015);
    for (std::thread& subscriber : subscribers) subscriber.join();
    for (const aclrtStream other : others) EXPECT_EQ(aclrtDestroyStream(other), 0);
}

// The subscription lasts until the work of the stream is done: what it has posted by then is due.
TEST_F(Reports, DeviceResetWhileACallbackIsQueued) {
    std::atomic<int> ran = 0;
    aclrtContext context = nullptr;
    ASSERT_EQ(aclrtCreateContext(&context, 0), 0);
    aclrtStream own = nullptr;
    ASSERT_EQ(aclrtCreateStream(&own), 0);
    ASSERT_EQ(aclrtSubscribeReport(pthread_self(), own), 0);
    Gate gate;
    ASSERT_EQ(gate.hold(own), 0);
    ASSERT_EQ(aclrtLaunchCallback(count_up, &ran, ACL_CALLBACK_NO_BLOCK, own), 0);
    WaitingThread end([&] { EXPECT_EQ(aclrtDestroyContext(context), 0); });
    gate.open();
    end.join();
    EXPECT_EQ(aclrtProcessReport(1000), 0);
    EXPECT_EQ(ran, 1);
    EXPECT_EQ(aclrtProcessReport(10), 107012);
    ASSERT_EQ(aclrtSetDevice(0), 0);
    ASSERT_EQ(aclrtResetDevice(0), 0);  // the fixture's context is current again
}

}  // namespace
}  // namespace gradus::testing
