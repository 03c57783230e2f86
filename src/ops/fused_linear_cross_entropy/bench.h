#pragma once

#include "aclnn/trials.h"

namespace gradus::fused_linear_cross_entropy {

extern const Trials kStatsTrials, kLossTrials, kGradTrials;

}  // namespace gradus::fused_linear_cross_entropy
