#include "sanitize/lines.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

namespace gradus::sanitize {

Lines::Lines(const std::string& path) {
    std::error_code nowhere;  // the program may change its folder
    const std::filesystem::path whole = std::filesystem::absolute(path, nowhere);
    path_ = nowhere ? path : whole.string();
    open();
}

void Lines::open() {
    file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    struct stat status {};
    if (file_ < 0 || fstat(file_, &status) != 0) return;
    device_ = status.st_dev;
    number_ = status.st_ino;
}

bool Lines::still_open() const {
    struct stat status {};
    return fstat(file_, &status) == 0 && status.st_dev == device_ && status.st_ino == number_;
}

// In one piece where the kernel takes it, so that lines of several processes do not mix.
void Lines::add(const std::string& text) {
    const int before = errno;
    if (!path_.empty() && !still_open()) open();
    for (size_t at = 0; at < text.size();) {
        const ssize_t n = ::write(file_, text.data() + at, text.size() - at);
        if (n <= 0) break;
        at += static_cast<size_t>(n);
    }
    errno = before;
}

}  // namespace gradus::sanitize
