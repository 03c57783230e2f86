// gradus sanitize: runs a program under the sanitizer, once or under many schedules, and tells what was found.
#include <fcntl.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/base/failure.h"
#include "cli/base/json.h"
#include "cli/base/write_file.h"
#include "cli/commands/commands.h"
#include "cli/output/page.h"
#include "cli/sanitize/sanitize.h"

namespace gradus::cli {
namespace {

using nlohmann::json;

// A folder that goes with the command.
class Scratch {
  public:
    Scratch() {
        std::string name = (std::filesystem::temp_directory_path() / "gradus-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) throw Failure(kEnvironment, "no place for temporary files");
        folder_ = name;
    }
    ~Scratch() {
        std::error_code ignored;
        std::filesystem::remove_all(folder_, ignored);
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    std::string file(const std::string& name) const { return (folder_ / name).string(); }

  private:
    std::filesystem::path folder_;
};

// 128 + n: ended by signal n, as in a shell.
int run_program(const std::vector<std::string>& words, const std::map<std::string, std::string>& environment,
                bool quiet_stdout) {
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));  // NOLINT: exec's signature
    argv.push_back(nullptr);
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child < 0) throw Failure(kEnvironment, "cannot start a process");
    if (child == 0) {
        for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
        if (quiet_stdout) dup2(STDERR_FILENO, STDOUT_FILENO);  // stdout is for the JSON
        execvp(argv[0], argv.data());
        fmt::print(stderr, "gradus: {}: {}\n", words[0], std::strerror(errno));
        _exit(127);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::vector<json> read_lines(const std::string& path) {
    std::vector<json> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);)
        if (json value = json::parse(line, nullptr, false); !value.is_discarded()) lines.push_back(std::move(value));
    return lines;
}

// GRADUS_SANITIZE has commas between its words.
std::string escaped_name(const std::string& path) {
    std::string text;
    for (const char c : path) text += c == ',' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    return text;
}

// A wrong name should cost no run.
void expect_files(const SanitizeOptions& options) {
    for (const std::string& path : options.files) expect_writable(path);
    const auto expect = [](const char* option, const std::string& path, int how) {
        if (path.empty()) return;
        const int file = open(path.c_str(), how | O_CLOEXEC, 0644);
        const int reason = file < 0 ? errno : std::filesystem::is_directory(path) ? EISDIR : 0;
        if (file >= 0) close(file);
        if (reason != 0) throw Failure(kUsage, fmt::format("sanitize: {} {}: {}", option, path, std::strerror(reason)));
    };
    expect("--suppressions", options.suppressions, O_RDONLY);
    expect("--log-file", options.log_file, O_WRONLY | O_CREAT | O_APPEND);
}

std::string settings(const SanitizeOptions& options, const std::string& lines) {
    std::string text = options.tools.empty() ? "all" : fmt::format("{}", fmt::join(options.tools, ","));
    text += fmt::format(",json={},leak-check={},portability={},api-errors={}", escaped_name(lines), options.leak_check,
                        options.portability, options.api_errors);
    if (!options.log_file.empty()) text += ",log=" + escaped_name(options.log_file);
    if (!options.suppressions.empty()) text += ",suppressions=" + escaped_name(options.suppressions);
    return text;
}

struct Outcome {
    std::vector<json> found;
    bool summarised = false;
    int code = 0;

    size_t count(const char* level) const {
        size_t n = 0;
        for (const json& finding : found) n += finding["level"] == level ? 1 : 0;
        return n;
    }
};

Outcome run_once(const SanitizeOptions& options, const Session& session, const Scratch& scratch,
                 const std::string& schedule, const std::string& copies) {
    const std::string lines = scratch.file("findings");
    std::filesystem::remove(lines);
    std::map<std::string, std::string> environment = {{"GRADUS_SANITIZE", settings(options, lines)}};
    if (!schedule.empty()) {
        environment["GRADUS_SCHEDULE"] = schedule;
        environment["GRADUS_SANITIZE"] += ",copies=" + escaped_name(copies);
    }
    Outcome outcome;
    outcome.code = run_program(options.program, environment, session.json);
    for (json& line : read_lines(lines))
        if (line.contains("summary"))
            outcome.summarised = true;
        else
            outcome.found.push_back(std::move(line));
    return outcome;
}

// A copy to the host: what came, and the call that asked for it.
struct Copied {
    std::string bytes, site;
};

// Those of one run, by their place in the program.
std::map<int, Copied> read_copies(const std::string& path) {
    std::map<int, Copied> copies;
    std::ifstream file(path);
    int place = 0;
    for (std::string bytes, hash, site; file >> place >> bytes >> hash && std::getline(file, site);)
        copies[place] = {fmt::format("{} bytes, hash {}", bytes, hash), site.substr(1)};
    return copies;
}

// The first copy that is not the same in both runs, or that one of them does not make.
json first_difference(const std::map<int, Copied>& expected, const std::map<int, Copied>& got) {
    std::set<int> places;
    for (const auto* copies : {&expected, &got})
        for (const auto& [place, copy] : *copies) places.insert(place);
    for (const int place : places) {
        const auto now = expected.find(place), other = got.find(place);
        const bool in_now = now != expected.end(), in_other = other != got.end();
        if (in_now && in_other && now->second.bytes == other->second.bytes) continue;
        return {{"copy", place},
                {"now", in_now ? now->second.bytes : "nothing"},
                {"got", in_other ? other->second.bytes : "nothing"},
                {"site", (in_now ? now : other)->second.site}};
    }
    return nullptr;
}

const char* what_differs(const json& difference) {
    if (difference["now"] == "nothing") return "is made here, and not by now";
    return difference["got"] == "nothing" ? "is made by now, and not here" : "brings other bits than now";
}

// What makes two findings one: the id, the functions, and where both accesses come from.
std::string identity(const json& finding) {
    std::string text = finding["id"].dump() + finding.value("function", "") + finding.value("other_function", "");
    for (size_t i = 0; i < finding["parts"].size() && i < 2; ++i) text += finding["parts"][i]["stack"].dump();
    return text;
}

// What another run has found is told once, with the schedule that finds it.
void add_findings(Outcome& all, Outcome& run, const std::string& schedule) {
    std::set<std::string> known;
    for (const json& finding : all.found) known.insert(identity(finding));
    for (json& finding : run.found) {
        if (!known.insert(identity(finding)).second) continue;
        finding["number"] = all.found.size() + 1;
        finding["schedule"] = schedule;
        all.found.push_back(std::move(finding));
    }
    all.summarised = all.summarised && run.summarised;
    if (all.code == 0) all.code = run.code;
}

// The same program under many schedules: what it copies to the host must be the same bits.
json compare_schedules(const SanitizeOptions& options, const Session& session, const Scratch& scratch, Outcome& all) {
    json differences = json::array();
    std::map<int, Copied> expected;
    for (int run = 0; run < options.schedules; ++run) {
        const std::string schedule = run == 0 ? "now" : run == 1 ? "late" : fmt::format("random:{}", run - 1);
        const std::string copies = scratch.file("copies");
        std::filesystem::remove(copies);
        Outcome outcome = run_once(options, session, scratch, schedule, copies);
        const auto got = read_copies(copies);
        if (run == 0) {
            expected = got;
            all = std::move(outcome);
            continue;
        }
        add_findings(all, outcome, schedule);
        json difference = first_difference(expected, got);
        if (difference.is_null()) continue;
        fmt::print(stderr, "gradus sanitize: GRADUS_SCHEDULE={}: copy {} to the host {}\n      {}\n", schedule,
                   difference["copy"].get<int>(), what_differs(difference), difference["site"].get<std::string>());
        difference["schedule"] = schedule;
        differences.push_back(std::move(difference));
    }
    fmt::print(stderr, "gradus sanitize: {} schedules, {} with other results\n", options.schedules, differences.size());
    return differences;
}

void write(const SanitizeOptions& options, const Session& session, const Outcome& outcome) {
    std::string lines;
    for (const json& finding : outcome.found)
        lines += finding.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    for (const std::string& path : options.files) {
        if (is_page(path))
            write_sanitize_page(path, session.line, outcome.found);
        else
            write_file(path, {lines});
    }
}

}  // namespace

const char kSanitizeExamples[] =
    "Examples:\n"
    "  gradus sanitize -- ./train --steps 3\n"
    "  gradus sanitize -o races.html --schedules 20 -- ./train\n"
    "  gradus sanitize --explain race\n"
    "The exit code is the program's, or 1 if an error was found. GRADUS_SANITIZE=on does the same from inside.";

void sanitize_command(const SanitizeOptions& options, Session& session) {
    if (!options.explain.empty()) {
        const std::string text = explain_finding(options.explain);
        if (text.empty()) throw Failure(kUsage, fmt::format("sanitize: no finding has the id '{}'", options.explain));
        if (session.json) return print_json({{"schema", "gradus-explain/1"}, {"id", options.explain}, {"text", text}});
        fmt::print("{}", text);
        return;
    }
    if (options.program.empty()) throw Failure(kUsage, "sanitize: no program; gradus sanitize -- ./program arguments");
    expect_files(options);
    const Scratch scratch;
    Outcome outcome;
    json differences = json::array();
    if (options.schedules > 0)
        differences = compare_schedules(options, session, scratch, outcome);
    else
        outcome = run_once(options, session, scratch, "", "");
    if (!outcome.summarised)
        fmt::print(stderr,
                   "gradus sanitize: no summary came: the program does not use Gradus, or ended without exit\n");
    write(options, session, outcome);
    const bool wrong = outcome.count("error") > 0 || !differences.empty();
    session.exit = wrong ? options.error_exitcode : outcome.code;
    if (session.json)
        print_json({{"schema", "gradus-sanitize/1"},
                    {"findings", outcome.found},
                    {"differences", differences},
                    {"program_exit", outcome.code},
                    {"exit", session.exit}});
}

}  // namespace gradus::cli
