// Hccl: from one rank to another.
#include "hccl/api.h"
#include "hccl/types.h"

namespace gradus::hccl {
namespace {

Status check_transfer(const Communicator& comm, const char* buffer, const Transfer& t) {
    GRADUS_TRY(not_null(kHccl, buffer, t.data));
    GRADUS_TRY(check_count("count", t.count));
    GRADUS_TRY(check_type("dataType", t.type));
    GRADUS_TRY(check_aligned(buffer, t.data, t.type));
    return check_rank(t.sends ? "destRank" : "srcRank", t.peer, comm.is.ranks);
}

Transfer transfer_of(bool sends, void* data, uint64_t count, HcclDataType type, uint32_t peer) {
    return {sends, peer, type, count, static_cast<std::byte*>(data), count * size_of(type)};
}

Status send_or_receive(bool sends, void* data, uint64_t count, HcclDataType type, uint32_t peer, HcclComm handle,
                       aclrtStream stream) {
    if (count == 0) return {};
    GRADUS_TRY(not_null(kHccl, "stream", stream));
    const auto comm = find_comm(handle);
    if (!comm.ok()) return comm.status();
    const Transfer t = transfer_of(sends, data, count, type, peer);
    GRADUS_TRY(check_transfer(**comm, sends ? "sendBuf" : "recvBuf", t));
    if (peer == (*comm)->is.rank && !in_group())
        return {HCCL_E_PARA, concat(sends ? "destRank" : "srcRank", ": ", peer, ", expected another rank")};
    return add_transfer(*comm, t, stream);
}

Status batch(const HcclSendRecvItem* items, uint32_t count, HcclComm handle, aclrtStream stream) {
    if (count == 0) return {};
    GRADUS_TRY(not_null(kHccl, "stream", stream));
    const auto comm = find_comm(handle);
    if (!comm.ok()) return comm.status();
    GRADUS_TRY(not_null(kHccl, "sendRecvInfo", items));
    GRADUS_TRY(enter_group_as(GroupKind::transfers));
    Batch transfers;
    for (uint32_t i = 0; i < count; ++i) {
        const HcclSendRecvItem& item = items[i];
        if (item.sendRecvType != HCCL_SEND && item.sendRecvType != HCCL_RECV)
            return {HCCL_E_PARA, concat("sendRecvType: ", static_cast<int>(item.sendRecvType), ", expected 0 or 1")};
        if (item.count == 0) continue;
        transfers.push_back(
            transfer_of(item.sendRecvType == HCCL_SEND, item.buf, item.count, item.dataType, item.remoteRank));
        GRADUS_TRY(check_transfer(**comm, "buf", transfers.back()));
    }
    if (transfers.empty()) return {};
    return submit(*comm, std::move(transfers), stream);
}

}  // namespace
}  // namespace gradus::hccl

using namespace gradus::hccl;  // NOLINT(google-build-using-namespace)

extern "C" {

HcclResult HcclSend(void* sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank, HcclComm comm,
                    aclrtStream stream) {
    return guarded_hccl(__func__,
                        [&] { return send_or_receive(true, sendBuf, count, dataType, destRank, comm, stream); });
}

HcclResult HcclRecv(void* recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank, HcclComm comm,
                    aclrtStream stream) {
    return guarded_hccl(__func__,
                        [&] { return send_or_receive(false, recvBuf, count, dataType, srcRank, comm, stream); });
}

HcclResult HcclBatchSendRecv(HcclSendRecvItem* sendRecvInfo, uint32_t itemNum, HcclComm comm, aclrtStream stream) {
    return guarded_hccl(__func__, [&] { return batch(sendRecvInfo, itemNum, comm, stream); });
}

}  // extern "C"
