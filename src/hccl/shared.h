// Ranks that are processes of one machine, and the transport between machines.
#pragma once

#include <functional>
#include <memory>

#include "hccl/link.h"
#include "hccl/transport.h"

namespace gradus::hccl {

// Why the others are not to be waited for any longer; asked now and then by who waits.
using News = std::function<Status()>;

// One segment of memory for all ranks, which rank 0 makes and the hub hands round.
Result<Socket> make_segment(uint32_t ranks);
Result<std::unique_ptr<Transport>> open_segment(const Socket& file, uint32_t rank, uint32_t ranks, News news);

// Gloo's connections; the addresses go through the link. `ip`: on which of this machine's addresses.
Result<std::unique_ptr<Transport>> open_gloo(Link& link, const std::string& ip, uint32_t rank, uint32_t ranks,
                                             Clock::time_point deadline);

}  // namespace gradus::hccl
