// Arithmetic over named sizes, as the catalogue and the command line write it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/tensor/tensor.h"

namespace gradus::cli {

// name → value; the named sizes of shapes, bound by the tensors given or by name.
using Sizes = std::map<std::string, int64_t>;
// "2*N", "ceil(BT/8)", "6*BT*V*H", "1/sqrt(D)", "size(x)/2": over sizes, integer attributes and the element counts of
// tensors. Failure(kUsage) names what is not known.
double evaluate(const std::string& expression, const Sizes& sizes, const std::map<std::string, Tensor>& tensors = {});
int64_t evaluate_integer(const std::string& expression, const Sizes& sizes);
// The sizes that an expression uses.
std::vector<std::string> names_in(const std::string& expression);
}  // namespace gradus::cli
