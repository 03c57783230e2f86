// The reduction itself: element i of the result is the operation over the sources' elements i, in their order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"
#include "hccl/hccl_types.h"

namespace gradus::hccl {

// Integers wrap around. 16-bit floats are reduced in f32 and rounded once, to nearest even. The maximum and the minimum
// of anything with a NaN is NaN, and −0 is less than +0. A NaN comes out as one and the same, whatever came in, so that
// the bits do not depend on where a loop was cut. `to` may be one of the sources.
using Reduction = void (*)(const std::byte* const* sources, uint32_t count, std::byte* to, int64_t elements);

Reduction find_reduction(HcclDataType type, HcclReduceOp op, Isa isa);

}  // namespace gradus::hccl
