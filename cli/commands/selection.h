// Operators and arguments out of a command line of both, for the commands that try many.
#pragma once

#include <optional>

#include "cli/call/catalogue.h"

namespace gradus::cli {

struct Selected {
    std::vector<const Operator*> operators;  // all unless named
    std::vector<std::string> arguments;      // name=value, of the only operator
};
// A whole name means that operator alone, though SwiGlu begins SwiGluGrad; the beginning of names means all of them.
Selected split_selection(const std::vector<std::string>& words);

// The dtypes that a call of the operator can be of, in the order in which people read them.
std::vector<std::string> float_dtypes(const Operator& op);

// Whether a list of arguments has the word name=...; whether it says a dtype.
bool says(const std::vector<std::string>& words, const std::string& name);
bool is_typed(const std::vector<std::string>& words);
// With seed=N behind them, where --seed was given and they do not say it themselves.
std::vector<std::string> with_seed(std::vector<std::string> words, std::optional<int64_t> seed);

}  // namespace gradus::cli
