#include "sanitize/options.h"

#include <charconv>

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

}  // namespace

std::optional<Options> parse_options(std::string_view text, std::string& error) {
    if (text.empty() || text == "off" || text == "0") return std::nullopt;
    Options options;
    while (!text.empty()) {
        const size_t comma = text.find(',');
        const std::string_view word = text.substr(0, comma);
        text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
        const size_t equals = word.find('=');
        const bool good = equals == std::string_view::npos
                              ? read_tool(word, options)
                              : read_setting(word.substr(0, equals), word.substr(equals + 1), options);
        if (!good)
            error = "GRADUS_SANITIZE: '" + std::string(word) +
                    "', expected on, memcheck, racecheck, initcheck, leakcheck or key=value of log, json, "
                    "suppressions, leak-check, api-errors, quarantine, copies";
    }
    if (!options.memcheck && !options.racecheck && !options.initcheck && !options.leakcheck) read_tool("on", options);
    return options;
}

}  // namespace gradus::sanitize
