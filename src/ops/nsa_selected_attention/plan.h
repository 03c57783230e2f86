// From views to numbers: sequences, blocks of keys, scratch, which path.
#pragma once

#include "aclnn/operator.h"

namespace gradus::nsa_selected_attention {

// Argument order of the two operators.
namespace forward {
enum {
    kQuery,
    kKey,
    kValue,
    kTopk,
    kMask,
    kQueryLengths,
    kKeyLengths,
    kScale,
    kHeads,
    kLayout,
    kMode,
    kSize,
    kCount,
    kMax,
    kSum,
    kOut
};
}
namespace grad {
enum {
    kQuery,
    kKey,
    kValue,
    kOut,
    kOutGrad,
    kMax,
    kSum,
    kTopk,
    kQueryLengths,
    kKeyLengths,
    kMask,
    kScale,
    kSize,
    kCount,
    kHeads,
    kLayout,
    kMode,
    kQueryGrad,
    kKeyGrad,
    kValueGrad
};
}

// Where an operator has what both take: query, key and value come first in either order.
struct Places {
    int topk, mask, query_lengths, key_lengths, scale, heads, mode, size, count, layout;
};
inline constexpr Places kForwardPlaces = {
    forward::kTopk,  forward::kMask, forward::kQueryLengths, forward::kKeyLengths, forward::kScale,
    forward::kHeads, forward::kMode, forward::kSize,         forward::kCount,      forward::kLayout};
inline constexpr Places kGradPlaces = {grad::kTopk,  grad::kMask,  grad::kQueryLengths, grad::kKeyLengths,
                                       grad::kScale, grad::kHeads, grad::kMode,         grad::kSize,
                                       grad::kCount, grad::kLayout};
static_assert(int{forward::kQuery} == int{grad::kQuery} && int{forward::kKey} == int{grad::kKey} &&
              int{forward::kValue} == int{grad::kValue});

Status check_forward(const Call& call);
Status check_grad(const Call& call);
Planned plan_forward(const Call& call);
Planned plan_grad(const Call& call);

}  // namespace gradus::nsa_selected_attention
