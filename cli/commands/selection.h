// Operators and arguments out of a command line of both, for the commands that try many.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/call/catalogue.h"

namespace gradus::cli {

// The positional words of such a command.
void add_selection(CLI::App& command, std::vector<std::string>& words);

struct Words {
    std::vector<const Operator*> operators;  // all unless named
    std::vector<std::string> arguments;      // name=value, of the only operator
};
// A whole name means that operator alone, though SwiGlu begins SwiGluGrad; the beginning of names means all of them.
Words split_selection(const std::vector<std::string>& words);

// The dtypes that a call of the operator can be of, in the order in which people read them.
std::vector<std::string> float_dtypes(const Operator& op);

std::string joined(const std::vector<std::string>& words);
// Whether a list of arguments has the word name=...; whether it says a dtype.
bool says(const std::string& list, const std::string& name);
bool is_typed(const std::string& list);

}  // namespace gradus::cli
