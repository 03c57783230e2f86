// What both plans begin with.
#pragma once

#include "aclnn/operator.h"
#include "ops/nsa_selected_attention/plan.h"
#include "ops/nsa_selected_attention/selection.h"

namespace gradus::nsa_selected_attention {

Problem problem_of(const Call& call, const Places& at, bool causal);

// Effort in bytes, as plans of other operators count it; the gradient costs about 3.5 times the forward.
int64_t effort_of(const Problem& problem, double times, bool golden);

}  // namespace gradus::nsa_selected_attention
