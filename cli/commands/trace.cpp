// gradus trace: what a program called and what ran when.
#include <fmt/format.h>

#include <algorithm>

#include "cli/base/failure.h"
#include "cli/base/json.h"
#include "cli/base/write_file.h"
#include "cli/bench/limit.h"
#include "cli/commands/commands.h"
#include "cli/output/page.h"
#include "cli/output/terminal.h"
#include "cli/trace/collect.h"
#include "cli/trace/page.h"

namespace gradus::cli {
namespace {

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
        for (const auto& [name, share] : shares)
            line += fmt::format("{}{} {}", line.empty() ? "" : ", ", name, percent(share));
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

nlohmann::json summary_json(const Timeline& timeline, const std::vector<std::string>& files) {
    nlohmann::json operators = nlohmann::json::array(), findings = nlohmann::json::array(),
                   overlap = nlohmann::json::object();
    for (const auto& [device, shares] : overlap_of(timeline))
        for (const auto& [name, share] : shares) overlap[device][name] = share;
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
    return {{"schema", "gradus-trace/1"}, {"files", files},         {"length_ns", timeline.length},
            {"overlap", overlap},         {"operators", operators}, {"findings", findings}};
}

struct Wanted {
    std::string timeline;
    std::vector<std::string> pages;
};

Wanted wanted_of(const TraceOptions& options) {
    Wanted wanted;
    for (const std::string& file : options.files) {
        if (is_page(file))
            wanted.pages.push_back(file);
        else if (!wanted.timeline.empty() || !options.from.empty())
            throw Failure(kUsage, fmt::format("trace: {}: expected an .html, for there is a timeline already", file));
        else
            wanted.timeline = file;
        expect_writable(file);
    }
    if (wanted.timeline.empty()) wanted.timeline = options.from.empty() ? "trace.json" : options.from;
    return wanted;
}

// Its files; none where the program has called nothing.
std::vector<std::string> run_program(const TraceOptions& options, const std::string& file, Session& session) {
    const Traced traced = run_traced(options.program, file, options.limit >= 0 ? options.limit : measure_memory(),
                                     session.json);  // stdout is for the JSON
    session.exit = traced.exit;
    if (traced.processes > 0) return traced.files;
    throw Failure(traced.exit != 0 ? static_cast<Exit>(traced.exit) : kEnvironment,
                  fmt::format("trace: {} has called nothing of the library, or has ended by _exit or SIGKILL without "
                              "aclFinalize (exit code {})",
                              options.program[0], traced.exit));
}

}  // namespace

const char kTraceExamples[] =
    "Writes op_summary_NAME.csv and api_statistic_NAME.csv beside NAME.json. The exit code is the program's.\n"
    "Without this command: GRADUS_TRACE=FILE, in which %p stands for the process.\n\n"
    "Examples:\n"
    "  gradus trace -- ./train --steps 3\n"
    "  gradus trace -o step.json -o step.html -- python3 train.py\n"
    "  gradus trace --from step.json -o step.html";

void trace_command(const TraceOptions& options, Session& session) {
    if (options.program.empty() == options.from.empty())
        throw Failure(kUsage, "trace: expected a program behind --, or --from a trace that is there already");
    const Wanted wanted = wanted_of(options);
    std::vector<std::string> files;
    if (!options.program.empty()) files = run_program(options, wanted.timeline, session);
    const Timeline timeline = read_timeline(wanted.timeline);
    for (const std::string& page : wanted.pages) {
        write_trace_page(page, timeline, session.line);
        files.push_back(page);
    }
    if (session.json) return print_json(summary_json(timeline, files));
    if (!files.empty()) fmt::print(stderr, "gradus trace: {}\n", fmt::join(files, ", "));
    print_summary(timeline);
}

}  // namespace gradus::cli
