// Hccl: the collectives. Each writes down which bytes go where; nothing here knows how.
#include <cstring>

#include "hccl/api.h"
#include "hccl/types.h"

namespace gradus::hccl {
namespace {

struct Call {
    std::shared_ptr<Communicator> comm;
    aclrtStream stream;
    Collective c;

    uint32_t rank() const { return comm->is.rank; }
    uint32_t ranks() const { return comm->is.ranks; }
    Status go() { return submit(comm, std::move(c), stream); }
};

// The checks that all share, in the order of the device's.
Status begin(Call& call, Kind kind, HcclComm comm, aclrtStream stream) {
    GRADUS_TRY(not_null(kHccl, "stream", stream));
    auto found = find_comm(comm);
    if (!found.ok()) return found.status();
    GRADUS_TRY(enter_group_as(GroupKind::collectives));
    call.comm = std::move(*found);
    call.stream = stream;
    call.c.terms.kind = kind;
    call.c.out.assign(call.ranks(), {});
    call.c.in.assign(call.ranks(), {});
    return {};
}

Status set_type(Call& call, uint64_t count, HcclDataType type) {
    GRADUS_TRY(check_count("count", count));
    GRADUS_TRY(check_type("dataType", type));
    call.c.terms.type = type;
    call.c.terms.count = count;
    return {};
}

Status set_reduction(Call& call, uint64_t count, HcclDataType type, HcclReduceOp op, bool with_counts = false) {
    GRADUS_TRY(check_count("count", count));
    const auto settings = config();
    if (!settings.ok()) return {HCCL_E_PARA, settings.status().message()};
    GRADUS_TRY(check_reduction(type, op, with_counts, settings->limits));
    call.c.terms.type = type;
    call.c.terms.op = op;
    call.c.terms.count = count;
    return {};
}

Status set_buffers(Call& call, const void* send, const void* recv) {
    GRADUS_TRY(check_aligned("sendBuf", send, call.c.terms.type));
    GRADUS_TRY(check_aligned("recvBuf", recv, call.c.terms.type));
    call.c.send = static_cast<const std::byte*>(send);
    call.c.recv = static_cast<std::byte*>(const_cast<void*>(recv));  // NOLINT: so the interface has it
    return {};
}

// Of a list of the interface.
uint64_t number(const void* list, size_t i) {
    uint64_t value;
    std::memcpy(&value, static_cast<const char*>(list) + i * sizeof value, sizeof value);
    return value;
}

bool all_zero(const void* list, size_t size) {
    for (size_t i = 0; i < size; ++i)
        if (number(list, i) != 0) return false;
    return true;
}

Status check_counts(const char* argument, const void* list, size_t size) {
    for (size_t i = 0; i < size; ++i) GRADUS_TRY(check_count(argument, number(list, i)));
    return {};
}

// Counts and displacements of all ranks, in elements.
void read_blocks(const void* counts, const void* displacements, HcclDataType type, std::vector<Block>& blocks) {
    const uint64_t size = size_of(type);
    for (size_t i = 0; i < blocks.size(); ++i) {
        const uint64_t count = number(counts, i), offset = number(displacements, i);
        if (count > 0) blocks[i] = {offset * size, count * size};  // else nowhere: there may be no buffer
    }
}

// The buffers are apart, or as one of the ways of working in place has them: `allowed` of the receive buffer's address.
Status check_overlap(const Call& call, bool allowed) {
    const std::vector<Footprint> list = footprints_of(call.c, Gaps::joined);
    if (allowed || list.size() < 2 || list[0].begin + list[0].bytes <= list[1].begin ||
        list[1].begin + list[1].bytes <= list[0].begin)
        return {};
    return {HCCL_E_PARA, "recvBuf: overlaps sendBuf"};
}

Status all_reduce(void* send, void* recv, uint64_t count, HcclDataType type, HcclReduceOp op, uint32_t root, Kind kind,
                  HcclComm comm, aclrtStream stream) {
    if (count == 0) return {};
    Call call;
    GRADUS_TRY(begin(call, kind, comm, stream));
    GRADUS_TRY(not_null(kHccl, "sendBuf", send));
    GRADUS_TRY(not_null(kHccl, "recvBuf", recv));
    GRADUS_TRY(set_reduction(call, count, type, op));
    GRADUS_TRY(set_buffers(call, send, recv));
    GRADUS_TRY(check_rank("root", root, call.ranks()));
    call.c.terms.root = root;
    const Block whole{0, count * size_of(type)};
    for (uint32_t r = 0; r < call.ranks(); ++r)
        if (kind == Kind::all_reduce || r == root) call.c.out[r] = whole;
    call.c.in[0] = call.c.out[call.rank()];
    GRADUS_TRY(check_overlap(call, send == recv));
    return call.go();
}

Status reduce_scatter(void* send, void* recv, uint64_t count, HcclDataType type, HcclReduceOp op, HcclComm comm,
                      aclrtStream stream) {
    if (count == 0) return {};
    Call call;
    GRADUS_TRY(begin(call, Kind::reduce_scatter, comm, stream));
    GRADUS_TRY(not_null(kHccl, "sendBuf", send));
    GRADUS_TRY(not_null(kHccl, "recvBuf", recv));
    GRADUS_TRY(set_reduction(call, count, type, op));
    GRADUS_TRY(set_buffers(call, send, recv));
    const uint64_t bytes = count * size_of(type);
    for (uint32_t r = 0; r < call.ranks(); ++r) call.c.out[r] = {r * bytes, bytes};
    call.c.in[0] = {0, bytes};
    GRADUS_TRY(check_overlap(call, call.c.recv == call.c.send || call.c.recv == call.c.send + call.rank() * bytes));
    return call.go();
}

Status reduce_scatter_v(void* send, const void* counts, const void* displacements, void* recv, uint64_t count,
                        HcclDataType type, HcclReduceOp op, HcclComm comm, aclrtStream stream) {
    Call call;
    GRADUS_TRY(begin(call, Kind::reduce_scatter_v, comm, stream));
    GRADUS_TRY(not_null(kHccl, "sendCounts", counts));
    GRADUS_TRY(not_null(kHccl, "sendDispls", displacements));
    if (count == 0 && all_zero(counts, call.ranks())) return {};
    GRADUS_TRY(not_null(kHccl, "sendBuf", send));
    if (count > 0) GRADUS_TRY(not_null(kHccl, "recvBuf", recv));
    GRADUS_TRY(check_counts("sendCounts", counts, call.ranks()));
    GRADUS_TRY(check_counts("sendDispls", displacements, call.ranks()));
    GRADUS_TRY(set_reduction(call, count, type, op, true));
    call.c.terms.count = 0;  // every rank has its own
    GRADUS_TRY(set_buffers(call, send, recv));
    read_blocks(counts, displacements, type, call.c.out);
    const Block& own = call.c.out[call.rank()];
    if (own.bytes != count * size_of(type))
        return {HCCL_E_PARA, concat("recvCount: ", count, ", expected ", own.bytes / size_of(type),
                                    ", what sendCounts has for rank ", call.rank())};
    call.c.in[0] = {0, own.bytes};
    GRADUS_TRY(check_overlap(call, call.c.recv == call.c.send + own.offset));
    return call.go();
}

Status broadcast(void* buffer, uint64_t count, HcclDataType type, uint32_t root, HcclComm comm, aclrtStream stream) {
    if (count == 0) return {};
    Call call;
    GRADUS_TRY(begin(call, Kind::broadcast, comm, stream));
    GRADUS_TRY(not_null(kHccl, "buf", buffer));
    GRADUS_TRY(set_type(call, count, type));
    GRADUS_TRY(set_buffers(call, buffer, buffer));
    GRADUS_TRY(check_rank("root", root, call.ranks()));
    call.c.terms.root = root;
    const Block whole{0, count * size_of(type)};
    if (call.rank() == root) call.c.out.assign(call.ranks(), whole);
    call.c.in[root] = whole;
    return call.go();
}

Status scatter(void* send, void* recv, uint64_t count, HcclDataType type, uint32_t root, HcclComm comm,
               aclrtStream stream) {
    if (count == 0) return {};
    Call call;
    GRADUS_TRY(begin(call, Kind::scatter, comm, stream));
    if (call.rank() == root) GRADUS_TRY(not_null(kHccl, "sendBuf", send));
    GRADUS_TRY(not_null(kHccl, "recvBuf", recv));
    GRADUS_TRY(set_type(call, count, type));
    GRADUS_TRY(set_buffers(call, send, recv));
    GRADUS_TRY(check_rank("root", root, call.ranks()));
    call.c.terms.root = root;
    const uint64_t bytes = count * size_of(type);
    for (uint32_t r = 0; call.rank() == root && r < call.ranks(); ++r) call.c.out[r] = {r * bytes, bytes};
    call.c.in[root] = {0, bytes};
    GRADUS_TRY(check_overlap(call, call.c.recv == call.c.send || call.c.recv == call.c.send + root * bytes));
    return call.go();
}

Status all_gather(void* send, void* recv, uint64_t count, HcclDataType type, HcclComm comm, aclrtStream stream) {
    if (count == 0) return {};
    Call call;
    GRADUS_TRY(begin(call, Kind::all_gather, comm, stream));
    GRADUS_TRY(not_null(kHccl, "sendBuf", send));
    GRADUS_TRY(not_null(kHccl, "recvBuf", recv));
    GRADUS_TRY(set_type(call, count, type));
    GRADUS_TRY(set_buffers(call, send, recv));
    const uint64_t bytes = count * size_of(type);
    for (uint32_t r = 0; r < call.ranks(); ++r) call.c.out[r] = {0, bytes}, call.c.in[r] = {r * bytes, bytes};
    GRADUS_TRY(check_overlap(call, call.c.send == call.c.recv || call.c.send == call.c.recv + call.rank() * bytes));
    return call.go();
}

Status all_gather_v(void* send, uint64_t count, void* recv, const void* counts, const void* displacements,
                    HcclDataType type, HcclComm comm, aclrtStream stream) {
    Call call;
    GRADUS_TRY(begin(call, Kind::all_gather_v, comm, stream));
    GRADUS_TRY(not_null(kHccl, "recvCounts", counts));
    GRADUS_TRY(not_null(kHccl, "recvDispls", displacements));
    if (count == 0 && all_zero(counts, call.ranks())) return {};
    if (count > 0) GRADUS_TRY(not_null(kHccl, "sendBuf", send));
    GRADUS_TRY(not_null(kHccl, "recvBuf", recv));
    GRADUS_TRY(check_counts("recvCounts", counts, call.ranks()));
    GRADUS_TRY(check_counts("recvDispls", displacements, call.ranks()));
    GRADUS_TRY(set_type(call, count, type));
    call.c.terms.count = 0;  // every rank has its own
    GRADUS_TRY(set_buffers(call, send, recv));
    read_blocks(counts, displacements, type, call.c.in);
    call.c.out.assign(call.ranks(), {0, count * size_of(type)});
    const Block& own = call.c.in[call.rank()];
    if (own.bytes != count * size_of(type))
        return {HCCL_E_PARA, concat("sendCount: ", count, ", expected ", own.bytes / size_of(type),
                                    ", what recvCounts has for rank ", call.rank())};
    GRADUS_TRY(check_overlap(call, call.c.send == call.c.recv + own.offset));
    return call.go();
}

// A rank that sends or receives nothing needs no buffer for it.
Status need_buffers(const void* send, bool sends, const void* recv, bool receives) {
    if (sends) GRADUS_TRY(not_null(kHccl, "sendBuf", send));
    if (receives) GRADUS_TRY(not_null(kHccl, "recvBuf", recv));
    return {};
}

Status set_all_to_all(Call& call, const void* send, HcclDataType send_type, const void* recv, HcclDataType recv_type) {
    GRADUS_TRY(check_type("sendType", send_type));
    GRADUS_TRY(check_type("recvType", recv_type));
    if (send_type != recv_type)
        return {HCCL_E_PARA, concat("recvType: ", name_of(recv_type), ", expected sendType, ", name_of(send_type))};
    if (send == recv && send != nullptr) return {HCCL_E_PARA, "recvBuf: is sendBuf, expected another"};
    call.c.terms.type = send_type;
    return set_buffers(call, send, recv);
}

Status all_to_all(const void* send, uint64_t send_count, HcclDataType send_type, const void* recv, uint64_t recv_count,
                  HcclDataType recv_type, HcclComm comm, aclrtStream stream) {
    if (send_count == 0 && recv_count == 0) return {};
    Call call;
    GRADUS_TRY(begin(call, Kind::all_to_all, comm, stream));
    GRADUS_TRY(need_buffers(send, true, recv, true));
    GRADUS_TRY(check_count("sendCount", send_count));
    GRADUS_TRY(check_count("recvCount", recv_count));
    GRADUS_TRY(set_all_to_all(call, send, send_type, recv, recv_type));
    if (send_count != recv_count)
        return {HCCL_E_PARA, concat("recvCount: ", recv_count, ", expected sendCount, ", send_count)};
    call.c.terms.count = send_count;
    const uint64_t bytes = send_count * size_of(send_type);
    for (uint32_t r = 0; r < call.ranks(); ++r) call.c.out[r] = call.c.in[r] = {r * bytes, bytes};
    GRADUS_TRY(check_overlap(call, false));
    return call.go();
}

Status all_to_all_v(const void* send, const void* send_counts, const void* send_displacements, HcclDataType send_type,
                    const void* recv, const void* recv_counts, const void* recv_displacements, HcclDataType recv_type,
                    HcclComm comm, aclrtStream stream) {
    Call call;
    GRADUS_TRY(begin(call, Kind::all_to_all_v, comm, stream));
    GRADUS_TRY(not_null(kHccl, "sendCounts", send_counts));
    GRADUS_TRY(not_null(kHccl, "sdispls", send_displacements));
    GRADUS_TRY(not_null(kHccl, "recvCounts", recv_counts));
    GRADUS_TRY(not_null(kHccl, "rdispls", recv_displacements));
    // and goes on where both are zeros: others may have something for each other
    const bool sends = !all_zero(send_counts, call.ranks()), receives = !all_zero(recv_counts, call.ranks());
    GRADUS_TRY(need_buffers(send, sends, recv, receives));
    GRADUS_TRY(check_counts("sendCounts", send_counts, call.ranks()));
    GRADUS_TRY(check_counts("sdispls", send_displacements, call.ranks()));
    GRADUS_TRY(check_counts("recvCounts", recv_counts, call.ranks()));
    GRADUS_TRY(check_counts("rdispls", recv_displacements, call.ranks()));
    GRADUS_TRY(set_all_to_all(call, send, send_type, recv, recv_type));
    read_blocks(send_counts, send_displacements, send_type, call.c.out);
    read_blocks(recv_counts, recv_displacements, recv_type, call.c.in);
    GRADUS_TRY(check_overlap(call, false));
    return call.go();
}

Status all_to_all_vc(const void* send, const void* matrix, HcclDataType send_type, const void* recv,
                     HcclDataType recv_type, HcclComm comm, aclrtStream stream) {
    Call call;
    GRADUS_TRY(begin(call, Kind::all_to_all_vc, comm, stream));
    GRADUS_TRY(not_null(kHccl, "sendCountMatrix", matrix));
    if (all_zero(matrix, size_t{call.ranks()} * call.ranks())) return {};
    const uint32_t ranks = call.ranks(), rank = call.rank();
    const uint64_t size = size_of(send_type);
    const auto count = [&](uint32_t from, uint32_t to) { return number(matrix, size_t{from} * ranks + to); };
    bool sends = false, receives = false;
    for (uint32_t r = 0; r < ranks; ++r) sends |= count(rank, r) != 0, receives |= count(r, rank) != 0;
    GRADUS_TRY(need_buffers(send, sends, recv, receives));
    GRADUS_TRY(check_counts("sendCountMatrix", matrix, size_t{ranks} * ranks));
    GRADUS_TRY(set_all_to_all(call, send, send_type, recv, recv_type));
    uint64_t sent = 0, received = 0;  // blocks lie one behind the other
    for (uint32_t r = 0; r < ranks; ++r) {
        call.c.out[r] = {sent, count(rank, r) * size};
        call.c.in[r] = {received, count(r, rank) * size};
        sent += call.c.out[r].bytes;
        received += call.c.in[r].bytes;
    }
    GRADUS_TRY(check_overlap(call, false));
    return call.go();
}

Status barrier(HcclComm comm, aclrtStream stream) {
    Call call;
    GRADUS_TRY(begin(call, Kind::barrier, comm, stream));
    return call.go();
}

}  // namespace
}  // namespace gradus::hccl

using namespace gradus::hccl;  // NOLINT(google-build-using-namespace)

extern "C" {

HcclResult HcclAllReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
                         HcclComm comm, aclrtStream stream) {
    return guarded_hccl(
        __func__, [&] { return all_reduce(sendBuf, recvBuf, count, dataType, op, 0, Kind::all_reduce, comm, stream); });
}

HcclResult HcclReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
                      uint32_t root, HcclComm comm, aclrtStream stream) {
    return guarded_hccl(
        __func__, [&] { return all_reduce(sendBuf, recvBuf, count, dataType, op, root, Kind::reduce, comm, stream); });
}

HcclResult HcclReduceScatter(void* sendBuf, void* recvBuf, uint64_t recvCount, HcclDataType dataType, HcclReduceOp op,
                             HcclComm comm, aclrtStream stream) {
    return guarded_hccl(__func__,
                        [&] { return reduce_scatter(sendBuf, recvBuf, recvCount, dataType, op, comm, stream); });
}

HcclResult HcclReduceScatterV(void* sendBuf, const void* sendCounts, const void* sendDispls, void* recvBuf,
                              uint64_t recvCount, HcclDataType dataType, HcclReduceOp op, HcclComm comm,
                              aclrtStream stream) {
    return guarded_hccl(__func__, [&] {
        return reduce_scatter_v(sendBuf, sendCounts, sendDispls, recvBuf, recvCount, dataType, op, comm, stream);
    });
}

HcclResult HcclBroadcast(void* buf, uint64_t count, HcclDataType dataType, uint32_t root, HcclComm comm,
                         aclrtStream stream) {
    return guarded_hccl(__func__, [&] { return broadcast(buf, count, dataType, root, comm, stream); });
}

HcclResult HcclScatter(void* sendBuf, void* recvBuf, uint64_t recvCount, HcclDataType dataType, uint32_t root,
                       HcclComm comm, aclrtStream stream) {
    return guarded_hccl(__func__, [&] { return scatter(sendBuf, recvBuf, recvCount, dataType, root, comm, stream); });
}

HcclResult HcclAllGather(void* sendBuf, void* recvBuf, uint64_t sendCount, HcclDataType dataType, HcclComm comm,
                         aclrtStream stream) {
    return guarded_hccl(__func__, [&] { return all_gather(sendBuf, recvBuf, sendCount, dataType, comm, stream); });
}

HcclResult HcclAllGatherV(void* sendBuf, uint64_t sendCount, void* recvBuf, const void* recvCounts,
                          const void* recvDispls, HcclDataType dataType, HcclComm comm, aclrtStream stream) {
    return guarded_hccl(__func__, [&] {
        return all_gather_v(sendBuf, sendCount, recvBuf, recvCounts, recvDispls, dataType, comm, stream);
    });
}

HcclResult HcclAlltoAll(const void* sendBuf, uint64_t sendCount, HcclDataType sendType, const void* recvBuf,
                        uint64_t recvCount, HcclDataType recvType, HcclComm comm, aclrtStream stream) {
    return guarded_hccl(
        __func__, [&] { return all_to_all(sendBuf, sendCount, sendType, recvBuf, recvCount, recvType, comm, stream); });
}

HcclResult HcclAlltoAllV(const void* sendBuf, const void* sendCounts, const void* sdispls, HcclDataType sendType,
                         const void* recvBuf, const void* recvCounts, const void* rdispls, HcclDataType recvType,
                         HcclComm comm, aclrtStream stream) {
    return guarded_hccl(__func__, [&] {
        return all_to_all_v(sendBuf, sendCounts, sdispls, sendType, recvBuf, recvCounts, rdispls, recvType, comm,
                            stream);
    });
}

HcclResult HcclAlltoAllVC(const void* sendBuf, const void* sendCountMatrix, HcclDataType sendType, const void* recvBuf,
                          HcclDataType recvType, HcclComm comm, aclrtStream stream) {
    return guarded_hccl(
        __func__, [&] { return all_to_all_vc(sendBuf, sendCountMatrix, sendType, recvBuf, recvType, comm, stream); });
}

HcclResult HcclBarrier(HcclComm comm, aclrtStream stream) {
    return guarded_hccl(__func__, [&] { return barrier(comm, stream); });
}

}  // extern "C"
