// The meeting point of a communicator across processes: a thread in the process of HcclGetRootInfo that keeps what
// ranks put there under a key, hands it to whoever asks, at once or when it comes, and tells all when one of them is
// gone. Why a meeting failed it also tells who comes later, until one that has heard it tries again. It takes no part
// in the data.
//
// A connection begins with a Hello, whose 128-bit key is what the root info is for: without it nothing is read. Then
// frames, in both directions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "hccl/socket.h"

namespace gradus::hccl {

using Key = std::array<uint64_t, 2>;

struct Hello {
    static constexpr uint64_t kMagic = 0x3130'4C43'4348'5247;  // "GRHCCL01"
    uint64_t magic = kMagic;
    Key key{};
    uint32_t rank = 0, ranks = 0;
};

enum class FrameType : uint32_t {
    put,    // rank → hub: a value, perhaps with a file
    get,    // rank → hub: wants it
    value,  // hub → rank
    agree,  // rank → hub: as key the number of a sub-communicator, as value the ranks that it has for its members;
            // empty: waits no longer. hub → rank, as value: a fresh key when all have said the same, or why not
    up,     // rank → hub: has all it needs, so that from now on its end is news
    leave,  // rank → hub: goes of its own will; hub → rank: no rank is left in the hub's process, whose end is no news;
            // the value has a byte for each rank, 1: has left
    abort,  // rank → hub: the value says why its work failed
    gone    // hub → rank: the key is empty, the value says who and why
};

struct FrameHeader {
    FrameType type = FrameType::put;
    uint32_t key_bytes = 0;
    uint32_t value_bytes = 0;
    uint32_t code = 0;  // gone, abort: an HcclResult
};
// So begin the answers to those who agree.
constexpr const char *kAgreed = "sub/", *kMissing = "missing: rank ";
constexpr const char* kLeft = "left/";  // and a rank: is there when it has left
constexpr uint32_t kMostKey = 256, kMostValue = 1 << 20;

// Where a hub is, and its key: what a root info holds.
struct MeetingPoint {
    Key key{};
    std::string unix_name;  // empty: not on this machine's sockets
    std::string ip;         // empty: no other machine can join
    uint16_t port = 0;
    bool may_be_late = false;  // of a rank table: rank 0 opens it when it comes
    std::string machine;       // boot and network namespace of the hub: who has the same can use the unix name
};

// Listens, and serves in a thread of its own until all ranks have left, or nobody has come for so long.
Status start_hub(MeetingPoint& at, std::chrono::seconds patience);

// Nothing where it cannot be read; of a longer one, a byte more than `most`. Not a std::ifstream, which keeps a refused
// allocation to itself and is then empty.
std::optional<std::string> read_file(const char* path, size_t most);

bool is_own_process(const Socket& socket);  // of this machine's sockets: whether this process is the other side, too

std::string this_machine();
Result<Key> random_key();

}  // namespace gradus::hccl
