// A rank whose others are in other processes: its tasks wait for them in the thread that runs them.
#pragma once

#include <memory>

#include "hccl/communicator.h"
#include "hccl/link.h"

namespace gradus::hccl {

std::shared_ptr<Communicator> make_remote(std::unique_ptr<Link> link, std::unique_ptr<Transport> transport,
                                          Membership membership);

}  // namespace gradus::hccl
