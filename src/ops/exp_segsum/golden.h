// The specification: plain loops in f64, elements as given, one rounding at the end. Shares nothing with kernel.cpp.
#pragma once

#include "base/dtype.h"
#include "ops/exp_segsum/kernel.h"

namespace gradus::exp_segsum {

// The same rows as in kernel.h.
ForwardKernel golden_forward(DType dtype);
BackwardKernel golden_backward(DType dtype);

}  // namespace gradus::exp_segsum
