// Which rounding points would explain a difference: other answers to the same inputs, each as one kind of kernel would
// give it, and whether the result agrees with one of them.
#pragma once

#include "cli/diff/diff.h"
#include "cli/diff/question.h"

namespace gradus::cli {

// `finding` is an output of the question, judged.
void explain(const Question& question, const std::string& output, Finding& finding);

}  // namespace gradus::cli
