#include "ops/catalogue_json.h"

#include <array>
#include <cstdio>
#include <cstring>
#include <sstream>

#include "base/status.h"

namespace gradus {
namespace {

std::string quoted(const std::string& text) {
    std::string json = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') json += '\\';
        json += c;
    }
    return json + "\"";
}

std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", value);
    return text;
}

// Members in the order in which they are added; empty ones are left out.
class Object {
  public:
    Object& add(const char* key, const std::string& json) {
        body_ += (body_.empty() ? "" : ", ") + quoted(key) + ": " + json;
        return *this;
    }
    Object& text(const char* key, const std::string& value) { return value.empty() ? *this : add(key, quoted(value)); }
    std::string json() const { return "{" + body_ + "}"; }

  private:
    std::string body_;
};

template <typename Items, typename ToJson>
std::string list(const Items& items, const ToJson& to_json, const char* separator = ", ") {
    std::string json;
    for (const auto& item : items) json += (json.empty() ? "" : separator) + std::string(to_json(item));
    return "[" + json + "]";
}

std::string words_json(const char* text) {
    std::istringstream stream(text);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    return list(words, quoted);
}

std::string preset_json(const Value& value) {
    switch (value.kind) {
        case GRADUS_INT:
            return std::to_string(value.integer);
        case GRADUS_DOUBLE:
            return number(value.real);
        case GRADUS_BOOL:
            return value.boolean ? "true" : "false";
        case GRADUS_STRING:
            return quoted(value.text);
        default:
            return "null";
    }
}

std::string argument_json(const Argument& argument) {
    static const char* const directions[] = {"input", "output", "attribute"};
    static const char* const promises[] = {"elementwise", "summed", "exact"};
    Object json;
    json.text("name", argument.name)
        .text("kind", kind_name(argument.kind))
        .text("direction", directions[static_cast<int>(argument.direction)])
        .add("optional", argument.optional ? "true" : "false");
    const auto name_of = [](DType dtype) { return quoted(dtype_name(dtype).c_str()); };
    if (argument.is_tensor()) json.add("dtypes", list(argument.dtypes, name_of));
    if (argument.is_float()) json.add("golden_dtypes", list(std::array{DType::f64}, name_of));
    json.text("shape", argument.shape)
        .text("allowed", argument.allowed)
        .text("limits", argument.limits)
        .text("example", argument.example);
    if (argument.direction == Direction::output) {
        json.text("promise", promises[static_cast<int>(argument.promise)]);
        if (argument.promise != Promise::exact) json.text("terms", argument.terms);
        if (argument.roundings > 0) json.add("roundings", std::to_string(argument.roundings));
    }
    if (argument.in_place[0] != nullptr) {
        const size_t count = argument.in_place[1] == nullptr ? 1 : 2;
        json.add("in_place", list(std::span(argument.in_place).first(count), quoted));
    }
    if (argument.preset) json.add("default", preset_json(*argument.preset));
    return json.json();
}

std::string products_json(const Products& products) {
    std::vector<std::string> names;
    if (products.a2) names.emplace_back("Ascend910B");
    if (products.a3) names.emplace_back("Ascend910_93");
    if (products.p910_95) names.emplace_back("Ascend910_95");
    if (products.inference) names.emplace_back("Ascend310P");
    return list(names, quoted);
}

std::string limit_json(const Limit& limit) {
    Object json;
    if (*limit.strip == '\0') return json.text("kind", "matrix").text("flops", limit.flops).json();
    return json.text("kind", "stream")
        .add("reads", words_json(limit.reads))
        .add("writes", words_json(limit.writes))
        .text("strip", limit.strip)
        .text("row", limit.row)
        .text("flops", limit.flops)
        .json();
}

std::string bench_json(const BenchCase& bench) {
    Object json;
    json.text("model", bench.model).text("arguments", bench.arguments);
    if (bench.scale != 1) json.add("scale", number(bench.scale));
    return json.json();
}

std::string mistake_json(const NamedMistake& mistake) {
    Object json;
    json.text("name", mistake.name).text("arguments", mistake.arguments).text("terms", mistake.terms);
    if (std::strchr(mistake.name, '#') != nullptr) json.add("neutral", number(mistake.neutral));
    return json.json();
}

void add_trials(Object& json, const Trials& trials) {
    Object targets;
    for (const Target& target : trials.targets) targets.add(target.where, number(target.fraction));
    json.add("roundings", quoted(trials.roundings))
        .add("sweep", list(trials.sweep, quoted, ",\n    "))
        .add("bench", list(trials.bench, bench_json, ",\n    "))
        .text("tiny", trials.tiny)
        .text("small", trials.small)
        .add("limit", limit_json(trials.limit))
        .add("targets", targets.json())
        .add("mistakes", list(trials.mistakes, mistake_json, ",\n    "));
}

}  // namespace

const char* kind_name(gradusKind kind) {
    static const char* const names[] = {"tensor", "int_array", "int", "double", "bool", "string"};
    return names[kind];
}

std::string operator_json(const Operator& op) {
    Object json;
    json.text("name", op.name)
        .text("family", op.family)
        .text("formula", op.formula)
        .text("document", op.document)
        .add("products", products_json(op.products))
        .add("arguments", list(op.arguments, argument_json, ",\n    "));
    if (op.trials != nullptr) add_trials(json, *op.trials);
    return json.json();
}

}  // namespace gradus
