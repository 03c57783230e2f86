#include "sanitize/options.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace gradus::sanitize {
namespace {

bool read_tool(std::string_view word, Options& options) {
    const bool all = word == "on" || word == "all" || word == "1";
    bool known = all;
    const auto tool = [&](std::string_view name, bool& flag) {
        if (all || word == name) flag = known = true;
    };
    tool("memcheck", options.memcheck);
    tool("racecheck", options.racecheck);
    tool("initcheck", options.initcheck);
    tool("leakcheck", options.leakcheck);
    return known;
}

bool read_setting(std::string_view key, std::string_view value, Options& options) {
    if (key == "log") return options.log = value, true;
    if (key == "json") return options.json = value, true;
    if (key == "suppressions") return options.suppressions = value, true;
    if (key == "copies") return options.copies = value, true;
    if (key == "leak-check") return options.full_leaks = value == "full", value == "full" || value == "summary";
    if (key == "portability") return options.full_portability = value == "full", value == "full" || value == "usual";
    if (key == "api-errors") return options.api_errors = value == "yes", value == "yes" || value == "no";
    if (key == "keep") return options.keep_all = value == "all", value == "all";
    if (key == "quarantine") {
        size_t mebibytes = 0;
        const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), mebibytes);
        options.quarantine = mebibytes << 20;
        return code == std::errc() && end == value.data() + value.size() && mebibytes < (size_t{1} << 30);
    }
    return false;
}

// Up to the next comma, which is taken away, too; one that belongs to a name is written \,
std::string next_word(std::string_view& text) {
    std::string word;
    size_t at = 0;
    for (; at < text.size() && text[at] != ','; ++at) {
        if (text[at] == '\\' && at + 1 < text.size()) ++at;
        word += text[at];
    }
    text.remove_prefix(std::min(at + 1, text.size()));
    return word;
}

// Files that cannot be opened would be found out when it is too late.
std::string check_files(const Options& options) {
    const auto check = [](const char* key, const std::string& path, int how) -> std::string {
        if (path.empty()) return {};
        const int file = open(path.c_str(), how | O_CLOEXEC, 0644);
        const int reason = errno;
        struct stat status {};
        const bool good = file >= 0 && fstat(file, &status) == 0 && !S_ISDIR(status.st_mode);
        if (file >= 0) close(file);
        if (good) return {};
        return "GRADUS_SANITIZE: " + std::string(key) + "=" + path + ": " + std::strerror(file < 0 ? reason : EISDIR) +
               ", expected a file that can be " + (how == O_RDONLY ? "read" : "written");
    };
    constexpr int kAppend = O_WRONLY | O_CREAT | O_APPEND;
    std::string error = check("suppressions", options.suppressions, O_RDONLY);
    if (error.empty()) error = check("log", options.log, kAppend);
    return error.empty() ? check("json", options.json, kAppend) : error;
}

}  // namespace

std::optional<Options> parse_options(std::string_view text, std::string& error) {
    if (text.empty() || text == "off" || text == "0") return std::nullopt;
    Options options;
    while (!text.empty()) {
        const std::string word = next_word(text);
        const size_t equals = word.find('=');
        const std::string_view view = word;
        const bool good = equals == std::string::npos
                              ? read_tool(view, options)
                              : read_setting(view.substr(0, equals), view.substr(equals + 1), options);
        if (!good)
            error = "GRADUS_SANITIZE: value '" + word +
                    "', expected off, on, memcheck, racecheck, initcheck, leakcheck, or key=value of log, json, "
                    "suppressions, leak-check, portability, api-errors, quarantine, copies";
    }
    if (error.empty()) error = check_files(options);
    if (!options.memcheck && !options.racecheck && !options.initcheck && !options.leakcheck) read_tool("on", options);
    return options;
}

}  // namespace gradus::sanitize
