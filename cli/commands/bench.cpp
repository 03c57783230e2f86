// gradus bench: operators beside the limit of this machine, in turn.
#include "cli/bench/bench.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/base/failure.h"
#include "cli/call/launch.h"
#include "cli/commands/commands.h"
#include "cli/commands/selection.h"
#include "cli/output/terminal.h"

namespace gradus::cli {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  gradus bench SwiGluGrad                          shapes of real models, every dtype\n"
    "  gradus bench SwiGlu --quick --shape 2 --dtype bf16\n"
    "  gradus bench SwiGluGrad x=[1024,8192]:bf16       a shape of your own, as for gradus run\n"
    "  gradus bench --html bench.html                   everything, with a roofline\n"
    "An operator is a name, or the beginning of one: Swi means SwiGlu and SwiGluGrad.";

struct Options {
    std::vector<std::string> words;  // operators, then arguments of a shape of the user's own
    std::vector<std::string> dtypes;
    std::string threads, save, html;
    int shape = 0;
    bool quick = false, list = false;
};

// Arithmetic takes longer in narrow vectors while memory does not: without AVX-512 half of the fraction is wanted.
double target_scale(const Machine& m) { return m.isa.starts_with("avx512") || m.isa == "amx" ? 1 : 0.5; }

double target_of(const Operator& op, const std::string& dtype, const Machine& m) {
    const auto found = op.targets.find(m.isa == "amx" && op.targets.contains("amx") ? "amx" : dtype);
    return found == op.targets.end() ? 0 : found->second * target_scale(m);
}

// In the order in which people read them.
std::vector<std::string> dtypes_of(const Operator& op, const std::vector<std::string>& wanted) {
    std::vector<std::string> dtypes;
    for (const char* dtype : {"bf16", "f16", "f32"})
        if (op.targets.contains(dtype) && (wanted.empty() || std::ranges::count(wanted, dtype) > 0))
            dtypes.emplace_back(dtype);
    return dtypes;
}

struct Selection {
    std::vector<BenchRun> runs, tiny;
};

// The user's own words: a dtype among them is the one, else all that the operator is measured with.
void select_own(Selection& selection, const Operator& op, const std::string& arguments, const Options& options,
                const Machine& m) {
    if (is_typed(arguments)) return selection.runs.push_back({&op, 0, "", arguments, "", 0});
    for (const std::string& dtype : dtypes_of(op, options.dtypes))
        selection.runs.push_back({&op, 0, "", arguments, dtype, target_of(op, dtype, m)});
}

void select_known(Selection& selection, const Operator& op, const Options& options, const Machine& m) {
    const std::vector<std::string> dtypes = dtypes_of(op, options.dtypes);
    for (size_t i = 0; i < op.bench.size(); ++i)
        for (const std::string& dtype : dtypes) {
            const BenchCase& bench = op.bench[i];
            const int number = static_cast<int>(i) + 1;
            if (options.shape != 0 && options.shape != number) continue;
            const double target = target_of(op, dtype, m) * bench.scale;
            selection.runs.push_back({&op, number, bench.model, bench.arguments, dtype, target});
        }
    if (!op.tiny.empty() && !dtypes.empty()) selection.tiny.push_back({&op, 0, "", op.tiny, dtypes.front(), 0});
}

Selection select(const Options& options, const Machine& m) {
    const Words words = split_selection(options.words);
    Selection selection;
    for (const Operator* op : words.operators) {
        if (!words.arguments.empty())
            select_own(selection, *op, joined(words.arguments), options, m);
        else
            select_known(selection, *op, options, m);
    }
    if (selection.runs.empty()) throw Failure(kUsage, "nothing to run: no such shape or dtype; see --list");
    return selection;
}

Call call_of(const BenchRun& run) {
    std::vector<std::string> words = split(run.arguments, ' ');
    if (!run.dtype.empty()) words.push_back("dtype=" + run.dtype);
    return make_call(*run.op, words);
}

// The strips of the operator's own tensors, row by row where the limit says what a row is. A tensor of wider elements
// beside narrow ones is several strips of those.
bench::Limit stream_of(const Call& call) {
    const nlohmann::json& limit = call.op->limit;
    const auto number = [&](const char* key) {
        return static_cast<int64_t>(evaluate(limit.at(key), call.sizes, call.tensors));
    };
    const int64_t strip = number("strip");
    const auto size_of = [](const Tensor& t) { return static_cast<int64_t>(aclDataTypeSize(t.dtype())); };
    int64_t narrow = 8;
    std::map<std::string, int64_t> count, taken;  // strips of a tensor
    for (const char* side : {"reads", "writes"})
        for (const std::string name : limit.at(side)) narrow = std::min(narrow, size_of(call.tensors.at(name)));
    // Rows of a few lines are no pattern of their own.
    constexpr int64_t kLeastRow = 1024;
    const bool by_rows = limit.contains("row") && number("row") * narrow >= kLeastRow;
    const int64_t row = by_rows ? number("row") : strip, rows = strip / row;
    for (const char* side : {"reads", "writes"})
        for (const std::string name : limit.at(side)) {
            const Tensor& tensor = call.tensors.at(name);
            count[name] += size_of(tensor) / narrow;
            if (count[name] * rows * row * narrow > tensor.bytes())
                throw Failure(kEnvironment,
                              fmt::format("{}: the limit's strips are too long for {}", call.op->name, name));
        }
    const int64_t bytes = row * narrow;
    const auto strips = [&](const char* side) {
        std::vector<bench::Strip> all;
        for (const std::string name : limit.at(side)) {
            const Tensor& tensor = call.tensors.at(name);
            for (int64_t i = 0; i < size_of(tensor) / narrow; ++i)
                all.push_back({tensor.data() + taken[name]++ * bytes, count[name] * bytes});
        }
        return all;
    };
    const std::vector<bench::Strip> reads = strips("reads"), writes = strips("writes");
    return bench::stream_limit(rows, bytes, reads, writes);
}

bench::Limit limit_of(const Call& call, double flops) {
    return call.op->limit.contains("strip") ? stream_of(call) : bench::matrix_limit(flops, call.dtype == ACL_FLOAT16);
}

BenchResult measure_run(BenchRun run, bool quick) {
    const Call call = call_of(run);
    if (run.dtype.empty()) run.dtype = dtype_name(call.dtype);
    double bytes = 0;
    for (const auto& [name, tensor] : call.tensors) bytes += static_cast<double>(tensor.bytes());
    const double flops = evaluate(call.op->limit.at("flops"), call.sizes, call.tensors);
    const Launch launch(call);
    launch.again();  // touches the results' pages before the limit is chosen on them
    bench::Limit limit = limit_of(call, flops);
    const bench::Effort effort = quick ? bench::Effort{7, 0.3} : bench::Effort{15, 1.0};
    const bench::Measured measured = bench::measure([&launch] { return launch.again(); }, limit, effort);
    limit.seconds = nullptr;  // it is of tensors that go away here
    return {run, limit, measured, flops, bytes};
}

TinyResult measure_tiny(const BenchRun& run, bool quick) {
    const Launch launch(call_of(run));
    launch.again();
    std::vector<double> microseconds(quick ? 1000 : 5000);
    for (double& sample : microseconds) sample = launch.whole() * 1e6;
    return {run, bench::spread(std::move(microseconds))};
}

void print_list(const Selection& selection) {
    std::vector<std::vector<std::string>> rows = {{"operator", "--shape", "model", "arguments", "dtypes"}};
    for (const BenchRun& run : selection.runs) {
        auto& last = rows.back();
        if (last[0] == run.op->name && last[3] == run.arguments)
            last[4] += " " + run.dtype;
        else
            rows.push_back({run.op->name, std::to_string(run.number), run.model, run.arguments, run.dtype});
    }
    fmt::print("{}", table(rows));
}

void write_json(const std::string& path, const nlohmann::json& json) {
    std::ofstream file(path);
    file << json.dump(1) << '\n';
    file.close();
    if (!file) throw Failure(kEnvironment, "cannot write " + path);
}

void bench(const Options& options, const Session& session) {
    if (!options.threads.empty() && gradusSetOption("num_threads", options.threads.c_str()) != 0)
        throw Failure(kUsage, fmt::format("--threads: {}", aclGetRecentErrMsg()));
    const Machine here = machine();
    const Selection selection = select(options, here);
    if (options.list) return print_list(selection);
    for (const std::string& path : {options.save, options.html})  // a wrong name should not cost a run
        if (!path.empty() && !std::ofstream(path, std::ios::app)) throw Failure(kEnvironment, "cannot write " + path);

    std::vector<BenchRun> all = selection.runs;
    all.insert(all.end(), selection.tiny.begin(), selection.tiny.end());
    const BenchTable shown(all);
    std::vector<BenchResult> results;
    std::vector<TinyResult> tiny;
    Progress progress("measuring", session.json ? static_cast<int64_t>(all.size()) : 0);
    if (!session.json) {
        fmt::print("{}\n", here.line());
        if (target_scale(here) != 1) fmt::print("targets are scaled by {:.1f}: no AVX-512\n", target_scale(here));
        if (here.load > 0.5)
            fmt::print("others are at work here (load {:.1f}): an operator that computes much will look too slow\n",
                       here.load);
        shown.heading();
    }
    for (const BenchRun& run : selection.runs) {
        results.push_back(measure_run(run, options.quick));
        if (!session.json) shown.print(results.back());
    }
    if (!session.json && !selection.tiny.empty()) shown.tiny_heading();
    for (const BenchRun& run : selection.tiny) {
        tiny.push_back(measure_tiny(run, options.quick));
        if (!session.json) shown.print(tiny.back());
    }
    const nlohmann::json json = bench_json(here, results, tiny);
    if (session.json) fmt::print("{}\n", json.dump(1));
    if (!options.save.empty()) write_json(options.save, json);
    if (!options.html.empty()) write_bench_page(options.html, here, results, tiny);
}

}  // namespace

void add_bench(CLI::App& app, Session& session) {
    CLI::App* command = app.add_subcommand("bench", "speed beside the limit of this machine");
    auto options = std::make_shared<Options>();
    add_selection(*command, options->words);
    command->add_flag("--quick", options->quick, "few rounds");
    command->add_option("--dtype", options->dtypes, "bf16, f16 or f32, with commas between; all unless given")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(CLI::IsMember({"bf16", "f16", "f32"}));
    command->add_option("--shape", options->shape, "the Nth shape of each operator only, as --list counts them")
        ->check(CLI::PositiveNumber);
    command->add_option("--threads", options->threads, "of the operator and of the limit")->check(CLI::PositiveNumber);
    command->add_flag("--list", options->list, "show the shapes and run nothing");
    command->add_option("--save", options->save, "write everything measured there, as JSON")->type_name("FILE");
    command->add_option("--html", options->html, "write a page with a roofline there")->type_name("FILE");
    command->footer(kExamples);
    command->callback([options, &session] { bench(*options, session); });
}

}  // namespace gradus::cli
