// Hccl: communicators.
#include <algorithm>
#include <cstring>
#include <set>

#include "hccl/api.h"
#include "hccl/local.h"
#include "hccl/rendezvous.h"
#include "hccl/types.h"
#include "runtime/context.h"

namespace gradus::hccl {

Result<std::shared_ptr<Communicator>> find_comm(HcclComm handle) {
    if (handle == nullptr) return Status(HCCL_E_PTR, "comm: NULL");
    auto comm = Communicators::instance().find(handle);
    if (!comm) return Status(HCCL_E_PARA, "comm: not a live communicator (destroyed before, or not a communicator)");
    return comm;
}

namespace {

Result<HcclEnvironment> environment() {
    auto e = hccl_environment();
    if (!e.ok()) return Status(HCCL_E_PARA, e.status().message());
    return e;
}

// ---- What a communicator is made with

Result<Membership> membership_of(uint32_t rank, uint32_t ranks, const Wishes& wishes, const HcclEnvironment& e) {
    if (ranks == 0 || ranks > kMostRanks)
        return Status(HCCL_E_PARA, concat("nRanks: ", ranks, ", expected 1 to ", kMostRanks));
    if (rank >= ranks) return Status(HCCL_E_PARA, concat("rank: ", rank, ", expected less than ", ranks));
    auto context = current_context();
    if (!context.ok())
        return Status(HCCL_E_RUNTIME, concat(context.status().message(), " (aclrtSetDevice comes first)"));
    Membership membership;
    membership.rank = rank, membership.ranks = ranks;
    membership.name = wishes.name;
    membership.device = context->context->device();
    membership.exec_timeout_s = wishes.exec_timeout_s >= 0 ? wishes.exec_timeout_s : e.exec_timeout_s;
    return membership;
}

struct RootInit final : Init {
    HcclEnvironment environment;
    MeetingPoint at;
    Membership membership;
    Result<std::shared_ptr<Communicator>> run() const override { return join(at, environment, "", membership); }
};

struct TableInit final : Init {
    HcclEnvironment environment;
    std::string path;
    Membership membership;
    Result<std::shared_ptr<Communicator>> run() const override {
        return join_by_rank_table(path.c_str(), environment, membership);
    }
};

struct SubInit final : Init {
    std::shared_ptr<Communicator> of;
    std::vector<uint32_t> ids;
    uint64_t number = 0;
    Membership membership;
    const Communicator* parent() const override { return of.get(); }

    Status check_new() const {
        std::shared_ptr<Communicator> last;  // perhaps its last owner: it goes without the lock
        const Lock lock = hold();
        if (const auto known = of->splits.find({number, ids}); known != of->splits.end()) last = known->second.lock();
        if (!last || last->ended) return {};
        return {HCCL_E_PARA, concat("subCommId: ", number, " of these ranks is there already")};
    }

    Result<std::shared_ptr<Communicator>> run() const override {
        GRADUS_TRY(check_new());  // again: those before it in a group have been made
        const std::pair key(number, ids);
        decltype(Communicator::splits) place{{key, {}}};
        auto made = of->split(ids, number, membership);
        if (!made.ok()) return made;
        const Lock lock = hold();
        of->splits.merge(place);  // nothing, where there was one before
        of->splits.find(key)->second = *made;
        return made;
    }
};

Status init_by_root_info(uint32_t ranks, const HcclRootInfo* info, uint32_t rank, const HcclCommConfig* config,
                         HcclComm* comm) {
    GRADUS_TRY(not_null(kHccl, "rootInfo", info));
    GRADUS_TRY(not_null(kHccl, "comm", comm));
    const auto e = environment();
    if (!e.ok()) return e.status();
    const auto wishes = read_wishes(config);
    if (!wishes.ok()) return wishes.status();
    auto membership = membership_of(rank, ranks, *wishes, *e);
    if (!membership.ok()) return membership.status();
    auto at = read_root_info(*info);
    if (!at.ok()) return at.status();
    auto init = std::make_unique<RootInit>();
    init->environment = *e, init->at = std::move(*at), init->membership = std::move(*membership), init->comm = comm;
    return make_communicator(std::move(init));
}

Status init_by_rank_table(const char* path, uint32_t rank, const HcclCommConfig* config, HcclComm* comm) {
    GRADUS_TRY(not_null(kHccl, "clusterInfo", path));
    GRADUS_TRY(not_null(kHccl, "comm", comm));
    constexpr size_t kMostPath = 4096;
    if (strnlen(path, kMostPath + 1) > kMostPath)
        return {HCCL_E_PARA, concat("clusterInfo: longer than ", uint64_t{kMostPath}, " bytes")};
    const auto e = environment();
    if (!e.ok()) return e.status();
    const auto wishes = read_wishes(config);
    if (!wishes.ok()) return wishes.status();
    auto membership = membership_of(rank, kMostRanks, *wishes, *e);
    if (!membership.ok()) return membership.status();
    auto init = std::make_unique<TableInit>();
    init->environment = *e, init->path = path, init->membership = std::move(*membership), init->comm = comm;
    return make_communicator(std::move(init));
}

Status init_all(uint32_t count, const int32_t* devices, HcclComm* comms) {
    GRADUS_TRY(not_null(kHccl, "devices", devices));
    GRADUS_TRY(not_null(kHccl, "comms", comms));
    if (count == 0 || count > kMostRanks) return {HCCL_E_PARA, concat("ndev: ", count, ", expected 1 to ", kMostRanks)};
    std::set<int32_t> seen;
    for (uint32_t i = 0; i < count; ++i) {
        if (!seen.insert(devices[i]).second) return {HCCL_E_PARA, concat("devices: ", devices[i], " is there twice")};
        if (const Status known = check_device("devices", devices[i]); !known.ok())
            return {HCCL_E_PARA, known.message()};
    }
    const auto e = environment();
    if (!e.ok()) return e.status();
    const auto random = random_key();
    if (!random.ok()) return random.status();
    if (e->transport == HcclTransport::shared || e->transport == HcclTransport::gloo) {
        // for tests of the others: the same ranks through a meeting point
        auto at = open_meeting_point(*e);
        if (!at.ok()) return at.status();
        std::vector<std::unique_ptr<Init>> inits;
        for (uint32_t i = 0; i < count; ++i) {
            auto init = std::make_unique<RootInit>();
            init->environment = *e, init->at = *at, init->comm = comms + i;
            init->membership.rank = i, init->membership.ranks = count, init->membership.device = devices[i];
            init->membership.exec_timeout_s = e->exec_timeout_s;
            inits.push_back(std::move(init));
        }
        return make_together(inits);
    }
    std::vector<std::shared_ptr<Communicator>> made;
    for (uint32_t i = 0; i < count; ++i) {
        auto group = join_local_group(*random, count, i);
        if (!group.ok()) return group.status();
        Membership membership;
        membership.rank = i, membership.ranks = count, membership.device = devices[i];
        membership.exec_timeout_s = e->exec_timeout_s;
        membership.name = membership.group = world_name(*random);
        made.push_back(make_local(std::move(*group), std::move(membership)));
    }
    std::vector<HcclComm> handles;
    handles.reserve(count);
    try {
        for (auto& comm : made) handles.push_back(Communicators::instance().add(std::move(comm)));
    } catch (...) {
        for (HcclComm handle : handles) Communicators::instance().take(handle);
        throw;
    }
    std::copy(handles.begin(), handles.end(), comms);
    return {};
}

constexpr uint64_t kNoMember = 0xFFFFFFFF;

Status check_members(const Communicator& parent, uint32_t count, const uint32_t* ids, uint32_t sub_rank) {
    if (count == 0 || count > parent.is.ranks)
        return {HCCL_E_PARA, concat("rankNum: ", count, ", expected 1 to ", parent.is.ranks)};
    if (sub_rank >= count) return {HCCL_E_PARA, concat("subCommRankId: ", sub_rank, ", expected less than ", count)};
    std::set<uint32_t> seen;
    for (uint32_t i = 0; i < count; ++i) {
        if (ids[i] >= parent.is.ranks)
            return {HCCL_E_PARA, concat("rankIds: ", ids[i], ", expected less than ", parent.is.ranks)};
        if (!seen.insert(ids[i]).second) return {HCCL_E_PARA, concat("rankIds: ", ids[i], " is there twice")};
    }
    if (ids[sub_rank] != parent.is.rank)
        return {HCCL_E_PARA, concat("rankIds: ", ids[sub_rank], " at subCommRankId ", sub_rank,
                                    ", expected this rank, ", parent.is.rank)};
    return {};
}

// Of a long name the end is left out: the number is what tells its sub-communicators apart, from it and each other.
std::string sub_name(const std::string& parent, uint64_t number) {
    const std::string end = "_sub_" + std::to_string(number);
    return parent.substr(0, COMM_NAME_MAX_LENGTH - 1 - end.size()) + end;
}

Status create_sub(HcclComm* handle, uint32_t count, uint32_t* ids, uint64_t number, uint32_t sub_rank,
                  const HcclCommConfig* config, HcclComm* sub) {
    GRADUS_TRY(not_null(kHccl, "comm", handle));
    GRADUS_TRY(not_null(kHccl, "config", config));
    if ((ids == nullptr) != (number == kNoMember))
        return {HCCL_E_PARA, concat("rankIds: ", ids == nullptr ? "NULL" : "given", " with subCommId ", number,
                                    ", expected NULL and 4294967295 together, from a rank that is no member")};
    if (ids == nullptr) return {};
    GRADUS_TRY(not_null(kHccl, "subComm", sub));
    const auto parent = find_comm(*handle);
    if (!parent.ok()) return parent.status();
    if ((*parent)->is.is_sub) return {HCCL_E_PARA, "comm: is a sub-communicator itself"};
    GRADUS_TRY((*parent)->check_alive());
    GRADUS_TRY(check_members(**parent, count, ids, sub_rank));
    const auto wishes = read_wishes(config);
    if (!wishes.ok()) return wishes.status();
    Membership membership = (*parent)->is;
    membership.rank = sub_rank, membership.ranks = count, membership.is_sub = true;
    membership.group += "_sub_" + std::to_string(number);
    membership.name = !wishes->name.empty() ? wishes->name : sub_name((*parent)->is.name, number);
    if (wishes->exec_timeout_s >= 0) membership.exec_timeout_s = wishes->exec_timeout_s;
    if (!wishes->name.empty()) GRADUS_TRY(check_name(membership));
    auto init = std::make_unique<SubInit>();
    init->of = std::move(*parent), init->ids.assign(ids, ids + count), init->number = number;
    init->membership = std::move(membership), init->comm = sub;
    GRADUS_TRY(init->check_new());
    return make_communicator(std::move(init));
}

Status destroy(HcclComm handle) {
    const auto comm = find_comm(handle);
    if (!comm.ok()) return comm.status();
    {
        const Lock lock = hold();
        if ((*comm)->pending > 0 && !(*comm)->lost_in_fork())
            return {HCCL_E_AGAIN,
                    concat("comm: ", (*comm)->pending, " calls are queued; aclrtSynchronizeStream first")};
    }
    if (!Communicators::instance().take(handle)) return {HCCL_E_PARA, "comm: is being destroyed by another thread"};
    {
        const Lock lock = hold();
        (*comm)->ended = true;
    }
    (*comm)->leave();
    return {};
}

// Of several ranks in this process, that of the calling thread's device.
Result<HcclComm> find_by_name(const char* name) {
    const auto context = current_context();
    HcclComm found = nullptr;
    for (const auto& [handle, comm] : Communicators::instance().entries()) {
        if (!comm || comm->is.name != name) continue;  // none: it is being made
        const bool here = context.ok() && context->context->device() == comm->is.device;
        if (found == nullptr || here) found = handle;
        if (here) break;
    }
    if (found == nullptr) return Status(HCCL_E_NOT_FOUND, concat("no communicator is called '", name, "'"));
    return found;
}

Status not_supported(HcclComm handle, const char* what) {
    if (const auto comm = find_comm(handle); !comm.ok()) return comm.status();
    return {HCCL_E_NOT_SUPPORT, concat(what, " belongs to the device; a CPU has nothing to suspend")};
}

}  // namespace
}  // namespace gradus::hccl

using namespace gradus;        // NOLINT(google-build-using-namespace)
using namespace gradus::hccl;  // NOLINT(google-build-using-namespace)

extern "C" {

HcclResult HcclGetRootInfo(HcclRootInfo* rootInfo) {
    return guarded_hccl(__func__, [&]() -> Status {
        GRADUS_TRY(not_null(kHccl, "rootInfo", rootInfo));
        const auto e = environment();
        if (!e.ok()) return e.status();
        const auto at = open_meeting_point(*e);
        if (!at.ok()) return at.status();
        write_root_info(*at, *rootInfo);
        return {};
    });
}

HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank, HcclComm* comm) {
    return guarded_hccl(__func__, [&] { return init_by_root_info(nRanks, rootInfo, rank, nullptr, comm); });
}

HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank,
                                      const HcclCommConfig* config, HcclComm* comm) {
    return guarded_hccl(__func__, [&]() -> Status {
        GRADUS_TRY(not_null(kHccl, "config", config));
        return init_by_root_info(nRanks, rootInfo, rank, config, comm);
    });
}

HcclResult HcclCommInitClusterInfo(const char* clusterInfo, uint32_t rank, HcclComm* comm) {
    return guarded_hccl(__func__, [&] { return init_by_rank_table(clusterInfo, rank, nullptr, comm); });
}

HcclResult HcclCommInitClusterInfoConfig(const char* clusterInfo, uint32_t rank, HcclCommConfig* config,
                                         HcclComm* comm) {
    return guarded_hccl(__func__, [&]() -> Status {
        GRADUS_TRY(not_null(kHccl, "config", config));
        return init_by_rank_table(clusterInfo, rank, config, comm);
    });
}

HcclResult HcclCommInitAll(uint32_t ndev, int32_t* devices, HcclComm* comms) {
    return guarded_hccl(__func__, [&] { return init_all(ndev, devices, comms); });
}

HcclResult HcclCreateSubCommConfig(HcclComm* comm, uint32_t rankNum, uint32_t* rankIds, uint64_t subCommId,
                                   uint32_t subCommRankId, HcclCommConfig* config, HcclComm* subComm) {
    return guarded_hccl(__func__,
                        [&] { return create_sub(comm, rankNum, rankIds, subCommId, subCommRankId, config, subComm); });
}

HcclResult HcclCommDestroy(HcclComm comm) {
    return guarded_hccl(__func__, [&] { return destroy(comm); });
}

HcclResult HcclGetRankSize(HcclComm comm, uint32_t* rankSize) {
    return guarded_hccl(__func__, [&]() -> Status {
        const auto found = find_comm(comm);
        if (!found.ok()) return found.status();
        GRADUS_TRY(not_null(kHccl, "rankSize", rankSize));
        *rankSize = (*found)->is.ranks;
        return {};
    });
}

HcclResult HcclGetRankId(HcclComm comm, uint32_t* rank) {
    return guarded_hccl(__func__, [&]() -> Status {
        const auto found = find_comm(comm);
        if (!found.ok()) return found.status();
        GRADUS_TRY(not_null(kHccl, "rank", rank));
        *rank = (*found)->is.rank;
        return {};
    });
}

HcclResult HcclGetCommName(HcclComm comm, char* commName) {
    return guarded_hccl(__func__, [&]() -> Status {
        const auto found = find_comm(comm);
        if (!found.ok()) return found.status();
        GRADUS_TRY(not_null(kHccl, "commName", commName));
        const std::string& name = (*found)->is.name;  // shorter than COMM_NAME_MAX_LENGTH
        std::memcpy(commName, name.c_str(), name.size() + 1);
        return {};
    });
}

HcclResult HcclCommGetHandleWithName(const char* commName, HcclComm* comm) {
    return guarded_hccl(__func__, [&]() -> Status {
        GRADUS_TRY(not_null(kHccl, "commName", commName));
        GRADUS_TRY(not_null(kHccl, "comm", comm));
        const auto found = find_by_name(commName);
        if (!found.ok()) return found.status();
        *comm = *found;
        return {};
    });
}

HcclResult HcclCommGetStatus(const char* commId, HcclCommStatus* status) {
    return guarded_hccl(__func__, [&]() -> Status {
        GRADUS_TRY(not_null(kHccl, "commId", commId));
        GRADUS_TRY(not_null(kHccl, "status", status));
        const auto handle = find_by_name(commId);
        if (!handle.ok()) return handle.status();
        const auto comm = find_comm(*handle);
        if (!comm.ok()) return comm.status();
        *status = (*comm)->failure().ok() ? HCCL_COMM_STATUS_READY : HCCL_COMM_STATUS_INVALID;
        return {};
    });
}

HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult* asyncError) {
    return guarded_hccl(__func__, [&]() -> Status {
        const auto found = find_comm(comm);
        if (!found.ok()) return found.status();
        GRADUS_TRY(not_null(kHccl, "asyncError", asyncError));
        *asyncError = static_cast<HcclResult>((*found)->failure().code());
        return {};
    });
}

HcclResult HcclCommSuspend(HcclComm comm) {
    return guarded_hccl(__func__, [&] { return not_supported(comm, "HcclCommSuspend"); });
}
HcclResult HcclCommResume(HcclComm comm) {
    return guarded_hccl(__func__, [&] { return not_supported(comm, "HcclCommResume"); });
}

}  // extern "C"
