#pragma once

#include "aclnn/trials.h"

namespace gradus::exp_segsum {

extern const Trials kForwardTrials, kBackwardTrials;

}  // namespace gradus::exp_segsum
