#include "cli/base/write_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "cli/base/failure.h"

namespace gradus::cli {
namespace {

[[noreturn]] void fail(const std::string& path, int error) {
    throw Failure(kEnvironment, path + ": " + std::strerror(error));
}

void write_parts(const std::string& path, const std::vector<std::string_view>& parts) {
    std::FILE* file = std::fopen(path.c_str(), "wb");
    if (file == nullptr) fail(path, errno);
    bool written = true;
    for (const std::string_view part : parts)
        written = written && std::fwrite(part.data(), 1, part.size(), file) == part.size();
    const int error = errno;
    if (std::fclose(file) == 0 && written) return;
    fail(path, written ? errno : error);
}

}  // namespace

void expect_writable(const std::string& path) {
    struct stat status {};
    if (stat(path.c_str(), &status) == 0) {
        if (S_ISDIR(status.st_mode)) fail(path, EISDIR);
        if (!S_ISREG(status.st_mode)) return;
    }
    const size_t slash = path.rfind('/');
    const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    if (access(directory.c_str(), W_OK | X_OK) != 0) fail(path, errno);
}

void write_file(const std::string& path, const std::vector<std::string_view>& parts) {
    struct stat status {};
    if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) return write_parts(path, parts);
    const std::string part = path + "." + std::to_string(getpid()) + ".part";
    try {
        write_parts(part, parts);
    } catch (...) {
        std::remove(part.c_str());
        throw;
    }
    if (std::rename(part.c_str(), path.c_str()) == 0) return;
    const int error = errno;
    std::remove(part.c_str());
    fail(path, error);
}

}  // namespace gradus::cli
