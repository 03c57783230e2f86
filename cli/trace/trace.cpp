// gradus trace: what a program called and what ran when.
#include <fmt/format.h>

#include <algorithm>

#include "cli/commands.h"
#include "cli/failure.h"
#include "cli/limit/limit.h"
#include "cli/terminal.h"
#include "cli/trace/collect.h"
#include "cli/trace/page.h"

namespace gradus::cli {
namespace {

struct TraceOptions {
    std::string output = "trace.json", page, from;
    double limit = -1;  // GB/s; -1: measured
    std::vector<std::string> program;
};

// GB/s of a copy far larger than the cache, past it if that is faster.
double measure_memory() {
    constexpr size_t kBytes = size_t{64} << 20;
    std::vector<std::byte> from(kBytes), to(kBytes);
    const bench::Limit limit =
        bench::stream_limit(1, static_cast<int64_t>(kBytes), {{from.data(), 0}}, {{to.data(), 0}});
    double seconds = limit.seconds();
    for (int i = 0; i < 3; ++i) seconds = std::min(seconds, limit.seconds());
    return limit.work / seconds * 1e-9;
}

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

void print_summary(const Timeline& timeline) {
    for (const auto& [device, shares] : overlap_of(timeline)) {
        std::string line;
        for (const char* name : {"Computing", "Copy", "Waiting", "Free"}) {
            const auto it = shares.find(name);
            line +=
                fmt::format("{}{} {}", line.empty() ? "" : ", ", name, percent(it != shares.end() ? it->second : 0));
        }
        fmt::print(stderr, "{}: {}\n", device, line);
    }
    std::vector<std::vector<std::string>> rows = {{"OPERATOR", "CALLS", "TOTAL", "MEDIAN", "SHARE", "GB/S"}};
    for (const Took& took : operators_of(timeline))
        rows.push_back({took.name, std::to_string(took.calls), time_text(static_cast<double>(took.total)),
                        time_text(static_cast<double>(took.median)), percent(took.share),
                        took.rate > 0 ? fmt::format("{:.1f}", took.rate) : ""});
    if (rows.size() > 1) fmt::print(stderr, "{}", table(rows));
    std::map<std::string, int> findings;
    for (const TraceFinding& finding : timeline.findings)
        ++findings[fmt::format("{}: {}{}{}", finding.id, finding.text, finding.site.empty() ? "" : ", ", finding.site)];
    for (const auto& [text, count] : findings)
        fmt::print(stderr, "{}{}\n", text, count > 1 ? fmt::format(" ({} times)", count) : "");
}

nlohmann::ordered_json summary_json(const Timeline& timeline, const std::vector<std::string>& files) {
    nlohmann::ordered_json operators = nlohmann::json::array(), findings = nlohmann::json::array();
    for (const Took& took : operators_of(timeline))
        operators.push_back({{"operator", took.name},
                             {"calls", took.calls},
                             {"total_ns", took.total},
                             {"median_ns", took.median},
                             {"share", took.share},
                             {"gb_per_s", took.rate}});
    for (const TraceFinding& finding : timeline.findings)
        findings.push_back(
            {{"id", finding.id}, {"level", finding.level}, {"text", finding.text}, {"site", finding.site}});
    return {{"schema", "gradus-trace/1"},      {"files", files},         {"length_ns", timeline.length},
            {"overlap", overlap_of(timeline)}, {"operators", operators}, {"findings", findings}};
}

void trace(const TraceOptions& options, Session& session) {
    if (options.program.empty() == options.from.empty())
        throw Failure(kUsage, "trace: expected a program behind --, or --from a trace that is there already");
    std::vector<std::string> files;
    if (!options.program.empty()) {
        const double limit = options.limit >= 0 ? options.limit : measure_memory();
        const Traced traced = run_traced(options.program, options.output, limit);
        session.exit = traced.exit;
        if (traced.processes == 0)
            throw Failure(traced.exit != 0 ? static_cast<Exit>(traced.exit) : kEnvironment,
                          fmt::format("trace: {} has called nothing of the library, or has ended by _exit or SIGKILL "
                                      "without aclFinalize (exit code {})",
                                      options.program[0], traced.exit));
        files = traced.files;
    }
    const Timeline timeline = read_timeline(options.from.empty() ? options.output : options.from);
    if (!options.page.empty()) {
        write_trace_page(options.page, timeline);
        files.push_back(options.page);
    }
    if (session.json) {
        fmt::print("{}\n", summary_json(timeline, files).dump(2));
        return;
    }
    if (!files.empty()) fmt::print(stderr, "gradus trace: {}\n", fmt::join(files, ", "));
    print_summary(timeline);
}

}  // namespace

void add_trace(CLI::App& app, Session& session) {
    CLI::App* command = app.add_subcommand("trace", "what a program calls and what runs when, as a timeline");
    auto options = std::make_shared<TraceOptions>();
    command->add_option("-o,--output", options->output, "timeline in Chrome's JSON (Perfetto opens it)")
        ->capture_default_str();
    command->add_option("--page", options->page, "the timeline as one HTML file");
    command->add_option("--from", options->from, "no program: a page and a summary of a trace that is there already");
    command->add_option("--limit", options->limit, "GB/s of this machine's memory; measured unless given, 0: none")
        ->check(CLI::Range(0.0, 1e6));
    command->add_option("program", options->program, "behind --, with its arguments");
    command->footer(
        "Writes op_summary_NAME.csv and api_statistic_NAME.csv beside NAME.json. The exit code is the program's.\n"
        "Without this command: GRADUS_TRACE=FILE, in which %p stands for the process.\n\n"
        "Examples:\n"
        "  gradus trace -- ./train --steps 3\n"
        "  gradus trace -o step.json --page step.html -- python3 train.py\n"
        "  gradus trace --from step.json --page step.html");
    command->callback([options, &session] { trace(*options, session); });
}

}  // namespace gradus::cli
