// The limit of GEMM-shaped operators: the CPU's best matrix instruction for the dtype, from registers, on all threads.
#pragma once

#include "cli/limit/bench.h"

namespace gradus::bench {

// flops: of one run of the operator. Measured on a part of them, so that a limit does not take as long as the operator.
Limit matrix_limit(double flops, aclDataType dtype);

}  // namespace gradus::bench
