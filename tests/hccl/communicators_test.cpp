// Making, asking and ending communicators in one process: threads, groups, sub-communicators.
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>

#include "ranks.h"
#include "testing/runtime.h"

namespace gradus::testing {
namespace {

float* floats(const Buffer& b) { return reinterpret_cast<float*>(b.data()); }

class Communicators : public ::testing::TestWithParam<const char*> {};

// A thread a device, the root info by pointer: the first of the ways to start.
TEST_P(Communicators, ThreadsWithOneRootInfo) {
    const Variable forced("GRADUS_HCCL_TRANSPORT", GetParam());
    HcclRootInfo info;
    ASSERT_EQ(HcclGetRootInfo(&info), 0) << take_message();
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < 3; ++rank)
        threads.emplace_back([&, rank] {
            aclrtStream stream = nullptr;
            HcclComm comm = nullptr, found = nullptr;
            HcclCommConfig config;
            HcclCommConfigInit(&config);
            std::strcpy(config.hcclCommName, "threads");
            ASSERT_EQ(aclrtSetDevice(static_cast<int>(rank)), 0);
            ASSERT_EQ(aclrtCreateStream(&stream), 0);
            ASSERT_EQ(HcclCommInitRootInfoConfig(3, &info, rank, &config, &comm), 0) << take_message();
            uint32_t got_rank = 9, size = 9;
            char name[128];
            EXPECT_EQ(HcclGetRankId(comm, &got_rank) + HcclGetRankSize(comm, &size) + HcclGetCommName(comm, name), 0);
            EXPECT_EQ(got_rank, rank);
            EXPECT_EQ(size, 3u);
            EXPECT_STREQ(name, "threads");
            EXPECT_EQ(HcclCommGetHandleWithName("threads", &found), 0);
            EXPECT_EQ(found, comm);
            HcclCommStatus status = HCCL_COMM_STATUS_RESERVED;
            EXPECT_EQ(HcclCommGetStatus("threads", &status), 0);
            EXPECT_EQ(status, HCCL_COMM_STATUS_READY);
            for (int i = 0; i < 20; ++i) {
                Buffer x(4 * 100);
                for (int j = 0; j < 100; ++j) floats(x)[j] = 1;
                aclrtSetDevice(static_cast<int>(rank));
                EXPECT_EQ(HcclAllReduce(x.data(), x.data(), 100, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream),
                          0);
                EXPECT_EQ(aclrtSynchronizeStream(stream), 0) << take_message();
                EXPECT_EQ(floats(x)[99], 3);
            }
            HcclResult error = HCCL_E_INTERNAL;
            EXPECT_EQ(HcclGetCommAsyncError(comm, &error), 0);
            EXPECT_EQ(error, HCCL_SUCCESS);
            EXPECT_EQ(HcclBarrier(comm, stream), 0);
            EXPECT_EQ(aclrtSynchronizeStream(stream), 0) << take_message();
            EXPECT_EQ(HcclCommDestroy(comm), 0) << take_message();
            EXPECT_EQ(aclrtDestroyStream(stream), 0);
        });
    for (auto& thread : threads) thread.join();
    for (int device = 0; device < 3; ++device) aclrtResetDeviceForce(device);
}

// One thread for several devices, between GroupStart and GroupEnd.
TEST_P(Communicators, InitsOfAGroup) {
    const Variable forced("GRADUS_HCCL_TRANSPORT", GetParam());
    HcclRootInfo info;
    HcclComm comms[3] = {};
    aclrtStream streams[3] = {};
    ASSERT_EQ(HcclGetRootInfo(&info), 0);
    ASSERT_EQ(HcclGroupStart(), 0);
    for (uint32_t r = 0; r < 3; ++r) {
        ASSERT_EQ(aclrtSetDevice(static_cast<int>(r)), 0);
        ASSERT_EQ(aclrtCreateStream(&streams[r]), 0);
        ASSERT_EQ(HcclCommInitRootInfo(3, &info, r, &comms[r]), 0) << take_message();
        EXPECT_EQ(comms[r], nullptr);
    }
    ASSERT_EQ(HcclGroupEnd(), 0) << take_message();
    for (uint32_t r = 0; r < 3; ++r) ASSERT_EQ(HcclBarrier(comms[r], streams[r]), 0) << take_message();
    for (uint32_t r = 0; r < 3; ++r) {
        EXPECT_EQ(aclrtSynchronizeStream(streams[r]), 0) << take_message();
        EXPECT_EQ(HcclCommDestroy(comms[r]), 0) << take_message();
        EXPECT_EQ(aclrtSetDevice(static_cast<int>(r)) + aclrtDestroyStream(streams[r]), 0);
        aclrtResetDeviceForce(static_cast<int>(r));
    }
    EXPECT_EQ(HcclGroupEnd(), HCCL_E_PARA);
}

// A group is of one kind, whichever came first.
TEST_P(Communicators, KindsOfAGroupAreNotMixed) {
    World w(1, GetParam());
    ASSERT_TRUE(w.made);
    Buffer x(64);
    HcclRootInfo info;
    ASSERT_EQ(aclrtSetDevice(0) + HcclGetRootInfo(&info), 0);
    HcclComm comm = w.comms[0], made = nullptr, sub = nullptr;
    HcclCommConfig config;
    HcclCommConfigInit(&config);
    uint32_t ids[] = {0};
    HcclSendRecvItem items[] = {{HCCL_SEND, x.data(), 1, HCCL_DATA_TYPE_FP32, 0},
                                {HCCL_RECV, x.data() + 32, 1, HCCL_DATA_TYPE_FP32, 0}};
    const auto init = [&] { return HcclCommInitRootInfo(1, &info, 0, &made); };
    const auto split = [&] { return HcclCreateSubCommConfig(&comm, 1, ids, 1, 0, &config, &sub); };
    const auto send = [&] { return HcclSend(x.data(), 1, HCCL_DATA_TYPE_FP32, 0, comm, w.streams[0]); };
    const auto receive = [&] { return HcclRecv(x.data() + 32, 1, HCCL_DATA_TYPE_FP32, 0, comm, w.streams[0]); };
    const auto batch = [&] { return HcclBatchSendRecv(items, 2, comm, w.streams[0]); };
    const auto collective = [&] { return HcclBarrier(comm, w.streams[0]); };
    const std::vector<std::function<HcclResult()>> kinds[] = {{init, split}, {send, receive, batch}, {collective}};
    for (const auto& first : kinds) {
        ASSERT_EQ(HcclGroupStart(), 0);
        for (const auto& call : first) EXPECT_EQ(call(), 0) << take_message();
        for (const auto& other : kinds)
            for (const auto& call : other) {
                if (&other == &first) continue;
                EXPECT_EQ(call(), HCCL_E_PARA);
                EXPECT_NE(take_message().find("a group has either inits, or"), std::string::npos);
            }
        EXPECT_EQ(HcclGroupEnd(), 0) << take_message();
        for (HcclComm* c : {&made, &sub})
            if (*c != nullptr) EXPECT_EQ(HcclCommDestroy(std::exchange(*c, nullptr)), 0) << take_message();
    }
    EXPECT_EQ(w.synchronize(), std::vector<int>{0}) << take_message();
}

// What a group has collected meets at its end what has happened since; the rest of it is sent all the same.
TEST_P(Communicators, DestroyedInsideAGroup) {
    World w(2, GetParam()), other(2, GetParam());
    ASSERT_TRUE(w.made && other.made);
    Buffer x(64);
    std::fill_n(x.data(), 64, 7);
    ASSERT_EQ(HcclGroupStart(), 0);
    ASSERT_EQ(HcclSend(x.data(), 1, HCCL_DATA_TYPE_INT8, 1, w.comms[0], w.streams[0]), 0) << take_message();
    ASSERT_EQ(HcclSend(x.data(), 1, HCCL_DATA_TYPE_INT8, 1, other.comms[0], other.streams[0]), 0) << take_message();
    ASSERT_EQ(HcclCommDestroy(w.comms[0]), 0);
    w.comms[0] = nullptr;
    EXPECT_EQ(HcclGroupEnd(), HCCL_E_PARA);
    expect_message("HcclGroupEnd", "comm: has been destroyed since");
    ASSERT_EQ(HcclRecv(x.data() + 32, 1, HCCL_DATA_TYPE_INT8, 0, other.comms[1], other.streams[1]), 0);
    EXPECT_EQ(w.synchronize(), (std::vector<int>{0, 0})) << take_message();
    EXPECT_EQ(other.synchronize(), (std::vector<int>{0, 0})) << take_message();
}

// All that one thread asks for between GroupStart and GroupEnd meets, in whatever order the others ask; and nothing is
// left of a group of which one fails.
TEST_P(Communicators, SubCommunicatorsOfAGroup) {
    World w(3, GetParam());
    ASSERT_TRUE(w.made);
    HcclCommConfig config;
    HcclCommConfigInit(&config);
    uint32_t all[] = {2, 0, 1}, pair[] = {0, 2};
    HcclComm alls[3] = {}, pairs[3] = {};
    const auto create = [&] {
        EXPECT_EQ(HcclGroupStart(), 0);
        for (uint32_t r = 0; r < 3; ++r) {
            EXPECT_EQ(HcclCreateSubCommConfig(&w.comms[r], 3, all, 1, (r + 1) % 3, &config, &alls[r]), 0)
                << take_message();
            if (r == 1) continue;
            EXPECT_EQ(HcclCreateSubCommConfig(&w.comms[r], 2, pair, 2, r / 2, &config, &pairs[r]), 0) << take_message();
            EXPECT_EQ(alls[r], nullptr);
        }
        return HcclGroupEnd();
    };
    ASSERT_EQ(create(), 0) << take_message();
    for (uint32_t r = 0; r < 3; ++r) {
        uint32_t rank = 9;
        EXPECT_EQ(HcclGetRankId(alls[r], &rank), 0) << take_message();
        EXPECT_EQ(rank, (r + 1) % 3);
        EXPECT_EQ(HcclBarrier(alls[r], w.streams[r]), 0) << take_message();
        if (r != 1) EXPECT_EQ(HcclBarrier(pairs[r], w.streams[r]), 0) << take_message();
    }
    EXPECT_EQ(w.synchronize(), (std::vector<int>{0, 0, 0})) << take_message();
    HcclComm twice[2] = {};
    ASSERT_EQ(HcclGroupStart(), 0);
    for (HcclComm& sub : twice)
        EXPECT_EQ(HcclCreateSubCommConfig(&w.comms[0], 1, pair, 5, 0, &config, &sub), 0) << take_message();
    EXPECT_EQ(HcclGroupEnd(), HCCL_E_PARA);
    expect_message("HcclGroupEnd", "subCommId: 5 of these ranks is there already");
    EXPECT_EQ(twice[0], nullptr);
    EXPECT_EQ(twice[1], nullptr);
    EXPECT_EQ(HcclCreateSubCommConfig(&w.comms[0], 1, pair, 5, 0, &config, &twice[0]), 0) << take_message();
    for (HcclComm sub : {alls[0], alls[1], alls[2], pairs[0], pairs[2], twice[0]})
        EXPECT_EQ(HcclCommDestroy(sub), 0) << take_message();
}

// Four ranks as 2 × 2: rows for one kind of parallelism, columns for the other.
TEST_P(Communicators, SubCommunicators) {
    const Variable forced("GRADUS_HCCL_TRANSPORT", GetParam());
    World w(4, GetParam());
    ASSERT_TRUE(w.made);
    HcclCommConfig config;
    HcclCommConfigInit(&config);
    std::vector<HcclComm> rows(4), columns(4);
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < 4; ++r)
        threads.emplace_back([&, r] {
            uint32_t row[] = {r / 2 * 2, r / 2 * 2 + 1}, column[] = {r % 2, r % 2 + 2};
            EXPECT_EQ(HcclCreateSubCommConfig(&w.comms[r], 2, row, 10 + r / 2, r % 2, &config, &rows[r]), 0)
                << take_message();
            EXPECT_EQ(HcclCreateSubCommConfig(&w.comms[r], 2, column, 20 + r % 2, r / 2, &config, &columns[r]), 0)
                << take_message();
        });
    for (auto& thread : threads) thread.join();
    ASSERT_FALSE(HasFailure());
    char parent[128], name[128];
    ASSERT_EQ(HcclGetCommName(w.comms[0], parent) + HcclGetCommName(rows[0], name), 0);
    EXPECT_EQ(std::string(name), std::string(parent) + "_sub_10");
    std::vector<Buffer> x;
    for (uint32_t r = 0; r < 4; ++r) {
        x.emplace_back(4);
        floats(x[r])[0] = static_cast<float>(1 << r);
        ASSERT_EQ(
            HcclAllReduce(x[r].data(), x[r].data(), 1, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, rows[r], w.streams[r]), 0);
        ASSERT_EQ(
            HcclAllReduce(x[r].data(), x[r].data(), 1, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, columns[r], w.streams[r]),
            0);
    }
    for (const int code : w.synchronize()) EXPECT_EQ(code, 0) << take_message();
    for (uint32_t r = 0; r < 4; ++r) EXPECT_EQ(floats(x[r])[0], 15);
    uint32_t ids[] = {0, 1};
    HcclComm sub = nullptr;
    EXPECT_EQ(HcclCreateSubCommConfig(&rows[0], 2, ids, 1, 0, &config, &sub), HCCL_E_PARA);
    for (uint32_t r = 0; r < 4; ++r) EXPECT_EQ(HcclCommDestroy(rows[r]) + HcclCommDestroy(columns[r]), 0);
}

// Each rank makes, uses and destroys one of the same number again and again, and does not wait for the others to do so.
TEST_P(Communicators, TheSameSubCommunicatorAgain) {
    World w(3, GetParam());
    ASSERT_TRUE(w.made);
    HcclCommConfig config;
    HcclCommConfigInit(&config);
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < 3; ++r)
        threads.emplace_back([&, r] {
            uint32_t ids[] = {0, 1, 2};
            ASSERT_EQ(aclrtSetDevice(static_cast<int>(r)), 0);
            for (int time = 0; time < 5; ++time) {
                HcclComm sub = nullptr, twice = nullptr;
                ASSERT_EQ(HcclCreateSubCommConfig(&w.comms[r], 3, ids, 7, r, &config, &sub), 0) << take_message();
                EXPECT_EQ(HcclCreateSubCommConfig(&w.comms[r], 3, ids, 7, r, &config, &twice), HCCL_E_PARA);
                expect_message("HcclCreateSubCommConfig", "7 of these ranks is there already");
                EXPECT_EQ(HcclBarrier(sub, w.streams[r]), 0) << take_message();
                EXPECT_EQ(aclrtSynchronizeStream(w.streams[r]), 0) << take_message();
                if (r == 2) std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the others are ahead
                EXPECT_EQ(HcclCommDestroy(sub), 0) << take_message();
            }
        });
    for (auto& thread : threads) thread.join();
}

// The same members in another order: whoever has a communicator all the same cannot use it, and nobody waits, nor who
// comes later.
TEST_P(Communicators, MembersInAnotherOrder) {
    World w(3, GetParam());
    ASSERT_TRUE(w.made);
    HcclCommConfig config;
    HcclCommConfigInit(&config);
    const char* const words = "subCommId 30: 0, 1, 2 on rank 0; 2, 1, 0 on rank 2";
    std::vector<HcclComm> subs(3);
    const auto create = [&](uint32_t r) {
        uint32_t orders[3][3] = {{0, 1, 2}, {0, 1, 2}, {2, 1, 0}};
        EXPECT_EQ(aclrtSetDevice(static_cast<int>(r)), 0);
        return HcclCreateSubCommConfig(&w.comms[r], 3, orders[r], 30, r == 1 ? 1 : 0, &config, &subs[r]);
    };
    std::vector<std::thread> threads;
    for (const uint32_t r : {0u, 2u})
        threads.emplace_back([&, r] {
            if (create(r) != HCCL_E_PARA) return;
            expect_message("HcclCreateSubCommConfig", words);
        });
    for (auto& thread : threads) thread.join();
    EXPECT_TRUE(subs[0] == nullptr || subs[2] == nullptr);
    EXPECT_EQ(create(1), HCCL_E_PARA);
    expect_message("HcclCreateSubCommConfig", "ranks disagree about subCommId 30");
    for (uint32_t r = 0; r < 3; ++r) {
        if (subs[r] == nullptr) continue;
        EXPECT_EQ(HcclBarrier(subs[r], w.streams[r]), HCCL_E_PARA);
        expect_message("HcclBarrier", words);
        EXPECT_EQ(HcclCommDestroy(subs[r]), 0) << take_message();
    }
    threads.clear();  // the same number again, and this time they agree; the third does not hinder them
    for (uint32_t r = 0; r < 3; ++r)
        threads.emplace_back([&, r] {
            uint32_t pair[] = {1, 0}, alone[] = {2};
            HcclComm sub = nullptr;
            EXPECT_EQ(aclrtSetDevice(static_cast<int>(r)), 0);
            ASSERT_EQ(HcclCreateSubCommConfig(&w.comms[r], r == 2 ? 1 : 2, r == 2 ? alone : pair, 30, r == 0 ? 1 : 0,
                                              &config, &sub),
                      0)
                << take_message();
            EXPECT_EQ(HcclBarrier(sub, w.streams[r]), 0) << take_message();
            EXPECT_EQ(aclrtSynchronizeStream(w.streams[r]), 0) << take_message();
            EXPECT_EQ(HcclCommDestroy(sub), 0) << take_message();
        });
    for (auto& thread : threads) thread.join();
}

// In one process nobody waits for the others. Elsewhere, the time of one that is alone ends, and it can come again.
TEST_P(Communicators, AMemberDoesNotCome) {
    World w(2, GetParam());
    ASSERT_TRUE(w.made);
    HcclCommConfig config;
    HcclCommConfigInit(&config);
    std::vector<HcclComm> subs(2);
    const auto create = [&](uint32_t r) {
        uint32_t ids[] = {0, 1};
        EXPECT_EQ(aclrtSetDevice(static_cast<int>(r)), 0);
        return HcclCreateSubCommConfig(&w.comms[r], 2, ids, 4, r, &config, &subs[r]);
    };
    if (std::string(GetParam()) != "local") {
        const Variable timeout("HCCL_CONNECT_TIMEOUT", "1");
        EXPECT_EQ(create(0), HCCL_E_TIMEOUT);
        expect_message("HcclCreateSubCommConfig", "waited 1 s (HCCL_CONNECT_TIMEOUT); missing: rank 1");
    }
    std::thread other([&] { EXPECT_EQ(create(1), 0) << take_message(); });
    EXPECT_EQ(create(0), 0) << take_message();
    other.join();
    for (uint32_t r = 0; r < 2; ++r) EXPECT_EQ(HcclBarrier(subs[r], w.streams[r]), 0) << take_message();
    for (const int code : w.synchronize()) EXPECT_EQ(code, 0) << take_message();
    for (uint32_t r = 0; r < 2; ++r) EXPECT_EQ(HcclCommDestroy(subs[r]), 0) << take_message();
}

// More than the queue of a socket has room for, all in the same moment.
TEST_P(Communicators, ManyRanks) {
    if (std::string(GetParam()) == "gloo") GTEST_SKIP() << "a connection for each of so many pairs is slow";
    constexpr uint32_t kRanks = 200;
    const Variable forced("GRADUS_HCCL_TRANSPORT", GetParam());
    HcclRootInfo info;
    ASSERT_EQ(HcclGetRootInfo(&info), 0) << take_message();
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kRanks; ++rank)
        threads.emplace_back([&, rank] {
            HcclComm comm = nullptr;
            ASSERT_EQ(aclrtSetDevice(0), 0);
            ASSERT_EQ(HcclCommInitRootInfo(kRanks, &info, rank, &comm), 0) << take_message();
            EXPECT_EQ(HcclCommDestroy(comm), 0) << take_message();
        });
    for (auto& thread : threads) thread.join();
}

// A group of another kind is none of its business.
TEST_P(Communicators, AllRanksInsideAGroup) {
    World w(1, GetParam());
    ASSERT_EQ(HcclGroupStart(), 0);
    ASSERT_EQ(HcclBarrier(w.comms[0], w.streams[0]), 0) << take_message();
    { const World inner(2, GetParam()); }
    for (const int code : w.synchronize()) EXPECT_EQ(code, 0) << take_message();
    EXPECT_EQ(HcclGroupEnd(), 0) << take_message();
    bool open = true;
    EXPECT_EQ(HcclGroupStatusGet(&open), 0);
    EXPECT_FALSE(open);
}

// Eight at once, each with its own order.
TEST_P(Communicators, EightAtOnce) {
    std::vector<std::unique_ptr<World>> worlds;
    for (int i = 0; i < 8; ++i) worlds.push_back(std::make_unique<World>(2, GetParam()));
    std::vector<Buffer> x;
    for (int i = 0; i < 16; ++i) x.emplace_back(4), floats(x.back())[0] = 1;
    for (int round = 0; round < 3; ++round)
        for (size_t i = 0; i < 16; ++i) {
            const size_t at = (i * 5) % 16;  // the ranks of one are not issued together
            World& w = *worlds[at / 2];
            ASSERT_EQ(HcclAllReduce(x[at].data(), x[at].data(), 1, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM,
                                    w.comms[at % 2], w.streams[at % 2]),
                      0)
                << take_message();
        }
    for (auto& w : worlds)
        for (const int code : w->synchronize()) EXPECT_EQ(code, 0) << take_message();
    for (const Buffer& b : x) EXPECT_EQ(floats(b)[0], 8);
}

INSTANTIATE_TEST_SUITE_P(Over, Communicators, ::testing::ValuesIn(transports()),
                         [](const auto& over) { return std::string(over.param); });

}  // namespace
}  // namespace gradus::testing
