#include "base/log.h"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

#include "base/config.h"
#include "base/nonblocking.h"

namespace gradus {

bool log_enabled(LogLevel level) noexcept { return level <= config_log_level(); }

void log(LogLevel level, const Text& line) noexcept {
    if (log_enabled(level)) log_line(line);
}

void log_line(const Text& line) noexcept {
    const MayBlock asked_for;
    const int before = errno;
    char head[] = "gradus: ", end[] = "\n";
    const iovec parts[] = {{head, sizeof head - 1},
                           {const_cast<char*>(line.c_str()), line.view().size()},  // NOLINT: writev reads only
                           {end, 1}};
    [[maybe_unused]] const ssize_t written = writev(STDERR_FILENO, parts, 3);
    errno = before;
}

}  // namespace gradus
