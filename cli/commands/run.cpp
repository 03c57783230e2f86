// gradus run: one call, from words to files or a summary.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "cli/base/failure.h"
#include "cli/call/call.h"
#include "cli/call/case.h"
#include "cli/call/generate.h"
#include "cli/call/words.h"
#include "cli/commands/commands.h"
#include "cli/output/terminal.h"
#include "cli/tensor/files.h"

namespace gradus::cli {
namespace {

using nlohmann::json;

struct Wanted {
    std::string op, precision, limits, threads, isa, directory, inputs, case_directory;
    std::vector<std::string> words;
    int repeat = 1;
};

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

// JSON has no NaN and no infinity; as strings they survive.
json number(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    return value;
}

// Everything the operator reads and writes once.
double bytes_touched(const Call& call) {
    double bytes = 0;
    for (const auto& [name, tensor] : call.tensors) bytes += static_cast<double>(tensor.bytes());
    return bytes;
}

// Where each output goes; those that go nowhere are only summed up.
std::map<std::string, std::string> destinations(const Wanted& wanted, const Call& call) {
    std::map<std::string, std::string> files;
    for (const Argument& argument : call.op->arguments)
        if (argument.direction == Argument::output && call.tensors.count(argument.name) != 0 &&
            !wanted.directory.empty())
            files[argument.name] = wanted.directory + "/" + argument.name + ".npy";
    for (const std::string& text : wanted.words) {
        const Word word = parse_word(text);
        const Argument* argument = call.op->find(word.name);
        if (argument != nullptr && argument->direction == Argument::output && is_file(word.value))
            files[word.name] = word.value;
    }
    return files;
}

json output_json(const Tensor& tensor, const std::string& file) {
    const Summary summary = summarise(tensor);
    json first = json::array();
    for (const double value : first_elements(tensor)) first.push_back(number(value));
    json j = {{"dtype", dtype_name(tensor.dtype())}, {"shape", tensor.shape()},
              {"min", number(summary.low)},          {"max", number(summary.high)},
              {"mean", number(summary.mean)},        {"nan", summary.nans},
              {"inf", summary.infinities},           {"first", first}};
    if (!file.empty()) j["file"] = file;
    return j;
}

void print_json(const Call& call, const Ran& ran, int repeat, const std::map<std::string, std::string>& files) {
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
        attributes[name] = value.is_number_float() ? number(value) : value;
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
    fmt::print("{}\n", j.dump(2));
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
    make_directory(directory);
    for (const Argument& argument : call.op->arguments)
        if (argument.direction == Argument::input && call.tensors.count(argument.name) != 0)
            write_tensor(directory + "/" + argument.name + ".npy", call.tensors.at(argument.name));
}

void run_command(const Wanted& wanted, Session& session) {
    std::vector<std::unique_ptr<ScopedOption>> options;
    const auto set = [&options](const char* name, const std::string& value) {
        if (!value.empty()) options.push_back(std::make_unique<ScopedOption>(name, value));
    };
    set("limits", wanted.limits);
    set("num_threads", wanted.threads);
    set("max_isa", wanted.isa);
    const Call call = make_call(find_operator(wanted.op), wanted.words);
    const auto files = destinations(wanted, call);
    if (!wanted.directory.empty()) make_directory(wanted.directory);
    if (!wanted.inputs.empty()) write_inputs(call, wanted.inputs);
    if (!wanted.case_directory.empty()) write_case(call, wanted.case_directory);
    set("precision", wanted.precision);  // after the inputs, which are the same for both
    const Ran ran = run(call, wanted.repeat);
    for (const auto& [name, file] : files) write_tensor(file, call.tensors.at(name));
    session.json ? print_json(call, ran, wanted.repeat, files) : print_text(call, ran, wanted.repeat, files);
}

std::string footer() {
    std::vector<std::vector<std::string>> rows = {{"GENERATOR", "OPTIONS", ""}};
    for (const GeneratorHelp& help : generators()) rows.push_back({help.name, help.options, help.meaning});
    return "Tensors:\n"
           "  x=FILE.npy                   f32, f16, bool, integers, bf16 of ml_dtypes\n"
           "  x:bf16=FILE.npy              uint16 words as bf16, or numbers rounded to it; x:f64= for golden\n"
           "  x=FILE.bin:bf16[4096,22016]  raw bytes\n"
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

}  // namespace

void add_run(CLI::App& app, Session& session) {
    CLI::App* command = app.add_subcommand("run", "run one operator on files or made-up tensors");
    const auto wanted = std::make_shared<Wanted>();
    command->add_option("OP", wanted->op, "operator, as in `gradus list`")->required();
    command->add_option("ARGUMENTS", wanted->words, "name=value; see below");
    command->add_option("-o,--output", wanted->directory, "write every output as DIR/name.npy")->type_name("DIR");
    command->add_option("--inputs", wanted->inputs, "write every input as DIR/name.npy, for another kernel to read")
        ->type_name("DIR");
    command->add_option("--case", wanted->case_directory, "write every input and case.json, for `gradus diff --case`")
        ->type_name("DIR");
    command->add_option("--precision", wanted->precision, "fast, golden or magnitude; dtype=f64 with the last two")
        ->type_name("WORD");
    command->add_option("--repeat", wanted->repeat, "run N times and report the best")
        ->type_name("N")
        ->check(CLI::Range(1, 1000000));
    command->add_option("--limits", wanted->limits, "on or off: refuse what only the device could not do")
        ->type_name("WORD");
    command->add_option("--threads", wanted->threads, "size of the thread pool")->type_name("N");
    command->add_option("--isa", wanted->isa, "cap the instruction set")->type_name("NAME");
    command->footer(footer);
    command->callback([wanted, &session] { run_command(*wanted, session); });
}

}  // namespace gradus::cli
