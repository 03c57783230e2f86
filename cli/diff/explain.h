// Which rounding points would explain a difference: other answers to the same inputs, each as one kind of kernel would
// give it, and whether the result agrees with one of them.
#pragma once

#include "cli/call/call.h"
#include "cli/diff/diff.h"

namespace gradus::cli {

// `golden` has been run with precision golden; `finding` is one of its outputs judged against it. May turn "imprecise"
// into "accepted" where the library's own f32 result is as far off: then it is the inputs that cancel.
void explain(const Call& golden, const std::string& output, Finding& finding);

}  // namespace gradus::cli
