#pragma once

#include "aclnn/trials.h"

namespace gradus::swi_glu {

extern const Trials kForwardTrials, kGradTrials;

}  // namespace gradus::swi_glu
