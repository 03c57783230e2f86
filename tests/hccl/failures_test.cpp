// Ranks that disagree, do not come, leave or lose their work: a code and a sentence on every other rank, soon.
#include <chrono>

#include "ranks.h"
#include "testing/runtime.h"

namespace gradus::testing {
namespace {

constexpr auto kF32 = HCCL_DATA_TYPE_FP32;
constexpr auto kSum = HCCL_REDUCE_SUM;

class Failures : public ::testing::TestWithParam<const char*> {
  protected:
    // All streams fail with these words, the communicators are dead, and the next call says so at once.
    static void expect_all_fail(World& w, const std::vector<std::string>& words, int async) {
        Buffer x(64);
        for (uint32_t r = 0; r < w.size(); ++r) {
            SCOPED_TRACE("rank " + std::to_string(r));
            take_message();
            EXPECT_EQ(aclrtSynchronizeStream(w.streams[r]), 507000);
            const std::string message = take_message();
            for (const std::string& word : words) EXPECT_NE(message.find(word), std::string::npos) << message;
            HcclResult error = HCCL_SUCCESS;
            EXPECT_EQ(HcclGetCommAsyncError(w.comms[r], &error), 0);
            EXPECT_EQ(error, async);
            char name[128];
            HcclCommStatus status = HCCL_COMM_STATUS_READY;
            EXPECT_EQ(HcclGetCommName(w.comms[r], name) + HcclCommGetStatus(name, &status), 0);
            EXPECT_EQ(status, HCCL_COMM_STATUS_INVALID);
            EXPECT_EQ(HcclBroadcast(x.data(), 1, kF32, 0, w.comms[r], w.streams[r]), async);
            const std::string later = take_message();
            EXPECT_EQ(later.find("HcclBroadcast: comm: has failed: Hccl"), 0u) << later;
        }
    }
};

TEST_P(Failures, RanksDisagree) {
    constexpr size_t kEach = 1 << 20;
    Buffer x(3 * kEach);
    struct Difference {
        const char* words;
        uint64_t count;
        HcclDataType type;
        HcclReduceOp op;
    };
    for (const Difference& d : {Difference{"count 8 on rank 1, 7 on rank 0", 8, kF32, kSum},
                                Difference{"count 262144 on rank 1, 7 on rank 0", kEach / 4, kF32, kSum},
                                Difference{"dataType int32 on rank 1, fp32 on rank 0", 7, HCCL_DATA_TYPE_INT32, kSum},
                                Difference{"op max on rank 1, sum on rank 0", 7, kF32, HCCL_REDUCE_MAX}}) {
        World w(3, GetParam());
        ASSERT_TRUE(w.made);
        for (uint32_t r = 0; r < 3; ++r)
            ASSERT_EQ(HcclAllReduce(x.data() + kEach * r, x.data() + kEach * r, r == 1 ? d.count : 7,
                                    r == 1 ? d.type : kF32, r == 1 ? d.op : kSum, w.comms[r], w.streams[r]),
                      0);
        expect_all_fail(w, {"HcclAllReduce", d.words}, HCCL_E_PARA);
        EXPECT_EQ(x.read(), std::vector<unsigned char>(3 * kEach, 0xEE)) << d.words;  // nothing was taken
    }
    {
        World w(2, GetParam());
        for (uint32_t r = 0; r < 2; ++r)
            ASSERT_EQ(HcclBroadcast(x.data() + 64 * r, 1, kF32, r, w.comms[r], w.streams[r]), 0);
        expect_all_fail(w, {"root 1 on rank 1, 0 on rank 0"}, HCCL_E_PARA);
    }
    {
        World w(2, GetParam());
        ASSERT_EQ(HcclBarrier(w.comms[0], w.streams[0]), 0);
        ASSERT_EQ(HcclBroadcast(x.data(), 1, kF32, 0, w.comms[1], w.streams[1]), 0);
        expect_all_fail(w, {"rank 1 called HcclBroadcast, rank 0 HcclBarrier"}, HCCL_E_PARA);
    }
    {
        World w(2, GetParam());
        const uint64_t out[2][2] = {{1, 2}, {3, 4}}, in[2][2] = {{1, 3}, {5, 4}}, at[2] = {0, 8};
        for (uint32_t r = 0; r < 2; ++r)
            ASSERT_EQ(HcclAlltoAllV(x.data() + 256 * r, out[r], at, kF32, x.data() + 1024 + 256 * r, in[r], at, kF32,
                                    w.comms[r], w.streams[r]),
                      0)
                << take_message();
        expect_all_fail(w, {"rank 0 sends 8 bytes to rank 1, which expects 20"}, HCCL_E_PARA);
    }
    {
        World w(2, GetParam());
        const uint64_t counts[2][2] = {{1, 2}, {1, 3}}, at[2] = {0, 8};
        for (uint32_t r = 0; r < 2; ++r)
            ASSERT_EQ(HcclReduceScatterV(x.data() + 256 * r, counts[r], at, x.data() + 1024 + 256 * r, counts[r][r],
                                         kF32, kSum, w.comms[r], w.streams[r]),
                      0)
                << take_message();
        expect_all_fail(w, {"HcclReduceScatterV", "rank 1 has 12 bytes for rank 1, rank 0 8"}, HCCL_E_PARA);
    }
    {
        World w(2, GetParam());
        const uint64_t counts[2][2] = {{1, 2}, {1, 3}}, at[2] = {0, 8};
        for (uint32_t r = 0; r < 2; ++r)
            ASSERT_EQ(HcclAllGatherV(x.data() + 256 * r, counts[r][r], x.data() + 1024 + 256 * r, counts[r], at, kF32,
                                     w.comms[r], w.streams[r]),
                      0)
                << take_message();
        expect_all_fail(w, {"HcclAllGatherV", "rank 1 sends 12 bytes to rank 0, which expects 8"}, HCCL_E_PARA);
    }
    for (const Difference& d :
         {Difference{"8 × fp32", 8, kF32, kSum}, Difference{"4 × int32", 4, HCCL_DATA_TYPE_INT32, kSum}}) {
        World w(2, GetParam());
        ASSERT_EQ(HcclSend(x.data(), 4, kF32, 1, w.comms[0], w.streams[0]), 0);
        ASSERT_EQ(HcclRecv(x.data() + 64, d.count, d.type, 0, w.comms[1], w.streams[1]), 0);
        expect_all_fail(w, {"rank 0 sends 4 × fp32 to rank 1, which receives ", d.words}, HCCL_E_PARA);
    }
}

// A rank's transfers with itself are known whole when they are asked for.
TEST_P(Failures, ARankDisagreesWithItself) {
    World w(2, GetParam());
    ASSERT_TRUE(w.made);
    Buffer x(64);
    HcclSendRecvItem items[] = {{HCCL_SEND, x.data(), 4, kF32, 0}, {HCCL_RECV, x.data() + 32, 8, kF32, 0}};
    EXPECT_EQ(HcclBatchSendRecv(items, 2, w.comms[0], w.streams[0]), HCCL_E_PARA);
    expect_message("HcclBatchSendRecv", "sends 4 × fp32 to itself and receives 8 × fp32");
    for (HcclSendRecvItem& alone : items)
        EXPECT_EQ(HcclBatchSendRecv(&alone, 1, w.comms[0], w.streams[0]), HCCL_E_PARA);
    items[1].count = 4;
    items[1].dataType = HCCL_DATA_TYPE_INT32;
    EXPECT_EQ(HcclBatchSendRecv(items, 2, w.comms[0], w.streams[0]), HCCL_E_PARA);
    items[1].dataType = kF32;
    std::fill_n(x.data(), 16, 7);
    EXPECT_EQ(HcclBatchSendRecv(items, 2, w.comms[0], w.streams[0]), 0) << take_message();
    EXPECT_EQ(aclrtSynchronizeStream(w.streams[0]), 0) << take_message();
    EXPECT_EQ(x.data()[32 + 15], 7);
    EXPECT_EQ(x.data()[32 + 16], 0xEE);
}

// The message lists all that are missing.
TEST_P(Failures, RanksDoNotCome) {
    const Variable timeout("HCCL_EXEC_TIMEOUT", "1");
    Buffer x(4096);
    const auto expect_late = [](World& w, uint32_t rank, const char* missing) {
        EXPECT_EQ(aclrtSynchronizeStream(w.streams[rank]), 507000);
        const std::string message = take_message() + "\n";
        EXPECT_NE(message.find("HCCL_EXEC_TIMEOUT"), std::string::npos) << message;
        EXPECT_NE(message.find(missing), std::string::npos) << message;
        HcclResult error = HCCL_SUCCESS;
        EXPECT_EQ(HcclGetCommAsyncError(w.comms[rank], &error), 0);
        EXPECT_EQ(error, HCCL_E_TIMEOUT);
    };
    for (const auto& [ranks, missing] : {std::pair(3u, "missing: rank 1\n"), std::pair(4u, "missing: rank 1, 3\n")}) {
        World w(ranks, GetParam());
        ASSERT_TRUE(w.made);
        const auto start = std::chrono::steady_clock::now();
        for (const uint32_t r : {0u, 2u}) ASSERT_EQ(HcclBarrier(w.comms[r], w.streams[r]), 0);
        for (const uint32_t r : {0u, 2u}) expect_late(w, r, missing);
        EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
    }
    {
        World w(2, GetParam());
        ASSERT_EQ(HcclRecv(x.data(), 1, kF32, 1, w.comms[0], w.streams[0]), 0);
        expect_late(w, 0, "missing: rank 1\n");
    }
    World w(4, GetParam());
    HcclSendRecvItem items[] = {{HCCL_RECV, x.data(), 1, kF32, 3},
                                {HCCL_RECV, x.data() + 8, 1, kF32, 1},
                                {HCCL_SEND, x.data() + 16, 1, kF32, 3}};
    ASSERT_EQ(HcclBatchSendRecv(items, 3, w.comms[0], w.streams[0]), 0);
    expect_late(w, 0, "missing: rank 1, 3\n");
}

// A communicator's own time-out counts, and 0 is for ever.
TEST_P(Failures, ARankIsLate) {
    for (const int seconds : {1, 0}) {
        const Variable forced("GRADUS_HCCL_TRANSPORT", GetParam());
        const Variable timeout("HCCL_EXEC_TIMEOUT", seconds == 1 ? "0" : "1");
        World w(2, GetParam());
        ASSERT_TRUE(w.made);
        HcclCommConfig config;
        HcclCommConfigInit(&config);
        config.hcclExecTimeOut = seconds;
        HcclComm subs[2] = {};
        uint32_t ids[] = {0, 1};
        ASSERT_EQ(HcclGroupStart(), 0);
        for (uint32_t r = 0; r < 2; ++r)
            ASSERT_EQ(HcclCreateSubCommConfig(&w.comms[r], 2, ids, 3, r, &config, &subs[r]), 0) << take_message();
        ASSERT_EQ(HcclGroupEnd(), 0) << take_message();
        ASSERT_EQ(HcclBarrier(subs[0], w.streams[0]), 0);
        const int code = aclrtSynchronizeStreamWithTimeout(w.streams[0], seconds == 1 ? 20000 : 2000);
        EXPECT_EQ(code, seconds == 1 ? 507000 : 507046);
        if (seconds == 1) EXPECT_NE(take_message().find("waited 1 s (HCCL_EXEC_TIMEOUT)"), std::string::npos);
        if (seconds == 0) EXPECT_EQ(HcclBarrier(subs[1], w.streams[1]), 0) << take_message();
        if (seconds == 0) EXPECT_EQ(w.synchronize(), (std::vector<int>{0, 0})) << take_message();
        for (HcclComm sub : subs) EXPECT_EQ(HcclCommDestroy(sub), 0) << take_message();
    }
}

TEST_P(Failures, ARankHasDestroyedItsCommunicator) {
    World w(2, GetParam());
    ASSERT_TRUE(w.made);
    ASSERT_EQ(HcclCommDestroy(w.comms[1]), 0);
    w.comms[1] = nullptr;
    Buffer x(64);
    const int code = HcclBroadcast(x.data(), 1, kF32, 0, w.comms[0], w.streams[0]);
    EXPECT_TRUE(code == 0 || code == HCCL_E_REMOTE);
    if (code == 0) EXPECT_EQ(aclrtSynchronizeStream(w.streams[0]), 507000);
    const std::string message = take_message();
    EXPECT_NE(message.find("rank 1 has destroyed its communicator"), std::string::npos) << message;
    HcclResult error = HCCL_SUCCESS;
    EXPECT_EQ(HcclGetCommAsyncError(w.comms[0], &error), 0);
    EXPECT_EQ(error, HCCL_E_REMOTE);
}

TEST_P(Failures, AStreamIsDestroyedWithWork) {
    World w(2, GetParam());
    ASSERT_TRUE(w.made);
    Gate gate;
    ASSERT_EQ(gate.hold(w.streams[1]), 0);
    gate.wait_until_reached();
    for (uint32_t r = 0; r < 2; ++r) ASSERT_EQ(HcclBarrier(w.comms[r], w.streams[r]), 0);
    EXPECT_EQ(HcclCommDestroy(w.comms[0]), HCCL_E_AGAIN);
    EXPECT_EQ(aclrtSetDevice(1), 0);
    EXPECT_EQ(aclrtDestroyStreamForce(w.streams[1]), 0);
    w.streams[1] = nullptr;
    EXPECT_EQ(aclrtSynchronizeStream(w.streams[0]), 507000);
    EXPECT_NE(take_message().find("rank 1 dropped its work"), std::string::npos);
    gate.open();
}

INSTANTIATE_TEST_SUITE_P(Over, Failures, ::testing::ValuesIn(transports()),
                         [](const auto& over) { return std::string(over.param); });

// A synchronous copy waits for a collective whose ranks have all been asked, and not for one that needs the program.
TEST(Order, SynchronousCopies) {
    World w(2, "local");
    Buffer x(64), y(64);
    std::fill_n(x.data(), 64, 1), std::fill_n(y.data(), 64, 2);
    ASSERT_EQ(HcclAllReduce(x.data(), x.data(), 64, HCCL_DATA_TYPE_INT8, kSum, w.comms[0], w.streams[0]), 0);
    unsigned char byte = 0;
    EXPECT_EQ(aclrtSetDevice(0), 0);
    EXPECT_EQ(aclrtMemcpy(&byte, 1, x.data(), 1, ACL_MEMCPY_DEVICE_TO_HOST), 0);
    EXPECT_EQ(byte, 1);
    ASSERT_EQ(HcclAllReduce(y.data(), y.data(), 64, HCCL_DATA_TYPE_INT8, kSum, w.comms[1], w.streams[1]), 0);
    EXPECT_EQ(aclrtMemcpy(&byte, 1, x.data(), 1, ACL_MEMCPY_DEVICE_TO_HOST), 0);
    EXPECT_EQ(byte, 3);
}

}  // namespace
}  // namespace gradus::testing
