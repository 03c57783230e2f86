// How bytes get from rank to rank where ranks do not share an address space. One thread at a time calls a transport,
// and waits in it: until the others have come, the deadline is over, or one of them is known to be gone.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/cpu.h"
#include "base/status.h"
#include "hccl/collective.h"

namespace gradus::hccl {

using Clock = std::chrono::steady_clock;

struct Outgoing {
    const std::byte* from = nullptr;
    size_t bytes = 0;
};
struct Incoming {
    std::byte* to = nullptr;  // where to put it; null: wherever the transport has it
    size_t bytes = 0;
    const std::byte* at = nullptr;  // out: where it is, until the next exchange
};

class Transport {
  public:
    virtual ~Transport() = default;

    // Most bytes that one rank may give away in one exchange; what several get alike counts once.
    virtual size_t chunk() const = 0;
    // All ranks: out[r] to rank r, in[r] from rank r; nothing with oneself.
    virtual Status exchange(std::span<const Outgoing> out, std::span<Incoming> in, Clock::time_point deadline) = 0;
    // The first exchange of a call, with what the ranks say about it: `said` by this one, the same number of bytes by
    // all others. Nothing is taken unless `agree`, which may look at what is then in `heard`, one rank's behind the
    // other's, has nothing against it. In two exchanges, unless a transport can do it in one.
    virtual Status open(std::span<const std::byte> said, std::span<std::byte> heard,
                        const std::function<Status()>& agree, std::span<const Outgoing> out, std::span<Incoming> in,
                        Clock::time_point deadline) {
        std::vector<Outgoing> words(out.size(), {said.data(), said.size()});
        std::vector<Incoming> answers(in.size());
        for (size_t r = 0; r < answers.size(); ++r) answers[r] = {heard.data() + r * said.size(), said.size()};
        GRADUS_TRY(exchange(words, answers, deadline));
        GRADUS_TRY(agree());
        return exchange(out, in, deadline);
    }
    // Sends and receives with some ranks, all at once, in order between two.
    virtual Status transfer(std::span<const Transfer> batch, Clock::time_point deadline) = 0;
    // This rank goes of its own will: whoever needs it from now on does not wait.
    virtual void leave() noexcept {}
    // This rank has failed: whoever waits for it, and cannot look for news, is to be woken.
    virtual void give_up() noexcept {}
};

// The collective on this rank, from the agreement to the last byte.
Status run_collective(Transport& transport, uint32_t rank, uint32_t ranks, Collective& collective, Isa isa,
                      Clock::time_point deadline);

}  // namespace gradus::hccl
