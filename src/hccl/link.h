// A rank's connection to the hub: open as long as the communicator lives, so that its end is noticed.
#pragma once

#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "hccl/hub.h"

namespace gradus::hccl {

class Link {
  public:
    // Tries until the deadline: the hub may still be on its way up.
    static Result<std::unique_ptr<Link>> connect(const MeetingPoint& at, uint32_t rank, uint32_t ranks,
                                                 Clock::time_point deadline);
    ~Link() { leave(); }

    bool by_unix() const { return by_unix_; }
    std::string own_ip(const MeetingPoint& at) const;  // by which this machine reaches the others
    Status put(const std::string& key, const std::string& value, int file = -1);
    // Waits for them; HCCL_E_TIMEOUT says which have not come, as `missing` names them.
    Status get(const std::vector<std::string>& keys, std::vector<std::string>& values, Clock::time_point deadline,
               const char* missing, Socket* file = nullptr);
    // All members of a sub-communicator, each with its list of them: a key for this one alone. HCCL_E_PARA where two
    // lists differ.
    Result<std::string> agree(uint64_t number, std::span<const uint32_t> members, Clock::time_point deadline);
    Status up();
    void leave() noexcept;  // for good, of its own will
    void abort(const Status& why) noexcept;
    // Before it was up: the others hear why, and this rank leaves. Answers why: what another has said before counts.
    Status give_up(const Status& why, uint32_t rank) noexcept;

    // What the hub has told of the others; waits so long for it.
    Status news(std::chrono::milliseconds patience = std::chrono::milliseconds(0)) noexcept;

    // Why a rank of which this one has lost the data's connection is gone; nothing: nobody has told.
    Status why_lost(uint32_t rank) noexcept;

  private:
    Status hub_is_gone() const;
    Status in_words(Status status) const;
    bool has_left(uint32_t rank);
    Status send(FrameType type, const std::string& key, const std::string& value, int file, uint32_t code);
    Status receive(Clock::time_point deadline);  // one frame

    std::mutex mutex_;
    Socket socket_;
    bool by_unix_ = false, is_up_ = false;
    bool hub_may_end_ = false;  // all ranks of its process have left
    std::string left_;          // by that time, by rank
    Status failed_;
    std::map<std::string, std::string> values_;
    Socket file_;
};

}  // namespace gradus::hccl
