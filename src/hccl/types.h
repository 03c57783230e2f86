// Element types and operations of collectives: names, sizes, which of them the device reduces, and checks of arguments.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "hccl/hccl_types.h"

namespace gradus::hccl {

constexpr uint64_t kMostCount = 0x7FFFFFFFF;  // of elements in one call
constexpr uint32_t kMostRanks = 1024;

// Those of all ranks for which it is so: "1, 3".
template <typename Is>
Text ranks_that(uint32_t ranks, const Is& is) {
    Text list;
    for (uint32_t r = 0; r < ranks; ++r)
        if (is(r)) append(list, list.empty() ? "" : ", ", r);
    return list;
}

size_t size_of(HcclDataType type);  // bytes; 0: not a type
Text name_of(HcclDataType type);
Text name_of(HcclReduceOp op);

Status check_type(const char* argument, HcclDataType type);  // whether it can be moved
Status check_count(const char* argument, uint64_t count);
Status check_rank(const char* argument, uint32_t rank, uint32_t ranks);
Status check_aligned(const char* argument, const void* at, HcclDataType type);
// Whether the device would reduce it; `limits` off: whatever a CPU can. A list of counts: sum, max and min alone.
Status check_reduction(HcclDataType type, HcclReduceOp op, bool with_counts, bool limits);

}  // namespace gradus::hccl
