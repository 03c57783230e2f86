// From views to numbers: batches, blocks of keys, scratch, which path.
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

Status check_forward(const Call& call);
Status check_grad(const Call& call);
Planned plan_forward(const Call& call);
Planned plan_grad(const Call& call);

}  // namespace gradus::nsa_selected_attention
