// gradus: the library's operators from the shell. What can be asked for is in commands/.
#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <iostream>

#include "cli/base/failure.h"
#include "cli/base/json.h"
#include "cli/base/text.h"
#include "cli/commands/command_line.h"

namespace gradus::cli {
namespace {

// Throws nothing that has to do with stdout, which may be what failed.
int report(Exit exit, const std::string& what, const Session& session) {
    std::fflush(stdout);
    fmt::print(stderr, "gradus: {}\n", what);
    if (!session.json) return exit;
    std::fputs(json_text({{"schema", "gradus-error/1"}, {"error", what}, {"exit", exit}}).c_str(), stdout);
    std::fflush(stdout);
    return exit;
}

// A full disk is seen when the last bytes are written, not before.
int finished(int exit, const Session& session) {
    errno = 0;
    if (std::cout.flush() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit;
    return report(kEnvironment, fmt::format("stdout: {}", std::strerror(errno != 0 ? errno : EIO)), session);
}

int run_main(int argc, char** argv) {
    Session session;
    const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
    session.line = fmt::format("gradus {}", quoted(words));
    // Before anything is parsed: an error of the parser is wanted as JSON, too.
    const auto own = std::find(words.begin(), words.end(), "--");  // the rest is a program's
    session.json = std::find(words.begin(), own, "--json") != own;
    try {
        return finished(run_command_line(argc, argv, session), session);
    } catch (const Failure& failure) {
        return report(failure.exit, failure.what(), session);
    } catch (const std::exception& error) {  // no memory, no room on the disk, a catalogue of another version
        return report(kEnvironment, error.what(), session);
    }
}

}  // namespace
}  // namespace gradus::cli

int main(int argc, char** argv) {
    try {
        return gradus::cli::run_main(argc, argv);
    } catch (...) {  // while it was said what went wrong
        std::fputs("gradus: out of memory\n", stderr);
        return gradus::cli::kEnvironment;
    }
}
