// Collectives of one rank, which is all that a test without other ranks can have.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "cases.h"

namespace gradus::faults {
namespace {

constexpr auto kF32 = HCCL_DATA_TYPE_FP32;
constexpr auto kSum = HCCL_REDUCE_SUM;
int32_t devices[] = {0};
uint32_t ids[] = {0};
const uint64_t counts[] = {4}, displacements[] = {0};

void with_comm(World& w) {
    EXPECT_EQ(HcclCommInitAll(1, devices, &w.comm), 0);
    HcclCommConfigInit(&w.config);
}
void with_info(World& w) {
    EXPECT_EQ(HcclGetRootInfo(&w.info), 0);
    HcclCommConfigInit(&w.config);
}
void with_config(World& w) { HcclCommConfigInit(&w.config); }

const char* rank_table() {
    static const std::string path = [] {
        std::string name = ::testing::TempDir() + "gradus_table_XXXXXX";
        const int file = mkstemp(name.data());
        const std::string text =
            "{\"server_list\":[{\"server_id\":\"" + name + "\",\"device\":[{\"rank_id\":\"0\"}]}]}";
        if (file < 0 || write(file, text.data(), text.size()) < 0) std::abort();
        close(file);
        std::atexit([] { std::remove(rank_table()); });
        return name;
    }();
    return path.c_str();
}

int finished(World& w, int code) { return code != 0 ? code : aclrtSynchronizeStream(w.stream); }

void add_communicators(Adder add) {
    rank_table();  // made while memory is to be had
    const auto with = [](Case& added) -> Case& { return added.prepare = with_comm, added; };
    Case& root = add.works("HcclGetRootInfo", [](World& w) { return HcclGetRootInfo(&w.info); });
    root.stays = root.needs_thread = true;  // its thread, for a while
    add.refuses("HcclGetRootInfo", HCCL_E_PTR, "rootInfo: NULL", [](World&) { return HcclGetRootInfo(nullptr); });
    for (Case* c : {&add.works("HcclCommInitRootInfo",
                               [](World& w) { return HcclCommInitRootInfo(1, &w.info, 0, &w.out.comm); })}) {
        c->prepare = with_info;
        c->stays = c->spends = true;
    }
    Case& configured = add.works("HcclCommInitRootInfoConfig", [](World& w) {
        return HcclCommInitRootInfoConfig(1, &w.info, 0, &w.config, &w.out.comm);
    });
    configured.prepare = with_info, configured.stays = configured.spends = true;
    Case& table = add.works("HcclCommInitClusterInfo",
                            [](World& w) { return HcclCommInitClusterInfo(rank_table(), 0, &w.out.comm); });
    table.stays = table.needs_thread = true;
    Case& table2 = add.works("HcclCommInitClusterInfoConfig", [](World& w) {
        return HcclCommInitClusterInfoConfig(rank_table(), 0, &w.config, &w.out.comm);
    });
    table2.prepare = with_config;
    table2.stays = table2.needs_thread = true;
    add.works("HcclCommInitAll", [](World& w) { return HcclCommInitAll(1, devices, &w.out.comm); });
    add.refuses("HcclCommInitAll", HCCL_E_PARA, "ndev: 0",
                [](World& w) { return HcclCommInitAll(0, devices, &w.out.comm); });
    with(add.works("HcclCreateSubCommConfig",
                   [](World& w) { return HcclCreateSubCommConfig(&w.comm, 1, ids, 1, 0, &w.config, &w.out.comm); }));
    with(add.works("HcclCommDestroy", [](World& w) { return HcclCommDestroy(w.comm); }));
    add.refuses("HcclCommDestroy", HCCL_E_PARA, "not a live", [](World& w) { return HcclCommDestroy(&w); });
    with(add.works("HcclGetRankSize", [](World& w) { return HcclGetRankSize(w.comm, as<uint32_t>(w.out.code)); }));
    with(add.works("HcclGetRankId", [](World& w) { return HcclGetRankId(w.comm, as<uint32_t>(w.out.code)); }));
    with(add.works("HcclGetCommName", [](World& w) { return HcclGetCommName(w.comm, w.name); }));
    with(add.works("HcclGetCommAsyncError",
                   [](World& w) { return HcclGetCommAsyncError(w.comm, as<HcclResult>(w.out.code)); }));
    const auto named = [](World& w) {
        with_comm(w);
        EXPECT_EQ(HcclGetCommName(w.comm, w.name), 0);
    };
    add.works("HcclCommGetHandleWithName",
              [](World& w) {
                  HcclComm found = nullptr;
                  const int code = HcclCommGetHandleWithName(w.name, &found);
                  return code == 0 && found != w.comm ? -1 : code;
              })
        .prepare = named;
    add.works("HcclCommGetStatus", [](World& w) { return HcclCommGetStatus(w.name, as<HcclCommStatus>(w.out.code)); })
        .prepare = named;
    add.works("HcclGetErrorString", [](World&) { return is(HcclGetErrorString(HCCL_E_PTR) != nullptr); });
    add.works("HcclSetConfig", [](World&) { return HcclSetConfig(HCCL_DETERMINISTIC, HcclConfigValue{1}); });
    add.works("HcclGetConfig",
              [](World& w) { return HcclGetConfig(HCCL_DETERMINISTIC, as<HcclConfigValue>(w.out.code)); });
    add.works("HcclGetCommConfigCapability", [](World&) { return is(HcclGetCommConfigCapability() > 0); });
    add.works("HcclGroupStart", [](World&) { return HcclGroupStart(); });
    add.works("HcclGroupEnd", [](World&) { return HcclGroupEnd(); }).prepare = [](World&) { HcclGroupStart(); };
    add.refuses("HcclGroupEnd", HCCL_E_PARA, "no HcclGroupStart", [](World&) { return HcclGroupEnd(); });
    add.works("HcclGroupStatusGet", [](World&) {
        bool inside = true;
        return HcclGroupStatusGet(&inside);
    });
    with(
        add.refuses("HcclCommSuspend", HCCL_E_NOT_SUPPORT, "device", [](World& w) { return HcclCommSuspend(w.comm); }));
    with(add.refuses("HcclCommResume", HCCL_E_NOT_SUPPORT, "device", [](World& w) { return HcclCommResume(w.comm); }));
}

void add_operators(Adder add) {
    const auto with = [](Case& added) -> Case& { return added.prepare = with_comm, added; };
    with(add.works("HcclAllReduce", [](World& w) {
        return finished(w, HcclAllReduce(w.device, w.device + 64, 4, kF32, kSum, w.comm, w.stream));
    }));
    with(add.refuses("HcclAllReduce", HCCL_E_PTR, "stream: NULL",
                     [](World& w) { return HcclAllReduce(w.device, w.device, 4, kF32, kSum, w.comm, nullptr); }));
    with(add.works("HcclReduce", [](World& w) {
        return finished(w, HcclReduce(w.device, w.device, 4, kF32, kSum, 0, w.comm, w.stream));
    }));
    with(add.works("HcclReduceScatter", [](World& w) {
        return finished(w, HcclReduceScatter(w.device, w.device + 64, 4, kF32, kSum, w.comm, w.stream));
    }));
    with(add.works("HcclReduceScatterV", [](World& w) {
        return finished(
            w, HcclReduceScatterV(w.device, counts, displacements, w.device + 64, 4, kF32, kSum, w.comm, w.stream));
    }));
    with(add.works("HcclBroadcast",
                   [](World& w) { return finished(w, HcclBroadcast(w.device, 4, kF32, 0, w.comm, w.stream)); }));
    with(add.works("HcclScatter", [](World& w) {
        return finished(w, HcclScatter(w.device, w.device + 64, 4, kF32, 0, w.comm, w.stream));
    }));
    with(add.works("HcclAllGather", [](World& w) {
        return finished(w, HcclAllGather(w.device, w.device + 64, 4, kF32, w.comm, w.stream));
    }));
    with(add.works("HcclAllGatherV", [](World& w) {
        return finished(w, HcclAllGatherV(w.device, 4, w.device + 64, counts, displacements, kF32, w.comm, w.stream));
    }));
    with(add.works("HcclAlltoAll", [](World& w) {
        return finished(w, HcclAlltoAll(w.device, 4, kF32, w.device + 64, 4, kF32, w.comm, w.stream));
    }));
    with(add.works("HcclAlltoAllV", [](World& w) {
        return finished(w, HcclAlltoAllV(w.device, counts, displacements, kF32, w.device + 64, counts, displacements,
                                         kF32, w.comm, w.stream));
    }));
    with(add.works("HcclAlltoAllVC", [](World& w) {
        return finished(w, HcclAlltoAllVC(w.device, counts, kF32, w.device + 64, kF32, w.comm, w.stream));
    }));
    with(add.works("HcclBatchSendRecv", [](World& w) {
        HcclSendRecvItem items[] = {{HCCL_SEND, w.device, 4, kF32, 0}, {HCCL_RECV, w.device + 64, 4, kF32, 0}};
        return finished(w, HcclBatchSendRecv(items, 2, w.comm, w.stream));
    }));
    with(add.works("HcclBarrier", [](World& w) { return finished(w, HcclBarrier(w.comm, w.stream)); }));
    // a rank alone has nobody to send to
    with(add.refuses("HcclSend", HCCL_E_PARA, "expected another rank",
                     [](World& w) { return HcclSend(w.device, 4, kF32, 0, w.comm, w.stream); }));
    with(add.refuses("HcclRecv", HCCL_E_PARA, "expected another rank",
                     [](World& w) { return HcclRecv(w.device, 4, kF32, 0, w.comm, w.stream); }));
}

}  // namespace

void add_hccl_cases(Cases& cases) {
    setenv("HCCL_CONNECT_TIMEOUT", "1", 1);  // meeting points to which nobody comes go soon
    for (const auto add : {add_communicators, add_operators}) add(Adder(cases));
}

}  // namespace gradus::faults
