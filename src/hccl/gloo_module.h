// libgradus_gloo.so: the one piece that needs Gloo, opened when ranks are on several machines. Whoever has no Gloo has
// no such file and everything else.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "hccl/transport.h"

namespace gradus::hccl {

struct GlooMeeting {
    uint32_t rank, ranks;
    std::string ip;  // of this machine
    Clock::time_point deadline;
    std::array<uint64_t, 2> proof;  // random: what this rank says on its connections
    // The ranks' store; they throw when it fails.
    std::function<void(const std::string& key, const std::string& value)> put;
    std::function<std::string(const std::string& key)> get;
    // Why the connection to a rank is lost, as far as the others know; nothing: they do not. As long as the transport.
    std::function<Status(uint32_t rank)> ask;
};

// Throws what Gloo throws.
using OpenGloo = std::unique_ptr<Transport> (*)(const GlooMeeting& meeting);
constexpr const char* kOpenGlooName = "gradus_open_gloo";

}  // namespace gradus::hccl
