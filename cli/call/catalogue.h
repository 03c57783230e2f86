// gradusCatalogue() as C++: all that the tool knows of an operator comes from here.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "gradus/gradus.h"

namespace gradus::cli {

struct Argument {
    std::string name;
    gradusKind kind;
    enum Direction { input, output, attribute } direction;
    bool optional;
    std::vector<aclDataType> dtypes, golden_dtypes;  // the latter besides, with precision golden or magnitude
    std::string shape, allowed, limits;              // as the catalogue has them
    std::string example;  // how to make one up: a generator, an expression, or @Operator.output
    std::string promise;  // of an output: elementwise, summed or exact
    std::string terms;    // ... how many are summed, over sizes and attributes
    int roundings = 0;    // ... how often 16-bit types round on the way
    std::optional<nlohmann::json> preset;

    bool is_tensor() const { return kind == GRADUS_TENSOR; }
};

struct BenchCase {
    std::string model, arguments;
    double scale = 1;  // of the target
};

// A mistake in the formula: golden makes it by its name, or by other arguments; terms: of a sum that parts are left out
// of. neutral: of a name with a number to be searched for, #, the one that changes nothing.
struct FormulaMistake {
    std::string name, arguments, terms;
    std::optional<double> neutral;
};

struct Operator {
    std::string name, family, formula, document, roundings;
    std::vector<std::string> products;
    std::vector<Argument> arguments;
    std::vector<std::string> sweep;  // argument lists, as for gradus run
    std::vector<BenchCase> bench;
    std::string tiny, small;  // so small that only the call counts; the case where nobody says a size
    nlohmann::json limit;     // {"kind": "stream", "reads", "writes", "strip"} or {"kind": "matrix", "flops"}
    std::map<std::string, double> targets;  // by dtype
    std::vector<FormulaMistake> mistakes;
    nlohmann::json json;  // all of it, for --json

    const Argument* find(const std::string& name) const;
};

const std::vector<Operator>& catalogue();
// With or without aclnn in front, in any case. Failure(kUsage) names the nearest known one.
const Operator& find_operator(const std::string& name);
}  // namespace gradus::cli
