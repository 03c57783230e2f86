#include "cli/call/case.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "cli/base/failure.h"
#include "cli/base/json.h"
#include "cli/base/write_file.h"
#include "cli/tensor/files.h"

namespace gradus::cli {
namespace {

using nlohmann::json;

constexpr char kSchema[] = "gradus-case/1";

json attribute_json(const json& value) {
    // JSON has no NaN and no infinity; as words they survive
    return value.is_number_float() && !std::isfinite(value.get<double>()) ? json(fmt::format("{}", value.get<double>()))
                                                                          : value;
}

std::string word_of(const json& value) {
    if (value.is_string()) return value.get<std::string>();
    return value.is_number_float() ? fmt::format("{:.17g}", value.get<double>()) : value.dump();
}

}  // namespace

void write_case(const Call& call, const std::string& directory) {
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (error) throw Failure(kEnvironment, fmt::format("{}: {}", directory, error.message()));
    json inputs = json::object(), attributes = json::object(), outputs = json::object();
    for (const Argument& argument : call.op->arguments) {
        const auto found = call.tensors.find(argument.name);
        if (found == call.tensors.end()) continue;
        const Tensor& tensor = found->second;
        const json shape = {{"dtype", dtype_name(tensor.dtype())}, {"shape", tensor.shape()}};
        if (argument.direction == Argument::output) {
            outputs[argument.name] = shape;
            continue;
        }
        inputs[argument.name] = shape;
        inputs[argument.name]["file"] = argument.name + ".npy";
        write_tensor(directory + "/" + argument.name + ".npy", tensor);
    }
    for (const auto& [name, value] : call.attributes) attributes[name] = attribute_json(value);
    json origins = json::object();
    for (const auto& [name, origin] : call.origins) origins[name] = origin;
    const json all = {{"schema", kSchema},      {"operator", call.op->name}, {"version", gradusVersion()},
                      {"arguments", call.line}, {"seed", call.seed},         {"limits", gradusGetOption("limits")},
                      {"inputs", inputs},       {"attributes", attributes},  {"outputs", outputs},
                      {"origins", origins}};
    write_file(directory + "/case.json", {json_text(all)});
}

Case read_case(const std::string& directory) {
    const std::string path = directory + "/case.json";
    std::ifstream file(path);
    if (!file)
        throw Failure(kUsage,
                      fmt::format("{}: {}; `gradus run OP ... --case DIR` makes one", path, std::strerror(errno)));
    const json all = json::parse(file, nullptr, false);
    if (all.is_discarded() || !all.is_object() || !all.contains("schema") || all.at("schema") != kSchema)
        throw Failure(kUsage, fmt::format("{}: no case of this version ({})", path, kSchema));
    try {
        Case result{all.at("operator"), {}, all.value("limits", ""), {}};
        const auto origins = all.value("origins", std::map<std::string, std::string>());
        const Operator& op = find_operator(result.op);
        for (const Argument& argument : op.arguments) {
            if (argument.direction == Argument::output) {
                // an optional output is part of the question
                if (argument.optional && all.at("outputs").contains(argument.name))
                    result.words.push_back(argument.name + "=auto");
                continue;
            }
            const json& list = all.at(argument.is_tensor() ? "inputs" : "attributes");
            if (!list.contains(argument.name)) {
                if (argument.optional) result.words.push_back(argument.name + "=none");
                continue;
            }
            const json& value = list.at(argument.name);
            const std::string word =
                argument.is_tensor() ? directory + "/" + value.at("file").get<std::string>() : word_of(value);
            const char* const type = argument.is_tensor() && value.at("dtype") == "f64" ? ":f64" : "";
            result.words.push_back(argument.name + type + "=" + word);
            if (const auto origin = origins.find(argument.name); origin != origins.end())
                result.origins[argument.name] = origin->second + (argument.is_tensor() ? " (" + word + ")" : "");
        }
        return result;
    } catch (const json::exception& wrong) {
        throw Failure(kUsage, fmt::format("{}: {}", path, wrong.what()));
    }
}

}  // namespace gradus::cli
