// What both plans begin with.
#pragma once

#include "aclnn/operator.h"
#include "ops/nsa_selected_attention/blocks.h"

namespace gradus::nsa_selected_attention {

// Where the arguments of an operator are.
struct Order {
    int query, key, value, query_lengths, key_lengths, scale, size, count;
};
Extent extent_of(const Call& call, const Order& order, bool causal);

// Effort in bytes, as plans of other operators count it; the gradient costs about 3.5 times the forward.
int64_t effort_of(const Extent& extent, double times, bool golden);

}  // namespace gradus::nsa_selected_attention
