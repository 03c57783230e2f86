#include "cli/call/catalogue.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "cli/base/failure.h"
#include "cli/base/text.h"
#include "cli/tensor/tensor.h"

namespace gradus::cli {
namespace {

using nlohmann::json;

gradusKind kind_of(const std::string& name) {
    static const char* const names[] = {"tensor", "int_array", "int", "double", "bool", "string"};
    for (int i = 0; i < 6; ++i)
        if (name == names[i]) return static_cast<gradusKind>(i);
    throw Failure(kEnvironment,
                  fmt::format("the library's catalogue has an argument of kind '{}'; is it newer than the "
                              "tool?",
                              name));
}

Argument argument_of(const json& j) {
    Argument argument;
    argument.name = j.at("name");
    argument.kind = kind_of(j.at("kind"));
    const std::string direction = j.at("direction");
    argument.direction = direction == "input"    ? Argument::input
                         : direction == "output" ? Argument::output
                                                 : Argument::attribute;
    argument.optional = j.at("optional");
    for (const std::string name : j.value("dtypes", json::array())) argument.dtypes.push_back(dtype_of(name));
    for (const std::string name : j.value("golden_dtypes", json::array()))
        argument.golden_dtypes.push_back(dtype_of(name));
    argument.shape = j.value("shape", "");
    argument.allowed = j.value("allowed", "");
    argument.limits = j.value("limits", "");
    argument.example = j.value("example", "");
    argument.promise = j.value("promise", "");
    argument.terms = j.value("terms", "1");
    argument.roundings = j.value("roundings", 0);
    if (j.contains("default")) argument.preset = j.at("default");
    return argument;
}

Operator operator_of(const json& j) {
    Operator op;
    op.name = j.at("name");
    op.family = j.at("family");
    op.formula = j.at("formula");
    op.document = j.at("document");
    op.roundings = j.value("roundings", "");
    op.products = j.at("products").get<std::vector<std::string>>();
    for (const json& argument : j.at("arguments")) op.arguments.push_back(argument_of(argument));
    op.sweep = j.value("sweep", std::vector<std::string>());
    for (const json& bench : j.value("bench", json::array()))
        op.bench.push_back({bench.value("model", ""), bench.at("arguments"), bench.value("scale", 1.0)});
    op.tiny = j.value("tiny", "");
    op.small = j.value("small", op.tiny);
    op.limit = j.value("limit", json());
    for (const json& mistake : j.value("mistakes", json::array()))
        op.mistakes.push_back(
            {mistake.at("name"), mistake.value("arguments", ""), mistake.value("terms", ""),
             mistake.contains("neutral") ? std::optional(mistake.at("neutral").get<double>()) : std::nullopt});
    op.targets = j.value("targets", std::map<std::string, double>());
    op.json = j;
    return op;
}

}  // namespace

const Argument* Operator::find(const std::string& argument) const {
    for (const Argument& known : arguments)
        if (known.name == argument) return &known;
    return nullptr;
}

const std::vector<Operator>& catalogue() {
    static const std::vector<Operator> operators = [] {
        std::vector<Operator> all;
        for (const json& j : json::parse(gradusCatalogue())) all.push_back(operator_of(j));
        return all;
    }();
    return operators;
}

const Operator& find_operator(const std::string& name) {
    const auto plain = [](const std::string& text) {
        const std::string small = lower(text);
        return small.starts_with("aclnn") ? small.substr(5) : small;
    };
    std::vector<std::string> names;
    for (const Operator& op : catalogue()) {
        if (plain(op.name) == plain(name)) return op;
        names.push_back(op.name);
    }
    throw Failure(kUsage, fmt::format("unknown operator '{}'{}; `gradus list` shows all", name,
                                      suggestion(name.starts_with("aclnn") ? name.substr(5) : name, names)));
}

}  // namespace gradus::cli
