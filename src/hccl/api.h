// What the extern "C" functions of collectives share.
#pragma once

#include <string>

#include "base/boundary.h"
#include "hccl/communicator.h"
#include "hccl/hccl.h"

namespace gradus::hccl {

inline constexpr BoundaryCodes kHccl{HCCL_E_PTR, HCCL_E_MEMORY, HCCL_E_INTERNAL};

template <typename F>
HcclResult guarded_hccl(const char* function, const F& f) noexcept {
    return static_cast<HcclResult>(guarded(function, kHccl, f));
}

Result<std::shared_ptr<Communicator>> find_comm(HcclComm handle);  // HCCL_E_PTR, HCCL_E_PARA

// What a program asks of a communicator beside its ranks; config may be NULL. HCCL_E_PARA.
struct Wishes {
    std::string name;
    int exec_timeout_s = -1;
};
Result<Wishes> read_wishes(const HcclCommConfig* config);

// ---- HcclGroupStart … HcclGroupEnd, on the calling thread

enum class GroupKind { none, inits, transfers, collectives };
bool in_group() noexcept;
Status enter_group_as(GroupKind kind);  // HCCL_E_PARA: the group has calls of another kind; no group: nothing
Status begin_group();
Status end_group();

// A call that makes a communicator: now, or at the end of the group, beside the others.
struct Init {
    virtual ~Init() = default;
    virtual Result<std::shared_ptr<Communicator>> run() const = 0;
    // Inits of one parent ask its ranks one after another, in the order of the calls.
    virtual const Communicator* parent() const { return nullptr; }
    HcclComm* comm = nullptr;
};
Status make_communicator(std::unique_ptr<Init> init);
Status make_together(const std::vector<std::unique_ptr<Init>>& inits);  // now, all or none
Status add_transfer(const std::shared_ptr<Communicator>& comm, const Transfer& transfer, aclrtStream stream);

}  // namespace gradus::hccl
