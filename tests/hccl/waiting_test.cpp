// Who runs a collective between processes, and when: who waits for its stream, or the stream's own thread. Here the
// ranks are of one process, over the transports of several.
#include <chrono>
#include <thread>

#include "ranks.h"
#include "testing/runtime.h"

namespace gradus::testing {
namespace {

class Waiting : public ::testing::TestWithParam<const char*> {
  protected:
    static int barrier(World& w, uint32_t rank) { return HcclBarrier(w.comms[rank], w.streams[rank]); }

    // Every rank waits for what it asks for, over and over: the streams' threads are not woken for it any more.
    static void attend(World& w) {
        std::vector<std::thread> threads;
        for (uint32_t r = 0; r < w.size(); ++r)
            threads.emplace_back([&w, r] {
                EXPECT_EQ(aclrtSetDevice(static_cast<int32_t>(r)), 0);
                for (int i = 0; i < 50; ++i) {
                    EXPECT_EQ(barrier(w, r), 0) << take_message();
                    EXPECT_EQ(aclrtSynchronizeStream(w.streams[r]), 0) << take_message();
                }
            });
        for (std::thread& t : threads) t.join();
    }

    static bool ends_soon(aclrtStream stream) {
        for (int i = 0; i < 20000; ++i) {
            aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
            EXPECT_EQ(aclrtStreamQuery(stream, &status), 0);
            if (status == ACL_STREAM_STATUS_COMPLETE) return true;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return false;
    }
};

TEST_P(Waiting, WhatNobodyWaitsForRuns) {
    World w(2, GetParam());
    ASSERT_TRUE(w.made);
    for (int time = 0; time < 3; ++time) {
        attend(w);
        for (uint32_t r = 0; r < 2; ++r) ASSERT_EQ(barrier(w, r), 0);
        for (uint32_t r = 0; r < 2; ++r) EXPECT_TRUE(ends_soon(w.streams[r]));
    }
}

// Who waits with a limit does not wait longer, and the work goes on without it.
TEST_P(Waiting, WithALimit) {
    World w(2, GetParam());
    ASSERT_TRUE(w.made);
    attend(w);
    ASSERT_EQ(barrier(w, 0), 0);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(w.streams[0], 50), 507046);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
    ASSERT_EQ(barrier(w, 1), 0);
    EXPECT_TRUE(ends_soon(w.streams[0]));
    EXPECT_EQ(w.synchronize(), (std::vector<int>{0, 0}));
}

// One thread asks for all ranks and waits for them one after another, in any order.
TEST_P(Waiting, OneThreadForAllRanks) {
    World w(3, GetParam());
    ASSERT_TRUE(w.made);
    attend(w);
    for (uint32_t i = 0; i < 30; ++i) {
        for (uint32_t r = 0; r < 3; ++r) ASSERT_EQ(barrier(w, (r + i) % 3), 0);
        for (uint32_t r = 0; r < 3; ++r) EXPECT_EQ(aclrtSynchronizeStream(w.streams[(2 * r + i) % 3]), 0);
    }
}

// Two threads, two communicators: each waits first for the one that the other waits for last.
TEST_P(Waiting, Crosswise) {
    World x(2, GetParam()), y(2, GetParam());
    ASSERT_TRUE(x.made && y.made);
    attend(x), attend(y);
    const auto rank = [](World& first, World& second, uint32_t r) {
        EXPECT_EQ(aclrtSetDevice(static_cast<int32_t>(r)), 0);
        for (int i = 0; i < 30; ++i) {
            EXPECT_EQ(barrier(first, r), 0) << take_message();
            EXPECT_EQ(barrier(second, r), 0) << take_message();
            EXPECT_EQ(aclrtSynchronizeStream(first.streams[r]), 0);
            EXPECT_EQ(aclrtSynchronizeStream(second.streams[r]), 0);
        }
    };
    std::thread other([&] { rank(y, x, 1); });
    rank(x, y, 0);
    other.join();
}

// Calls of a communicator come one after another, whatever their streams: who waits for the second needs the first.
TEST_P(Waiting, TheSecondOfTwoStreams) {
    World w(2, GetParam());
    ASSERT_TRUE(w.made);
    attend(w);
    for (int i = 0; i < 10; ++i) {
        std::vector<aclrtStream> behind(2);
        for (uint32_t r = 0; r < 2; ++r) {
            ASSERT_EQ(aclrtSetDevice(static_cast<int32_t>(r)), 0);
            ASSERT_EQ(aclrtCreateStream(&behind[r]), 0);
            ASSERT_EQ(barrier(w, r), 0);
            ASSERT_EQ(HcclBarrier(w.comms[r], behind[r]), 0) << take_message();
        }
        for (aclrtStream stream : behind) EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
        for (uint32_t r = 0; r < 2; ++r) {
            EXPECT_EQ(aclrtSetDevice(static_cast<int32_t>(r)), 0);
            EXPECT_EQ(aclrtDestroyStream(behind[r]), 0) << take_message();
        }
    }
    EXPECT_EQ(w.synchronize(), (std::vector<int>{0, 0}));
}

INSTANTIATE_TEST_SUITE_P(Over, Waiting, ::testing::ValuesIn(transports()),
                         [](const auto& over) { return std::string(over.param); });

}  // namespace
}  // namespace gradus::testing
