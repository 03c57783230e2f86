// A file that a signal handler may write: no memory, no locks, no stdio. It appears under its name when it is whole.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gradus::trace {

class Output {
  public:
    bool open(const char* path) noexcept;
    bool close() noexcept;  // false: it could not be written, and is not there

    Output& operator<<(std::string_view text) noexcept;
    Output& operator<<(int64_t number) noexcept;
    Output& operator<<(uint64_t number) noexcept;
    Output& operator<<(int number) noexcept { return *this << int64_t{number}; }
    Output& operator<<(uint32_t number) noexcept { return *this << uint64_t{number}; }

    void quoted(std::string_view text) noexcept;  // as a string of JSON
    void field(std::string_view text) noexcept;   // of a CSV
    void micros(int64_t ns) noexcept;             // 12.345
    void decimal(double value) noexcept;          // three digits behind the point; beyond 10^15 it is cut

  private:
    void flush() noexcept;

    int fd_ = -1;
    bool failed_ = false;
    size_t size_ = 0;
    char path_[PATH_MAX], part_[PATH_MAX];
    char buffer_[1 << 16];
};

}  // namespace gradus::trace
