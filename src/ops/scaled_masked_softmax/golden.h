// The specification: plain loops in f64, elements as given, one rounding at the end. Shares nothing with kernel.cpp.
#pragma once

#include "base/config.h"
#include "ops/scaled_masked_softmax/kernel.h"

namespace gradus::scaled_masked_softmax {

// The same rows as in kernel.h.
ForwardKernel golden_forward(DType dtype, Precision precision);
BackwardKernel golden_backward(DType dtype, Precision precision);

// Mistakes that golden makes on purpose; bench.cpp has their names.
enum { kPartOfSum = 1, kNotDivided, kNoSum, kPlusSum, kUnmaskedSum, kNoFactor, kNoScale, kAddedToSum };

}  // namespace gradus::scaled_masked_softmax
