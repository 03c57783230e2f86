// Calls that are right by construction: an operator's arguments as words of `gradus run`.
#pragma once

#include <string>
#include <vector>

#include "cli/call/catalogue.h"
#include "fuzz/input.h"

namespace gradus::fuzz {

// limits: what only the device could not do is kept out of it. Operators of a family that has no recipe here get a line
// of their own sweep.
std::vector<std::string> random_words(const cli::Operator& op, Input& in, bool limits);

}  // namespace gradus::fuzz
