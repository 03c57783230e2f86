// gradus run: one call, from words to files or a summary.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "cli/base/failure.h"
#include "cli/base/json.h"
#include "cli/base/write_file.h"
#include "cli/call/assignment.h"
#include "cli/call/call.h"
#include "cli/call/case.h"
#include "cli/call/generate.h"
#include "cli/commands/commands.h"
#include "cli/commands/selection.h"
#include "cli/output/terminal.h"
#include "cli/tensor/files.h"

namespace gradus::cli {
namespace {

using nlohmann::json;

struct Summary {
    double low = std::numeric_limits<double>::infinity(), high = -low, mean = 0;
    int64_t nans = 0, infinities = 0;
};

Summary summarise(const Tensor& tensor) {
    Summary summary;
    int64_t finite = 0;
    for (int64_t i = 0; i < tensor.count(); ++i) {
        const double value = tensor.at(i);
        if (std::isnan(value)) {
            ++summary.nans;
        } else if (std::isinf(value)) {
            ++summary.infinities;
        } else {
            summary.low = std::min(summary.low, value);
            summary.high = std::max(summary.high, value);
            summary.mean += (value - summary.mean) / static_cast<double>(++finite);
        }
    }
    if (finite == 0) summary.low = summary.high = summary.mean = NAN;
    return summary;
}

std::vector<double> first_elements(const Tensor& tensor) {
    std::vector<double> values;
    for (int64_t i = 0; i < std::min<int64_t>(tensor.count(), 8); ++i) values.push_back(tensor.at(i));
    return values;
}

// Everything the operator reads and writes once.
double bytes_touched(const Call& call) {
    double bytes = 0;
    for (const auto& [name, tensor] : call.tensors) bytes += static_cast<double>(tensor.bytes());
    return bytes;
}

// Where each output goes; those that go nowhere are only summed up.
std::map<std::string, std::string> destinations(const RunOptions& options, const Call& call) {
    std::map<std::string, std::string> files;
    for (const Argument& argument : call.op->arguments)
        if (argument.direction == Argument::output && call.tensors.count(argument.name) != 0 &&
            !options.directory.empty())
            files[argument.name] = options.directory + "/" + argument.name + ".npy";
    for (const std::string& text : options.words) {
        const Assignment word = parse_assignment(text);
        const Argument* argument = call.op->find(word.name);
        if (argument != nullptr && argument->direction == Argument::output && is_file(word.value))
            files[word.name] = word.value;
    }
    return files;
}

json output_json(const Tensor& tensor, const std::string& file) {
    const Summary summary = summarise(tensor);
    json first = json::array();
    for (const double value : first_elements(tensor)) first.push_back(json_number(value));
    json j = {{"dtype", dtype_name(tensor.dtype())}, {"shape", tensor.shape()},
              {"min", json_number(summary.low)},     {"max", json_number(summary.high)},
              {"mean", json_number(summary.mean)},   {"nan", summary.nans},
              {"inf", summary.infinities},           {"first", first}};
    if (!file.empty()) j["file"] = file;
    return j;
}

void print_result(const Call& call, const Ran& ran, int repeat, const std::map<std::string, std::string>& files) {
    json outputs = json::object(), inputs = json::object();
    for (const Argument& argument : call.op->arguments) {
        const auto found = call.tensors.find(argument.name);
        if (found == call.tensors.end()) continue;
        const Tensor& tensor = found->second;
        if (argument.direction == Argument::output)
            outputs[argument.name] =
                output_json(tensor, files.count(argument.name) != 0 ? files.at(argument.name) : "");
        else
            inputs[argument.name] = {{"dtype", dtype_name(tensor.dtype())}, {"shape", tensor.shape()}};
    }
    json attributes = json::object();
    for (const auto& [name, value] : call.attributes)
        attributes[name] = value.is_number_float() ? json_number(value) : value;
    const json j = {{"schema", "gradus-run/1"},
                    {"operator", call.op->name},
                    {"arguments", call.line},
                    {"precision", gradusGetOption("precision")},
                    {"inputs", inputs},
                    {"attributes", attributes},
                    {"outputs", outputs},
                    {"path", ran.path},
                    {"workspace", ran.workspace},
                    {"repeat", repeat},
                    {"seconds", ran.seconds},
                    {"median_seconds", ran.median},
                    {"gigabytes_per_second", bytes_touched(call) / ran.seconds / 1e9}};
    print_json(j);
}

void print_text(const Call& call, const Ran& ran, int repeat, const std::map<std::string, std::string>& files) {
    std::vector<std::vector<std::string>> rows = {{"", "dtype", "shape", "min", "max", "mean", "nan", "inf", ""}};
    for (const Argument& argument : call.op->arguments) {
        const auto found = call.tensors.find(argument.name);
        if (found == call.tensors.end()) continue;
        const Tensor& tensor = found->second;
        std::vector<std::string> row = {argument.name, dtype_name(tensor.dtype()), text(tensor.shape())};
        if (argument.direction == Argument::output) {
            const Summary s = summarise(tensor);
            for (const double value : {s.low, s.high, s.mean}) row.push_back(fmt::format("{:.6g}", value));
            for (const int64_t bad : {s.nans, s.infinities})
                row.push_back(bad == 0 ? "0" : tinted(Tint::bad, std::to_string(bad)));
            const auto file = files.find(argument.name);
            row.push_back(file != files.end() ? "-> " + file->second
                                              : fmt::format("{:.6g}{}", fmt::join(first_elements(tensor), " "),
                                                            tensor.count() > 8 ? " ..." : ""));
        }
        rows.push_back(row);
    }
    fmt::print("{} ({})\n{}", tinted(Tint::bold, call.op->name), gradusGetOption("precision"), table(rows));
    std::string attributes;
    for (const auto& [name, value] : call.attributes) attributes += fmt::format(" {}={}", name, value.dump());
    if (!attributes.empty()) fmt::print("with{}\n", attributes);
    fmt::print("path {}, workspace {} bytes, {:.6g} ms", ran.path, ran.workspace, ran.seconds * 1e3);
    if (repeat > 1)
        fmt::print(" best, {:.6g} ms median of {}, {:.4g} GB/s", ran.median * 1e3, repeat,
                   bytes_touched(call) / ran.seconds / 1e9);
    fmt::print("\n");
}

void make_directory(const std::string& path) {
    if (mkdir(path.c_str(), 0777) != 0 && errno != EEXIST)
        throw Failure(kEnvironment, fmt::format("{}: {}", path, std::strerror(errno)));
}

void write_inputs(const Call& call, const std::string& directory) {
    for (const Argument& argument : call.op->arguments)
        if (argument.direction == Argument::input && call.tensors.count(argument.name) != 0)
            write_tensor(directory + "/" + argument.name + ".npy", call.tensors.at(argument.name));
}

}  // namespace

std::string run_examples() {
    std::vector<std::vector<std::string>> rows = {{"GENERATOR", "OPTIONS", ""}};
    for (const GeneratorHelp& help : generators()) rows.push_back({help.name, help.options, help.meaning});
    return "Tensors:\n"
           "  x=FILE.npy                   f32, f16, bool, integers, bf16 of ml_dtypes\n"
           "  x:bf16=FILE.npy              uint16 words as bf16, or numbers rounded to it; x:f64= for golden\n"
           "  x=FILE.npy[3,0:4]            a part of it, as NumPy writes it: an index takes its dim away\n"
           "  x=FILE.bin:bf16[4096,22016]  raw bytes and their shape; a second [..] is a part\n"
           "  x=randn[4,8]:bf16,seed=7     made up; shape and dtype may be left out where they follow from others\n"
           "  x=[4,8]:bf16                 made up as the catalogue says\n"
           "  T1=4096 dtype=bf16 seed=3    a named size of the shapes, and how to make up the rest\n"
           "  out=FILE.npy  out=[4,8]      where an output goes; its shape, should it not follow from the inputs\n"
           "  name=none  name=auto         leave an optional argument out; make one up\n\n" +
           table(rows) +
           "\nExamples:\n"
           "  gradus run SwiGluGrad x=randn[4096,22016]:bf16,seed=7 --repeat 10\n"
           "  gradus run ExpSegsum self=x.npy out=y.npy\n"
           "  gradus run ScaledMaskedSoftmaxBackward gradOutput=dy.npy y=y.npy mask=m.npy scale=0.125 -o results\n"
           "  gradus run SwiGlu x:bf16=bits.npy --precision golden --json\n"
           "  gradus run SwiGlu x=randn[4,8]:f64 out=y.npy --precision golden\n"
           "  gradus run NsaSelectedAttentionGrad dtype=bf16 --case mine\n"
           "In zsh, brackets want quotes: 'x=randn[4,8]'.";
}

void run_command(const RunOptions& options, Session& session) {
    std::vector<std::unique_ptr<ScopedOption>> set;
    const auto choose = [&set](const char* name, const std::string& value) {
        if (!value.empty()) set.push_back(std::make_unique<ScopedOption>(name, value));
    };
    choose("limits", options.limits);
    choose("num_threads", options.threads > 0 ? std::to_string(options.threads) : "");
    choose("max_isa", options.isa);
    const Call call = make_call(find_operator(options.op), with_seed(options.words, options.seed));
    const auto files = destinations(options, call);
    if (!options.case_directory.empty()) write_case(call, options.case_directory);
    for (const std::string& directory : {options.directory, options.inputs})
        if (!directory.empty()) make_directory(directory);
    for (const auto& [name, file] : files) expect_writable(file);  // a wrong name should not cost the run
    if (!options.inputs.empty()) write_inputs(call, options.inputs);
    choose("precision", options.precision);  // after the inputs, which are the same for both
    const Ran ran = run(call, options.repeat);
    for (const auto& [name, file] : files) write_tensor(file, call.tensors.at(name));
    session.json ? print_result(call, ran, options.repeat, files) : print_text(call, ran, options.repeat, files);
}

}  // namespace gradus::cli
