#pragma once

#include "aclnn/trials.h"

namespace gradus::nsa_selected_attention {

extern const Trials kForwardTrials, kGradTrials;

}  // namespace gradus::nsa_selected_attention
