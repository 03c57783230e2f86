// The device's checks, in its order, of every operator: a call with all mistakes at once is mended one by one. And
// which types and operations each of them takes.
#include "gradus/gradus.h"
#include "numbers.h"
#include "ranks.h"
#include "testing/runtime.h"

namespace gradus::testing {
namespace {

constexpr auto kNoType = static_cast<HcclDataType>(13);
constexpr auto kNoOp = static_cast<HcclReduceOp>(4);
constexpr uint64_t kTooMany = 0x800000000;

struct Arguments {
    void *send = nullptr, *recv = nullptr;
    uint64_t count = kTooMany;
    HcclDataType type = kNoType;
    HcclReduceOp op = kNoOp;
    uint32_t root = 1;  // of one rank
    HcclComm comm = nullptr;
    aclrtStream stream = nullptr;
};

enum What : unsigned { kSends = 1, kReceives = 2, kReduces = 4, kRooted = 8, kCounts = 16 };

struct Operator {
    const char* name;
    unsigned what;
    const char *send, *count, *type, *root;  // as it calls them
    HcclResult (*call)(const Arguments& a);
};

constexpr uint64_t kNowhere[] = {0};

const Operator kOperators[] = {
    {"HcclAllReduce", kSends | kReceives | kReduces, "sendBuf", "count", "dataType", "",
     [](const Arguments& a) { return HcclAllReduce(a.send, a.recv, a.count, a.type, a.op, a.comm, a.stream); }},
    {"HcclReduce", kSends | kReceives | kReduces | kRooted, "sendBuf", "count", "dataType", "root",
     [](const Arguments& a) { return HcclReduce(a.send, a.recv, a.count, a.type, a.op, a.root, a.comm, a.stream); }},
    {"HcclReduceScatter", kSends | kReceives | kReduces, "sendBuf", "count", "dataType", "",
     [](const Arguments& a) { return HcclReduceScatter(a.send, a.recv, a.count, a.type, a.op, a.comm, a.stream); }},
    {"HcclReduceScatterV", kSends | kReceives | kReduces | kCounts, "sendBuf", "sendCounts", "dataType", "",
     [](const Arguments& a) {
         return HcclReduceScatterV(a.send, &a.count, kNowhere, a.recv, a.count, a.type, a.op, a.comm, a.stream);
     }},
    {"HcclBroadcast", kSends | kRooted, "buf", "count", "dataType", "root",
     [](const Arguments& a) { return HcclBroadcast(a.send, a.count, a.type, a.root, a.comm, a.stream); }},
    {"HcclScatter", kReceives | kRooted, "", "count", "dataType", "root",  // its sendBuf: below
     [](const Arguments& a) { return HcclScatter(a.recv, a.recv, a.count, a.type, a.root, a.comm, a.stream); }},
    {"HcclAllGather", kSends | kReceives, "sendBuf", "count", "dataType", "",
     [](const Arguments& a) { return HcclAllGather(a.send, a.recv, a.count, a.type, a.comm, a.stream); }},
    {"HcclAllGatherV", kSends | kReceives | kCounts, "sendBuf", "recvCounts", "dataType", "",
     [](const Arguments& a) {
         return HcclAllGatherV(a.send, a.count, a.recv, &a.count, kNowhere, a.type, a.comm, a.stream);
     }},
    {"HcclAlltoAll", kSends | kReceives, "sendBuf", "sendCount", "sendType", "",
     [](const Arguments& a) {
         return HcclAlltoAll(a.send, a.count, a.type, a.recv, a.count, a.type, a.comm, a.stream);
     }},
    {"HcclAlltoAllV", kSends | kReceives | kCounts, "sendBuf", "sendCounts", "sendType", "",
     [](const Arguments& a) {
         return HcclAlltoAllV(a.send, &a.count, kNowhere, a.type, a.recv, &a.count, kNowhere, a.type, a.comm, a.stream);
     }},
    {"HcclAlltoAllVC", kSends | kReceives | kCounts, "sendBuf", "sendCountMatrix", "sendType", "",
     [](const Arguments& a) { return HcclAlltoAllVC(a.send, &a.count, a.type, a.recv, a.type, a.comm, a.stream); }},
    {"HcclSend", kSends | kRooted, "sendBuf", "count", "dataType", "destRank",
     [](const Arguments& a) { return HcclSend(a.send, a.count, a.type, a.root, a.comm, a.stream); }},
    {"HcclRecv", kReceives | kRooted, "", "count", "dataType", "srcRank",
     [](const Arguments& a) { return HcclRecv(a.recv, a.count, a.type, a.root, a.comm, a.stream); }},
};

class Checks : public ::testing::Test {
  protected:
    World w{1, "local"};
    Buffer x{1024}, y{1024};

    static void expect(const Operator& o, const Arguments& a, int code, const std::string& words) {
        take_message();
        EXPECT_EQ(o.call(a), code) << o.name << ", " << words;
        expect_message(o.name, words);
    }
    Arguments sound(HcclDataType type, HcclReduceOp op) const {
        return {x.data(), y.data(), 8, type, op, 0, w.comms[0], w.streams[0]};
    }
};

TEST_F(Checks, InTheOrderOfTheDevice) {
    for (const Operator& o : kOperators) {
        SCOPED_TRACE(o.name);
        Arguments a;
        if ((o.what & kCounts) == 0) {  // a list says more than one rank's count
            a.count = 0;
            EXPECT_EQ(o.call(a), HCCL_SUCCESS);
            a.count = kTooMany;
        }
        expect(o, a, HCCL_E_PTR, "stream: NULL");
        a.stream = w.streams[0];
        expect(o, a, HCCL_E_PTR, "comm: NULL");
        a.comm = w.comms[0];
        if ((o.what & kSends) != 0) expect(o, a, HCCL_E_PTR, std::string(o.send) + ": NULL");
        a.send = x.data();
        if ((o.what & kReceives) != 0) expect(o, a, HCCL_E_PTR, "recvBuf: NULL");
        a.recv = y.data();
        expect(o, a, HCCL_E_PARA, std::string(o.count) + ": 34359738368, expected at most 34359738367");
        a.count = 1;
        expect(o, a, HCCL_E_NOT_SUPPORT, std::string(o.type) + ": 13");
        a.type = HCCL_DATA_TYPE_FP32;
        if ((o.what & kReduces) != 0) expect(o, a, HCCL_E_NOT_SUPPORT, "op: 4");
        a.op = HCCL_REDUCE_SUM;
        if ((o.what & kRooted) != 0) expect(o, a, HCCL_E_PARA, std::string(o.root) + ": 1, expected less than 1");
        a.root = 0;
        const bool alone = std::string(o.root).ends_with("Rank");  // nobody sends to itself alone
        if (alone) continue;
        EXPECT_EQ(o.call(a), 0) << take_message();
        a.count = kTooMany - 1;  // the most that may be asked for, and more than there is
        EXPECT_EQ(o.call(a), HCCL_E_PARA);
        EXPECT_EQ(take_message().find("expected at most"), std::string::npos);
    }
    EXPECT_EQ(HcclScatter(nullptr, nullptr, 1, kNoType, 0, w.comms[0], w.streams[0]), HCCL_E_PTR);
    expect_message("HcclScatter", "sendBuf: NULL");
    for (const int code : w.synchronize()) EXPECT_EQ(code, 0) << take_message();
}

TEST_F(Checks, Batches) {
    HcclSendRecvItem item{HCCL_SEND, nullptr, kTooMany, kNoType, 1};
    HcclComm comm = w.comms[0];
    aclrtStream stream = w.streams[0];
    EXPECT_EQ(HcclBatchSendRecv(nullptr, 0, nullptr, nullptr), 0);
    const auto expect = [&](int code, const char* words, HcclComm c, aclrtStream s, HcclSendRecvItem* items) {
        EXPECT_EQ(HcclBatchSendRecv(items, 1, c, s), code) << words;
        expect_message("HcclBatchSendRecv", words);
    };
    expect(HCCL_E_PTR, "stream: NULL", nullptr, nullptr, nullptr);
    expect(HCCL_E_PTR, "comm: NULL", nullptr, stream, nullptr);
    expect(HCCL_E_PTR, "sendRecvInfo: NULL", comm, stream, nullptr);
    item.sendRecvType = HCCL_SEND_RECV_RESERVED;
    expect(HCCL_E_PARA, "sendRecvType: 2", comm, stream, &item);
    item.sendRecvType = HCCL_SEND;
    expect(HCCL_E_PTR, ": NULL", comm, stream, &item);
    item.buf = x.data();
    expect(HCCL_E_PARA, "count: 34359738368", comm, stream, &item);
    item.count = 1;
    expect(HCCL_E_NOT_SUPPORT, "dataType: 13", comm, stream, &item);
    item.dataType = HCCL_DATA_TYPE_FP32;
    expect(HCCL_E_PARA, ": 1, expected less than 1", comm, stream, &item);
    item.count = 0, item.buf = nullptr;
    EXPECT_EQ(HcclBatchSendRecv(&item, 1, comm, stream), 0) << take_message();
}

// Each refused by each, and taken where it is to be taken.
TEST_F(Checks, TypesAndOperations) {
    for (const char* limits : {"on", "off"}) {
        ASSERT_EQ(gradusSetOption("limits", limits), 0);
        const bool any = std::string(limits) == "off";
        for (const Operator& o : kOperators) {
            if (std::string(o.root).ends_with("Rank")) continue;
            const bool reduces = (o.what & kReduces) != 0, with_counts = (o.what & kCounts) != 0;
            for (const Type& t : kReduced)
                for (const HcclReduceOp op : {HCCL_REDUCE_SUM, HCCL_REDUCE_PROD, HCCL_REDUCE_MAX, HCCL_REDUCE_MIN}) {
                    const bool never = op == HCCL_REDUCE_PROD && (with_counts || t.type == HCCL_DATA_TYPE_INT16 ||
                                                                  t.type == HCCL_DATA_TYPE_BFP16);
                    const bool taken = !reduces || any || (t.on_device && !never);
                    EXPECT_EQ(o.call(sound(t.type, op)), taken ? HCCL_SUCCESS : HCCL_E_NOT_SUPPORT)
                        << o.name << " " << t.name << " op " << op << ", limits " << limits;
                    if (!taken) expect_message(o.name, "GRADUS_LIMITS=off");
                }
            for (const Type& t : kOnlyMoved) {
                EXPECT_EQ(o.call(sound(t.type, HCCL_REDUCE_MAX)), reduces ? HCCL_E_NOT_SUPPORT : HCCL_SUCCESS)
                    << o.name << " " << t.name << ", limits " << limits;
                if (reduces) expect_message(o.name, "can be moved, not reduced");
            }
            EXPECT_EQ(o.call(sound(HCCL_DATA_TYPE_RESERVED, HCCL_REDUCE_SUM)), HCCL_E_NOT_SUPPORT) << o.name;
        }
        for (const int code : w.synchronize()) EXPECT_EQ(code, 0) << take_message();
    }
    gradusSetOption("limits", "on");
}

}  // namespace
}  // namespace gradus::testing
