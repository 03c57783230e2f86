// What one rank does in one call, in the same words for every operator: which bytes of its send buffer go to whom, and
// where in its receive buffer what comes from whom is put.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "hccl/hccl_types.h"

namespace gradus::hccl {

enum class Kind : uint32_t {
    barrier,
    all_reduce,
    reduce,
    reduce_scatter,
    reduce_scatter_v,
    broadcast,
    scatter,
    all_gather,
    all_gather_v,
    all_to_all,
    all_to_all_v,
    all_to_all_vc
};
const char* function_of(Kind kind);

// All ranks must say the same.
struct Terms {
    Kind kind = Kind::barrier;
    HcclDataType type = HCCL_DATA_TYPE_INT8;
    HcclReduceOp op = HCCL_REDUCE_SUM;
    uint32_t root = 0;
    uint64_t count = 0;
    uint64_t sequence = 0;  // the how many-th collective of the communicator
};

struct Block {  // of a buffer, in bytes
    uint64_t offset = 0, bytes = 0;
    bool operator==(const Block&) const = default;
};

struct Collective {
    Terms terms;
    const std::byte* send = nullptr;
    std::byte* recv = nullptr;
    std::vector<Block> out;  // [d]: of send, for rank d
    std::vector<Block> in;   // [s]: of recv, from rank s; of a reduction [0]: for its result

    bool reduces() const { return terms.kind >= Kind::all_reduce && terms.kind <= Kind::reduce_scatter_v; }
    // Every rank that gets anything from this one gets the same bytes.
    bool same_for_all() const {
        return terms.kind == Kind::broadcast || terms.kind == Kind::all_gather || terms.kind == Kind::all_gather_v;
    }
    // AllGather in place, from the beginning of the receive buffer: first to the rank's own place. Before anything
    // else.
    void settle(uint32_t rank) noexcept;
};

// A send or a receive with one other rank.
struct Transfer {
    bool sends;
    uint32_t peer;
    HcclDataType type;
    uint64_t count;
    std::byte* data;
    size_t bytes;
};
using Batch = std::vector<Transfer>;

Text describe(uint64_t bytes, uint32_t type);  // "8 × fp32"
inline Text describe(const Transfer& t) { return describe(t.bytes, static_cast<uint32_t>(t.type)); }

// Two ranks that are to make one sub-communicator, each with its list of the members.
Status members_differ(uint64_t number, uint32_t rank_a, std::span<const uint32_t> a, uint32_t rank_b,
                      std::span<const uint32_t> b);
bool have_common(std::span<const uint32_t> a, std::span<const uint32_t> b);

// ---- Agreement: what ranks tell each other before any data are taken, Agreement::size(ranks) bytes

struct Agreement {
    static size_t size(uint32_t ranks) { return sizeof(Terms) + 2 * sizeof(uint64_t) * ranks; }
    static void write(const Collective& collective, uint32_t ranks, std::byte* to) noexcept;
    // all: of all ranks, one behind the other. The same answer on every rank: HCCL_E_PARA, a sentence with both sides.
    static Status check(const std::byte* all, uint32_t ranks);
    static uint64_t largest_block(const std::byte* all, uint32_t ranks);  // of what anyone sends to anyone
};

}  // namespace gradus::hccl
