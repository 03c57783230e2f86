#include "trace/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>

namespace gradus::trace {

bool Output::open(const char* path) noexcept {
    constexpr std::string_view kSuffix = ".part";
    const size_t length = std::strlen(path);
    if (length + kSuffix.size() >= sizeof part_) return errno = ENAMETOOLONG, false;
    std::memcpy(path_, path, length + 1);
    std::memcpy(part_, path, length);
    std::memcpy(part_ + length, kSuffix.data(), kSuffix.size() + 1);
    size_ = 0;
    failed_ = false;
    fd_ = ::open(part_, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return fd_ >= 0;
}

bool Output::close() noexcept {
    flush();
    if (::close(fd_) != 0) failed_ = true;
    fd_ = -1;
    if (!failed_ && std::rename(part_, path_) == 0) return true;
    const int before = errno;
    unlink(part_);
    errno = before;
    return false;
}

void Output::flush() noexcept {
    for (size_t at = 0; at < size_ && !failed_;) {
        const ssize_t n = write(fd_, buffer_ + at, size_ - at);
        if (n >= 0)
            at += static_cast<size_t>(n);
        else if (errno != EINTR)
            failed_ = true;
    }
    size_ = 0;
}

Output& Output::operator<<(std::string_view text) noexcept {
    while (!text.empty()) {
        const size_t n = std::min(text.size(), sizeof buffer_ - size_);
        std::memcpy(buffer_ + size_, text.data(), n);
        size_ += n;
        text.remove_prefix(n);
        if (size_ == sizeof buffer_) flush();
    }
    return *this;
}

Output& Output::operator<<(int64_t number) noexcept {
    char digits[24];
    return *this << std::string_view(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

Output& Output::operator<<(uint64_t number) noexcept {
    char digits[24];
    return *this << std::string_view(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

// How many bytes the character at `at` has; 0: it is not UTF-8.
static size_t character(std::string_view text, size_t at) noexcept {
    const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
    const unsigned c = byte(at), second = byte(at + 1);
    const size_t size = c < 0x80 ? 1 : c < 0xC2 ? 0 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF5 ? 4 : 0;
    for (size_t i = 1; i < size; ++i)
        if ((byte(at + i) & 0xC0) != 0x80) return 0;
    const bool too_long = (c == 0xE0 && second < 0xA0) || (c == 0xF0 && second < 0x90);
    const bool no_letter = (c == 0xED && second >= 0xA0) || (c == 0xF4 && second >= 0x90);
    return too_long || no_letter ? 0 : size;
}

// A name or a path may hold any bytes; the file must stay JSON.
void Output::quoted(std::string_view text) noexcept {
    *this << "\"";
    for (size_t i = 0, size; i < text.size(); i += size) {
        size = character(text, i);
        const auto c = static_cast<unsigned char>(text[i]);
        if (size == 0 || c < 0x20 || c == 0x7F) {
            *this << "?";
            size = 1;
        } else {
            if (c == '"' || c == '\\') *this << "\\";
            *this << text.substr(i, size);
        }
    }
    *this << "\"";
}

void Output::field(std::string_view text) noexcept {
    *this << "\"";
    for (size_t i = 0; i < text.size(); ++i) *this << (text[i] == '"' ? "\"\"" : text.substr(i, 1));
    *this << "\"";
}

void Output::micros(int64_t ns) noexcept {
    if (ns < 0) {
        *this << "-";
        ns = -ns;
    }
    const auto rest = static_cast<int>(ns % 1000);
    const char fraction[] = {'.', static_cast<char>('0' + rest / 100), static_cast<char>('0' + rest / 10 % 10),
                             static_cast<char>('0' + rest % 10)};
    *this << ns / 1000 << std::string_view(fraction, sizeof fraction);
}

void Output::decimal(double value) noexcept {
    const double cut = std::clamp(value, -1e15, 1e15);
    micros(static_cast<int64_t>(cut * 1000 + (cut < 0 ? -0.5 : 0.5)));
}

}  // namespace gradus::trace
