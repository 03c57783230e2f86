#pragma once

#include "aclnn/trials.h"

namespace gradus::scaled_masked_softmax {

extern const Trials kForwardTrials, kBackwardTrials;

}  // namespace gradus::scaled_masked_softmax
