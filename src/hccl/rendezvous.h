// How ranks find each other, and what then carries their bytes.
#pragma once

#include <memory>
#include <span>

#include "hccl/communicator.h"
#include "hccl/hub.h"
#include "hccl/link.h"

namespace gradus::hccl {

std::string world_name(const Key& key);

// A new meeting point in this process.
Result<MeetingPoint> open_meeting_point(const HcclEnvironment& environment);

void write_root_info(const MeetingPoint& at, HcclRootInfo& to) noexcept;
Result<MeetingPoint> read_root_info(const HcclRootInfo& from);

// Returns when all ranks are there. `ip`: for data between machines, empty: chosen.
Result<std::shared_ptr<Communicator>> join(const MeetingPoint& at, const HcclEnvironment& environment,
                                           const std::string& ip, Membership membership);

Result<std::shared_ptr<Communicator>> join_by_rank_table(const char* path, const HcclEnvironment& environment,
                                                         Membership membership);

// Some ranks of a communicator meet once more, through the meeting point of all.
Result<std::shared_ptr<Communicator>> split_remote(Link& link, std::span<const uint32_t> ids, uint64_t number,
                                                   Membership membership);

}  // namespace gradus::hccl
