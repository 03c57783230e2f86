// From tensors to findings: two of them, or results and the call that they answer.
#pragma once

#include "cli/call/call.h"
#include "cli/diff/diff.h"

namespace gradus::cli {

// Without a call, nothing but the tensors themselves says how large an error may be; `magnitude`, if given, does.
Finding find_between(const std::string& name, const Tensor& got, const Tensor& want,
                     const std::optional<Tensor>& magnitude, const std::string& promise, const JudgeOptions& options);

// Results by the names of outputs, each against golden.
std::vector<Finding> find_in_results(const Call& call, const std::vector<std::pair<std::string, Tensor>>& results,
                                     const JudgeOptions& options);

}  // namespace gradus::cli
