// From views to numbers: which pieces, which kernel.
#pragma once

#include "aclnn/operator.h"

namespace gradus::swi_glu {

// Argument order of the two operators.
namespace forward {
enum { kX, kDim, kOut };
}
namespace grad {
enum { kYGrad, kX, kDim, kOut };
}

Status check_forward(const Call& call);
Status check_grad(const Call& call);
Planned plan_forward(const Call& call);
Planned plan_grad(const Call& call);

// dim as given may count from the end.
inline int axis_of(int64_t dim, int rank) { return static_cast<int>(dim < 0 ? dim + rank : dim); }

}  // namespace gradus::swi_glu
