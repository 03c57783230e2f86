#include "cli/tensor/input.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "cli/base/failure.h"

namespace gradus::cli {

void refuse(const std::string& file, const std::string& why) { throw Failure(kUsage, file + ": " + why); }

Input::Input(const std::string& path) : name_(path), file_(nullptr, &std::fclose) {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) refuse(path, std::strerror(errno));
    // A pipe has no size to check the header against.
    if (!S_ISREG(status.st_mode)) refuse(path, "not a regular file");
    file_.reset(std::fopen(path.c_str(), "rb"));
    if (file_ == nullptr) refuse(path, std::strerror(errno));
    left_ = size_ = static_cast<int64_t>(status.st_size);
}

Input::Input(std::string name, std::vector<char> content)
    : name_(std::move(name)), file_(nullptr, &std::fclose), content_(std::move(content)) {
    left_ = size_ = static_cast<int64_t>(content_.size());
}

void Input::seek(int64_t to) {
    if (to < 0 || to > size_) refuse(name_, fmt::format("byte {} of {} is asked for", to, size_));
    if (file_ != nullptr && std::fseek(file_.get(), to, SEEK_SET) != 0) refuse(name_, std::strerror(errno));
    left_ = size_ - to;
}

void Input::read(void* to, int64_t bytes, const char* what) {
    if (bytes > left_)
        refuse(name_, fmt::format("truncated: {} wants {} bytes, the file has {} more", what, bytes, left_));
    if (bytes == 0) return;
    const auto size = static_cast<size_t>(bytes);
    if (file_ == nullptr)
        std::memcpy(to, content_.data() + (size_ - left_), size);
    else if (std::fread(to, 1, size, file_.get()) != size)
        refuse(name_, fmt::format("could not be read to its end ({})", what));
    left_ -= bytes;
}

std::vector<char> read_stdin() {
    static bool taken = false;
    if (taken) refuse("-", "stdin has one tensor, and it is taken");
    taken = true;
    std::vector<char> content;
    char piece[1 << 16];
    while (const size_t bytes = std::fread(piece, 1, sizeof piece, stdin))
        content.insert(content.end(), piece, piece + bytes);
    if (std::ferror(stdin) != 0) refuse("-", "stdin cannot be read");
    return content;
}

}  // namespace gradus::cli
