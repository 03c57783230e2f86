// Making, asking and ending communicators in one process: threads, groups, sub-communicators, refusals.
#include <cstring>
#include <thread>

#include "gradus/gradus.h"
#include "ranks.h"
#include "testing/runtime.h"

namespace gradus::testing {
namespace {

float* floats(const Buffer& b) { return reinterpret_cast<float*>(b.data()); }

void all_reduce_ones(HcclComm comm, aclrtStream stream, float expected) {
    Buffer x(4 * 100);
    for (int i = 0; i < 100; ++i) floats(x)[i] = 1;
    EXPECT_EQ(HcclAllReduce(x.data(), x.data(), 100, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream), 0)
        << take_message();
    EXPECT_EQ(aclrtSynchronizeStream(stream), 0) << take_message();
    for (int i = 0; i < 100; ++i) EXPECT_EQ(floats(x)[i], expected);
}

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

// ---- Refusals, in the order of the device's checks

class Refusals : public ::testing::Test {
  protected:
    World w{2, "local"};
    Buffer x{64}, y{64};
    HcclComm comm = w.comms[0];
    aclrtStream stream = w.streams[0];
    static constexpr auto kF32 = HCCL_DATA_TYPE_FP32;
    static constexpr auto kSum = HCCL_REDUCE_SUM;
};

TEST_F(Refusals, Arguments) {
    EXPECT_EQ(HcclAllReduce(nullptr, nullptr, 0, kF32, kSum, nullptr, nullptr), HCCL_SUCCESS);  // count 0 comes first
    EXPECT_EQ(HcclAllReduce(x.data(), y.data(), 1, kF32, kSum, comm, nullptr), HCCL_E_PTR);
    expect_message("HcclAllReduce", "stream: NULL");
    EXPECT_EQ(HcclAllReduce(x.data(), y.data(), 1, kF32, kSum, nullptr, stream), HCCL_E_PTR);
    expect_message("HcclAllReduce", "comm: NULL");
    EXPECT_EQ(HcclAllReduce(x.data(), y.data(), 1, kF32, kSum, &comm, stream), HCCL_E_PARA);
    expect_message("HcclAllReduce", "not a live communicator");
    EXPECT_EQ(HcclAllReduce(nullptr, y.data(), 1, kF32, kSum, comm, stream), HCCL_E_PTR);
    expect_message("HcclAllReduce", "sendBuf: NULL");
    EXPECT_EQ(HcclAllReduce(x.data(), nullptr, 1, kF32, kSum, comm, stream), HCCL_E_PTR);
    EXPECT_EQ(HcclAllReduce(x.data(), y.data(), 0x800000000, kF32, kSum, comm, stream), HCCL_E_PARA);
    EXPECT_EQ(HcclAllReduce(x.data(), y.data(), 1, static_cast<HcclDataType>(13), kSum, comm, stream),
              HCCL_E_NOT_SUPPORT);
    EXPECT_EQ(HcclAllReduce(x.data(), y.data(), 1, HCCL_DATA_TYPE_UINT32, kSum, comm, stream), HCCL_E_NOT_SUPPORT);
    expect_message("HcclAllReduce", "GRADUS_LIMITS=off");
    EXPECT_EQ(HcclAllReduce(x.data(), y.data(), 1, HCCL_DATA_TYPE_BFP16, HCCL_REDUCE_PROD, comm, stream),
              HCCL_E_NOT_SUPPORT);
    EXPECT_EQ(HcclAllReduce(x.data(), y.data(), 1, kF32, HCCL_REDUCE_RESERVED, comm, stream), HCCL_E_NOT_SUPPORT);
    EXPECT_EQ(HcclReduce(x.data(), y.data(), 1, kF32, kSum, 2, comm, stream), HCCL_E_PARA);
    expect_message("HcclReduce", "root: 2, expected less than 2");
    EXPECT_EQ(HcclAllReduce(x.data(), x.data() + 4, 2, kF32, kSum, comm, stream), HCCL_E_PARA);
    expect_message("HcclAllReduce", "overlaps");
    EXPECT_EQ(HcclAllReduce(x.data() + 1, y.data(), 2, kF32, kSum, comm, stream), HCCL_E_PARA);
    expect_message("HcclAllReduce", "aligned");
    EXPECT_EQ(HcclAllReduce(x.data(), x.data(), 1 << 20, kF32, kSum, comm, stream), HCCL_E_PARA);
    expect_message("HcclAllReduce", "leave their device allocation");
    float own = 0;
    EXPECT_EQ(HcclAllReduce(&own, y.data(), 1, kF32, kSum, comm, stream), HCCL_E_PARA);
    expect_message("HcclAllReduce", "GRADUS_MEMORY=any");
    EXPECT_EQ(HcclAlltoAll(x.data(), 1, kF32, x.data(), 1, kF32, comm, stream), HCCL_E_PARA);
    EXPECT_EQ(HcclSend(x.data(), 1, kF32, 0, comm, stream), HCCL_E_PARA);
    EXPECT_EQ(HcclSend(x.data(), 1, kF32, 7, comm, stream), HCCL_E_PARA);
    EXPECT_EQ(HcclAllReduce(x.data(), y.data(), 1, kF32, kSum, comm, w.streams[1]), HCCL_E_PARA);
    expect_message("HcclAllReduce", "of device 1, the communicator is of device 0");
    for (const int code : w.synchronize()) EXPECT_EQ(code, 0);
}

TEST_F(Refusals, Communicators) {
    int32_t devices[] = {0, 0}, far[] = {77};
    HcclComm comms[2] = {};
    EXPECT_EQ(HcclCommInitAll(2, nullptr, comms), HCCL_E_PTR);
    EXPECT_EQ(HcclCommInitAll(0, devices, comms), HCCL_E_PARA);
    EXPECT_EQ(HcclCommInitAll(2, devices, comms), HCCL_E_PARA);
    expect_message("HcclCommInitAll", "0 is there twice");
    EXPECT_EQ(HcclCommInitAll(1, far, comms), HCCL_E_PARA);
    HcclRootInfo info = {};
    EXPECT_EQ(HcclCommInitRootInfo(2, &info, 0, comms), HCCL_E_PARA);
    expect_message("HcclCommInitRootInfo", "not one that HcclGetRootInfo has made");
    EXPECT_EQ(HcclCommInitRootInfo(2, &info, 2, comms), HCCL_E_PARA);
    EXPECT_EQ(HcclCommInitRootInfo(2, nullptr, 0, comms), HCCL_E_PTR);
    HcclCommConfig config = {};
    EXPECT_EQ(HcclCommInitRootInfoConfig(2, &info, 0, &config, comms), HCCL_E_PARA);
    expect_message("HcclCommInitRootInfoConfig", "HcclCommConfigInit");
    HcclCommConfigInit(&config);
    uint32_t ids[] = {0, 1}, other[] = {1, 0};
    EXPECT_EQ(HcclCreateSubCommConfig(&comm, 2, nullptr, 0xFFFFFFFF, 0, &config, comms), 0);  // no member
    EXPECT_EQ(HcclCreateSubCommConfig(&comm, 2, nullptr, 1, 0, &config, comms), HCCL_E_PARA);
    EXPECT_EQ(HcclCreateSubCommConfig(&comm, 2, ids, 0xFFFFFFFF, 0, &config, comms), HCCL_E_PARA);
    EXPECT_EQ(HcclCreateSubCommConfig(&comm, 0, ids, 1, 0, &config, comms), HCCL_E_PARA);
    EXPECT_EQ(HcclCreateSubCommConfig(&comm, 2, ids, 1, 2, &config, comms), HCCL_E_PARA);
    EXPECT_EQ(HcclCreateSubCommConfig(&comm, 2, ids, 1, 0, nullptr, comms), HCCL_E_PTR);
    EXPECT_EQ(HcclCreateSubCommConfig(&comm, 2, other, 1, 0, &config, comms), HCCL_E_PARA);
    EXPECT_EQ(HcclCommGetHandleWithName("nobody", comms), HCCL_E_NOT_FOUND);
    EXPECT_EQ(HcclCommSuspend(comm), HCCL_E_NOT_SUPPORT);
    EXPECT_EQ(HcclCommDestroy(nullptr), HCCL_E_PTR);
    for (int code = 0; code < 26; ++code) EXPECT_STRNE(HcclGetErrorString(static_cast<HcclResult>(code)), "");
    HcclConfigValue value{1};
    EXPECT_EQ(HcclSetConfig(HCCL_DETERMINISTIC, value), 0);
    value.value = 7;
    EXPECT_EQ(HcclSetConfig(HCCL_DETERMINISTIC, value), HCCL_E_PARA);
    EXPECT_EQ(HcclGetConfig(HCCL_DETERMINISTIC, &value), 0);
    EXPECT_EQ(value.value, 1);
    EXPECT_GT(HcclGetCommConfigCapability(), 11u);
}

// Another release's structure is shorter: what lies behind its end is not looked at.
TEST_F(Refusals, ShorterConfiguration) {
    HcclCommConfig config;
    HcclCommConfigInit(&config);
    const size_t size = offsetof(HcclCommConfig, hcclUdi);
    std::memcpy(config.reserved, &size, sizeof size);
    std::strcpy(config.hcclCommName, "short");
    config.hcclExecTimeOut = 1;
    uint32_t ids[] = {0};
    HcclComm sub = nullptr;
    ASSERT_EQ(HcclCreateSubCommConfig(&comm, 1, ids, 5, 0, &config, &sub), 0) << take_message();
    char name[128];
    EXPECT_EQ(HcclGetCommName(sub, name), 0);
    EXPECT_STREQ(name, "short");
    all_reduce_ones(sub, stream, 1);
    EXPECT_EQ(HcclCommDestroy(sub), 0);
}

}  // namespace
}  // namespace gradus::testing
