#include "base/log.h"

#include <unistd.h>

#include "base/config.h"

namespace gradus {

bool log_enabled(LogLevel level) noexcept { return level <= config_log_level(); }

void log(LogLevel level, const std::string& line) noexcept {
    if (!log_enabled(level)) return;
    try {
        const std::string text = "gradus: " + line + "\n";
        [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    } catch (...) {  // a log line is never worth an error
    }
}

}  // namespace gradus
