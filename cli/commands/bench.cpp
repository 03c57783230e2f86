// gradus bench: operators beside the limit of this machine, in turn.
#include "cli/bench/bench.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/base/failure.h"
#include "cli/base/json.h"
#include "cli/base/write_file.h"
#include "cli/commands/commands.h"
#include "cli/commands/selection.h"
#include "cli/output/page.h"

namespace gradus::cli {
namespace {

struct Plan {
    std::vector<BenchRun> runs, tiny;
};

Plan plan_of(const BenchOptions& options, const Machine& m) {
    const Selected selected = split_selection(options.words);
    Plan plan;
    const auto add = [](std::vector<BenchRun>& to, const std::vector<BenchRun>& more) {
        to.insert(to.end(), more.begin(), more.end());
    };
    for (const Operator* op : selected.operators) {
        if (!selected.arguments.empty()) {
            add(plan.runs, own_runs(*op, selected.arguments, is_typed(selected.arguments), options.dtypes, m));
        } else {
            add(plan.runs, known_runs(*op, options.dtypes, options.shape, m));
            add(plan.tiny, tiny_runs(*op, options.dtypes));
        }
    }
    if (plan.runs.empty()) throw Failure(kUsage, "nothing to run: no such shape or dtype; see --list");
    for (std::vector<BenchRun>* runs : {&plan.runs, &plan.tiny})
        for (BenchRun& run : *runs) run.words = with_seed(run.words, options.seed);
    return plan;
}

void print_list(const Plan& plan, bool as_json) {
    std::vector<std::vector<std::string>> rows = {{"operator", "--shape", "model", "arguments", "dtypes"}};
    nlohmann::json json = {{"schema", "gradus-bench-list/1"}, {"runs", nlohmann::json::array()}};
    for (const BenchRun& run : plan.runs) {
        json["runs"].push_back({{"operator", run.op->name},
                                {"shape", run.number},
                                {"model", run.model},
                                {"arguments", run.arguments()},
                                {"dtype", run.dtype}});
        auto& last = rows.back();
        if (last[0] == run.op->name && last[3] == run.arguments())
            last[4] += " " + run.dtype;
        else
            rows.push_back({run.op->name, std::to_string(run.number), run.model, run.arguments(), run.dtype});
    }
    as_json ? print_json(json) : (void)fmt::print("{}", table(rows));
}

void expect_known_ending(const std::string& path) {
    for (const char* ending : {".json", ".html", ".htm", ".md", ".csv"})
        if (path.ends_with(ending)) return;
    throw Failure(kUsage, fmt::format("--output: '{}', expected FILE.json, .html, .md or .csv", path));
}

void write_report(const std::string& path, const BenchReport& report, const std::string& line) {
    if (is_page(path)) return write_bench_page(path, report, line);
    const std::string text = path.ends_with(".json") ? json_text(report.json())
                             : path.ends_with(".md") ? bench_markdown(report)
                                                     : bench_csv(report);
    write_file(path, {text});
}

void print_start(const Machine& here, const Baseline* baseline) {
    fmt::print("{}\n", here.line());
    if (target_scale(here) != 1) fmt::print("targets are scaled by {:.1f}: no AVX-512\n", target_scale(here));
    if (baseline != nullptr && !baseline->other_machine(here).empty())
        fmt::print("{}\n", tinted(Tint::warn, baseline->other_machine(here)));
}

// One line that says what the rows come to.
void print_end(const BenchReport& report) {
    const auto count = [&report](auto&& of, Standing standing) {
        return std::ranges::count(report.results, standing, of) + std::ranges::count(report.tiny, standing, of);
    };
    const auto own = [](const auto& r) { return r.standing(); };
    const auto before = [](const auto& r) { return r.before ? r.before->standing : Standing::none; };
    std::string text;
    const auto say = [&text](int64_t number, const char* what) {
        if (number > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", number, what);
    };
    say(count(own, Standing::ok), "on target");
    say(count(own, Standing::below), "below target");
    say(count(own, Standing::unknown), "without a verdict");
    say(count(before, Standing::below), "slower than the baseline");
    if (!text.empty()) fmt::print("\n{}\n", text);
    const auto doubtful = std::ranges::find(report.results, Standing::unknown, own);
    if (doubtful != report.results.end()) fmt::print("no verdict: {}\n", doubtful->doubt());
}

BenchReport measure(const Plan& plan, const BenchOptions& options, const Machine& here, const Baseline* baseline,
                    bool quiet) {
    std::vector<BenchRun> all = plan.runs;
    all.insert(all.end(), plan.tiny.begin(), plan.tiny.end());
    const BenchTable shown(all, baseline != nullptr);
    BenchReport report{here, {}, {}};
    Progress progress("measuring", static_cast<int64_t>(all.size()));
    const auto add = [&](auto result, auto& to) {
        if (baseline != nullptr) baseline->compare(result);
        to.push_back(std::move(result));
        progress.clear();
        if (!quiet) shown.print(to.back());
    };
    if (!quiet) shown.heading();
    for (const BenchRun& run : plan.runs) {
        progress.step(fmt::format("{} {} {}", run.op->name, run.dtype, run.name()));
        add(measure_run(run, options.quick, progress), report.results);
    }
    if (!quiet && !plan.tiny.empty()) shown.tiny_heading();
    for (const BenchRun& run : plan.tiny) {
        progress.step(fmt::format("{}, a whole call", run.op->name));
        add(measure_tiny(run, options.quick), report.tiny);
    }
    return report;
}

bool any_below(const BenchReport& report, bool strict) {
    const auto below = [strict](const auto& r) {
        return (strict && r.standing() == Standing::below) || (r.before && r.before->standing == Standing::below);
    };
    return std::ranges::any_of(report.results, below) || std::ranges::any_of(report.tiny, below);
}

}  // namespace

const char kBenchExamples[] =
    "Examples:\n"
    "  gradus bench SwiGluGrad                          shapes of real models, every dtype\n"
    "  gradus bench SwiGlu --quick --shape 2 --dtype bf16\n"
    "  gradus bench SwiGluGrad x=[1024,8192]:bf16       a shape of your own, as for gradus run\n"
    "  gradus bench -o bench.html -o bench.json         everything, with a roofline\n"
    "  gradus bench --baseline bench.json --strict      exit 1 where slower than then, or below a target\n"
    "An operator is a name, or the beginning of one: Swi means SwiGlu and SwiGluGrad.\n"
    "Where others use the machine meanwhile there is no verdict, unless the difference is a factor of 4.";

void bench_command(const BenchOptions& options, Session& session) {
    std::optional<ScopedOption> threads;
    if (options.threads > 0) threads.emplace("num_threads", std::to_string(options.threads));
    const Machine here = machine();
    const Plan plan = plan_of(options, here);
    if (options.list) return print_list(plan, session.json);
    for (const std::string& path : options.files) {  // a wrong name should not cost a run
        expect_known_ending(path);
        expect_writable(path);
    }
    std::optional<Baseline> baseline;
    if (!options.baseline.empty()) baseline.emplace(options.baseline);
    if (!session.json) print_start(here, baseline ? &*baseline : nullptr);
    const BenchReport report = measure(plan, options, here, baseline ? &*baseline : nullptr, session.json);
    session.json ? print_json(report.json()) : print_end(report);
    for (const std::string& path : options.files) write_report(path, report, session.line);
    if (any_below(report, options.strict)) session.exit = kMismatch;
}

}  // namespace gradus::cli
