#include "cli/trace/collect.h"

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "cli/base/failure.h"

namespace gradus::cli {
namespace {

namespace fs = std::filesystem;

// Beside the result, where the program may write and a file can be moved from; gone with its content in the end.
class Folder {
  public:
    explicit Folder(const fs::path& beside) {
        std::string name = (beside.parent_path() / ".gradus-trace-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr)
            throw Failure(kEnvironment,
                          fmt::format("{}: cannot be written: {}", beside.string(), std::strerror(errno)));
        path_ = name;
    }
    ~Folder() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    const fs::path& path() const { return path_; }
    // In the order of their processes.
    std::vector<fs::path> files(const std::string& begin, const std::string& end) const {
        std::vector<fs::path> found;
        for (const auto& entry : fs::directory_iterator(path_)) {
            const std::string name = entry.path().filename().string();
            if (name.rfind(begin, 0) == 0 && entry.path().extension() == end) found.push_back(entry.path());
        }
        std::sort(found.begin(), found.end(), [](const fs::path& a, const fs::path& b) {
            return a.string().size() != b.string().size() ? a.string().size() < b.string().size() : a < b;
        });
        return found;
    }

  private:
    fs::path path_;
};

// While it lives, a key that interrupts is for the program alone.
class LeftAlone {
  public:
    LeftAlone() : interrupt_(signal(SIGINT, SIG_IGN)), quit_(signal(SIGQUIT, SIG_IGN)) {}
    ~LeftAlone() {
        signal(SIGINT, interrupt_);
        signal(SIGQUIT, quit_);
    }
    LeftAlone(const LeftAlone&) = delete;
    LeftAlone& operator=(const LeftAlone&) = delete;

  private:
    sighandler_t interrupt_, quit_;
};

pid_t start(const std::vector<std::string>& program, bool quiet_stdout) {
    std::vector<char*> words;
    for (const std::string& word : program) words.push_back(const_cast<char*>(word.c_str()));  // NOLINT: C reads only
    words.push_back(nullptr);
    posix_spawnattr_t attributes;
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGINT);
    sigaddset(&defaults, SIGQUIT);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (quiet_stdout) posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    pid_t child = 0;
    const int error = posix_spawnp(&child, words[0], &actions, &attributes, words.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (error != 0) throw Failure(kUsage, fmt::format("{}: cannot be run: {}", program[0], std::strerror(error)));
    return child;
}

int run(const std::vector<std::string>& program, bool quiet_stdout) {
    const LeftAlone left_alone;
    const pid_t child = start(program, quiet_stdout);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void close(std::ofstream& file, const fs::path& path) {
    file.close();
    if (!file) throw Failure(kEnvironment, fmt::format("{}: cannot be written", path.string()));
}

// Events are a line each between the first and the last line.
void join_timelines(const std::vector<fs::path>& parts, const fs::path& result) {
    std::ofstream to(result, std::ios::binary);
    bool first = true;
    for (const fs::path& part : parts) {
        std::ifstream from(part, std::ios::binary);
        std::string line;
        std::getline(from, line);
        if (first) to << line;
        while (std::getline(from, line) && line != "]}") {
            if (!line.empty() && line.back() == ',') line.pop_back();
            to << (first ? "\n" : ",\n") << line;
            first = false;
        }
    }
    to << "\n]}\n";
    close(to, result);
}

void join_tables(const std::vector<fs::path>& parts, const fs::path& result) {
    std::ofstream to(result, std::ios::binary);
    for (size_t i = 0; i < parts.size(); ++i) {
        std::ifstream from(parts[i], std::ios::binary);
        std::string line;
        if (i > 0) std::getline(from, line);  // the heading
        while (std::getline(from, line)) to << line << "\n";
    }
    close(to, result);
}

}  // namespace

Traced run_traced(const std::vector<std::string>& program, const std::string& file, double memory_limit,
                  bool quiet_stdout) {
    const fs::path result = fs::absolute(file);
    const Folder folder(result);
    setenv("GRADUS_TRACE", (folder.path() / "%p.json").c_str(), 1);
    if (memory_limit > 0) setenv("GRADUS_TRACE_LIMIT", fmt::format("{:.3f}", memory_limit).c_str(), 1);
    Traced traced{run(program, quiet_stdout), 0, {}};
    const auto timelines = folder.files("", ".json");
    traced.processes = static_cast<int>(timelines.size());
    if (timelines.empty()) return traced;
    join_timelines(timelines, result);
    traced.files.push_back(file);
    for (const std::string table : {"op_summary_", "api_statistic_"}) {
        const fs::path path = fs::path(file).parent_path() / (table + fs::path(file).stem().string() + ".csv");
        join_tables(folder.files(table, ".csv"), path);
        traced.files.push_back(path.string());
    }
    return traced;
}

}  // namespace gradus::cli
