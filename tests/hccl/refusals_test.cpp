// What is refused, in the order of the device's checks, and what the structures of other releases are taken for.
#include <cstring>

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
    constexpr auto kNoType = static_cast<HcclDataType>(13);  // a count comes before a type
    EXPECT_EQ(HcclAlltoAll(x.data(), 0x800000000, kNoType, y.data(), 1, kNoType, comm, stream), HCCL_E_PARA);
    EXPECT_EQ(HcclAlltoAll(x.data(), 1, kNoType, y.data(), 0x800000000, kNoType, comm, stream), HCCL_E_PARA);
    EXPECT_EQ(HcclAlltoAll(x.data(), 1, kNoType, y.data(), 1, kNoType, comm, stream), HCCL_E_NOT_SUPPORT);
    EXPECT_EQ(HcclSend(x.data(), 1, kF32, 0, comm, stream), HCCL_E_PARA);
    EXPECT_EQ(HcclSend(x.data(), 1, kF32, 7, comm, stream), HCCL_E_PARA);
    EXPECT_EQ(HcclAllReduce(x.data(), y.data(), 1, kF32, kSum, comm, w.streams[1]), HCCL_E_PARA);
    expect_message("HcclAllReduce", "of device 1, the communicator is of device 0");
    for (const int code : w.synchronize()) EXPECT_EQ(code, 0);
}

// Nothing to do needs no buffers, but the lists that say so.
TEST_F(Refusals, NothingToDo) {
    const uint64_t none[] = {0, 0, 0, 0}, some[] = {0, 0, 0, 1}, places[] = {0, 8};
    EXPECT_EQ(HcclReduceScatterV(nullptr, none, places, nullptr, 0, kF32, kSum, comm, stream), 0) << take_message();
    EXPECT_EQ(HcclAllGatherV(nullptr, 0, nullptr, none, places, kF32, comm, stream), 0) << take_message();
    EXPECT_EQ(HcclAlltoAllVC(nullptr, none, kF32, nullptr, kF32, comm, stream), 0) << take_message();
    EXPECT_EQ(HcclReduceScatterV(nullptr, nullptr, places, nullptr, 0, kF32, kSum, comm, stream), HCCL_E_PTR);
    expect_message("HcclReduceScatterV", "sendCounts: NULL");
    EXPECT_EQ(HcclAllGatherV(nullptr, 0, nullptr, nullptr, places, kF32, comm, stream), HCCL_E_PTR);
    expect_message("HcclAllGatherV", "recvCounts: NULL");
    EXPECT_EQ(HcclAlltoAllV(nullptr, none, places, kF32, nullptr, nullptr, places, kF32, comm, stream), HCCL_E_PTR);
    expect_message("HcclAlltoAllV", "recvCounts: NULL");
    EXPECT_EQ(HcclAlltoAllVC(nullptr, nullptr, kF32, nullptr, kF32, comm, stream), HCCL_E_PTR);
    EXPECT_EQ(HcclReduceScatterV(nullptr, some + 2, places, nullptr, 0, kF32, kSum, comm, stream), HCCL_E_PTR);
    expect_message("HcclReduceScatterV", "sendBuf: NULL");
    EXPECT_EQ(HcclAllGatherV(nullptr, 0, nullptr, some + 2, places, kF32, comm, stream), HCCL_E_PTR);
    expect_message("HcclAllGatherV", "recvBuf: NULL");
    EXPECT_EQ(HcclAlltoAllV(nullptr, some + 2, places, kF32, nullptr, none, places, kF32, comm, stream), HCCL_E_PTR);
    expect_message("HcclAlltoAllV", "sendBuf: NULL");
    // here a rank does not know what the others have for each other, and takes part: rank 0 with nothing at all
    for (const char* transport : transports()) {
        World all(2, transport);
        floats(x)[0] = 7, floats(y)[0] = 0;
        EXPECT_EQ(HcclAlltoAllV(nullptr, none, places, kF32, nullptr, none, places, kF32, all.comms[0], all.streams[0]),
                  0)
            << take_message();
        EXPECT_EQ(
            HcclAlltoAllV(x.data(), some + 2, none, kF32, y.data(), some + 2, none, kF32, all.comms[1], all.streams[1]),
            0)
            << take_message();
        for (uint32_t r = 0; r < 2; ++r)
            EXPECT_EQ(HcclAlltoAllVC(r == 1 ? x.data() : nullptr, some, kF32, r == 1 ? y.data() + 8 : nullptr, kF32,
                                     all.comms[r], all.streams[r]),
                      0)
                << take_message();
        for (const int code : all.synchronize()) EXPECT_EQ(code, 0) << take_message();
        EXPECT_EQ(floats(y)[0], 7) << transport;
        EXPECT_EQ(floats(y)[2], 7) << transport;
    }
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
    HcclConfigValue value{-1};
    {
        const Variable asked("HCCL_DETERMINISTIC", "strict");
        EXPECT_EQ(HcclGetConfig(HCCL_DETERMINISTIC, &value), 0);
        EXPECT_EQ(value.value, 2);
    }
    {
        const Variable asked("HCCL_DETERMINISTIC", "");
        EXPECT_EQ(HcclGetConfig(HCCL_DETERMINISTIC, &value), 0);
        EXPECT_EQ(value.value, 0) << "as if it were not there";
    }
    {
        const Variable asked("HCCL_DETERMINISTIC", "perhaps");
        EXPECT_EQ(HcclGetConfig(HCCL_DETERMINISTIC, &value), HCCL_E_PARA);
        expect_message("HcclGetConfig", "expected false, true or strict");
    }
    EXPECT_EQ(HcclGetConfig(HCCL_DETERMINISTIC, &value), 0);
    EXPECT_EQ(value.value, 0);
    value.value = 1;
    EXPECT_EQ(HcclSetConfig(HCCL_DETERMINISTIC, value), 0);
    value.value = 7;
    EXPECT_EQ(HcclSetConfig(HCCL_DETERMINISTIC, value), HCCL_E_PARA);
    EXPECT_EQ(HcclGetConfig(HCCL_DETERMINISTIC, &value), 0);
    EXPECT_EQ(value.value, 1);
    EXPECT_GT(HcclGetCommConfigCapability(), 11u);
}

TEST_F(Refusals, Environment) {
    const struct {
        const char *name, *value, *words;
    } wrong[] = {
        {"HCCL_CONNECT_TIMEOUT", "0", "expected a number from 1 to 7200"},
        {"HCCL_CONNECT_TIMEOUT", "7201", "expected a number from 1 to 7200"},
        {"HCCL_EXEC_TIMEOUT", "-1", "expected a number from 0"},
        {"HCCL_EXEC_TIMEOUT", "soon", "expected a number from 0"},
        {"HCCL_IF_BASE_PORT", "65521", "expected a number from 1024 to 65520"},
        {"HCCL_IF_IP", "nowhere", "'nowhere' is not an IP address"},
        {"HCCL_SOCKET_IFNAME", "=nosuch0", "no interface fits '=nosuch0'"},
        {"HCCL_SOCKET_IFNAME", ",", "no interface fits ','"},
        {"HCCL_SOCKET_FAMILY", "IPV6", "expected AF_INET or AF_INET6"},
        {"GRADUS_HCCL_TRANSPORT", "mpi", "expected auto, local, shared or gloo"},
    };
    HcclRootInfo info;
    for (const auto& variable : wrong) {
        const Variable set(variable.name, variable.value);
        EXPECT_EQ(HcclGetRootInfo(&info), HCCL_E_PARA) << variable.name;
        expect_message("HcclGetRootInfo", variable.words);
    }
    for (const char* family : {"AF_INET", "AF_INET6"}) {
        const Variable set("HCCL_SOCKET_FAMILY", family);
        EXPECT_EQ(HcclGetRootInfo(&info), 0) << take_message();
    }
}

TEST_F(Refusals, Configurations) {
    HcclRootInfo info;
    ASSERT_EQ(HcclGetRootInfo(&info), 0) << take_message();
    HcclCommConfig config;
    HcclComm made = nullptr, other = nullptr;
    EXPECT_EQ(aclrtSetDevice(0), 0);
    const auto refused = [&](const char* words) {
        EXPECT_EQ(HcclCommInitRootInfoConfig(1, &info, 0, &config, &made), HCCL_E_PARA) << words;
        expect_message("HcclCommInitRootInfoConfig", words);
    };
    HcclCommConfigInit(&config);
    config.hcclDeterministic = 77;
    refused("hcclDeterministic is 77, expected 0, 1 or 2");
    HcclCommConfigInit(&config);
    config.hcclExecTimeOut = -5;
    refused("hcclExecTimeOut is -5");
    const auto set_version = [&](uint32_t version) { std::memcpy(config.reserved + 12, &version, sizeof version); };
    HcclCommConfigInit(&config);
    set_version(0);
    refused("was not prepared by HcclCommConfigInit");
    // a version knows what came with it: names with 2, time-outs with 8; and of a later one, what is known here
    for (const uint32_t version : {1u, 2u, 7u, 8u, 12u}) {
        HcclCommConfigInit(&config);
        set_version(version);
        std::strcpy(config.hcclCommName, "version");
        config.hcclExecTimeOut = -5;
        const int code = HcclCommInitRootInfoConfig(1, &info, 0, &config, &made);
        EXPECT_EQ(code, version < 8 ? HCCL_SUCCESS : HCCL_E_PARA) << version << take_message();
        if (code != 0) continue;
        char name[128];
        EXPECT_EQ(HcclGetCommName(made, name), 0);
        EXPECT_EQ(std::string(name) == "version", version >= 2) << name;
        EXPECT_EQ(HcclCommDestroy(made), 0);
        ASSERT_EQ(HcclGetRootInfo(&info), 0) << take_message();
    }
    // a name is of one communicator
    HcclCommConfigInit(&config);
    std::strcpy(config.hcclCommName, "one");
    ASSERT_EQ(HcclCommInitRootInfoConfig(1, &info, 0, &config, &made), 0) << take_message();
    ASSERT_EQ(HcclGetRootInfo(&info), 0) << take_message();
    EXPECT_EQ(HcclCommInitRootInfoConfig(1, &info, 0, &config, &other), HCCL_E_PARA);
    expect_message("HcclCommInitRootInfoConfig", "'one' is the name of another communicator of device 0");
    uint32_t ids[] = {0};
    EXPECT_EQ(HcclCreateSubCommConfig(&comm, 1, ids, 5, 0, &config, &other), HCCL_E_PARA);
    expect_message("HcclCreateSubCommConfig", "'one' is the name of another communicator of device 0");
    EXPECT_EQ(HcclCommDestroy(made), 0);
    EXPECT_EQ(HcclCreateSubCommConfig(&comm, 1, ids, 5, 0, &config, &other), 0) << take_message();
    EXPECT_EQ(HcclCommDestroy(other), 0);
}

// Names have 127 characters at most, and a communicator's and its parts' are different.
TEST_F(Refusals, LongNames) {
    HcclRootInfo info;
    HcclCommConfig config, none;
    HcclCommConfigInit(&config), HcclCommConfigInit(&none);
    HcclComm named = nullptr, sub = nullptr, found = nullptr;
    ASSERT_EQ(aclrtSetDevice(0) + HcclGetRootInfo(&info), 0) << take_message();
    std::memset(config.hcclCommName, 'n', 128);
    EXPECT_EQ(HcclCommInitRootInfoConfig(1, &info, 0, &config, &named), HCCL_E_PARA);
    expect_message("HcclCommInitRootInfoConfig", "hcclCommName has no end, expected at most 127 characters");
    config.hcclCommName[127] = '\0';
    ASSERT_EQ(HcclCommInitRootInfoConfig(1, &info, 0, &config, &named), 0) << take_message();
    uint32_t ids[] = {0};
    ASSERT_EQ(HcclCreateSubCommConfig(&named, 1, ids, 12, 0, &none, &sub), 0) << take_message();
    char name[129] = {};
    name[128] = 'x';
    EXPECT_EQ(HcclGetCommName(named, name), 0);
    EXPECT_EQ(std::string(name), std::string(127, 'n'));
    EXPECT_EQ(HcclGetCommName(sub, name), 0);
    EXPECT_EQ(std::string(name), std::string(120, 'n') + "_sub_12");
    EXPECT_EQ(HcclCommGetHandleWithName(name, &found), 0);
    EXPECT_EQ(found, sub);
    EXPECT_EQ(name[128], 'x');
    EXPECT_EQ(HcclCommDestroy(sub) + HcclCommDestroy(named), 0) << take_message();
}

// A root info with another key is nobody's.
TEST_F(Refusals, RootInfoOfAnother) {
    HcclRootInfo info;
    HcclComm made = nullptr;
    ASSERT_EQ(aclrtSetDevice(0) + HcclGetRootInfo(&info), 0) << take_message();
    info.internal[8] ^= 1;
    EXPECT_EQ(HcclCommInitRootInfo(1, &info, 0, &made), HCCL_E_REMOTE);
    expect_message("HcclCommInitRootInfo", "this is not the root info that it has made");
    info.internal[8] ^= 1;
    EXPECT_EQ(HcclCommInitRootInfo(1, &info, 0, &made), 0) << take_message();
    EXPECT_EQ(HcclCommDestroy(made), 0);
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
