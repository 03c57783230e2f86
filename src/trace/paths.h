// Names of the files that a process writes, made from what GRADUS_TRACE says.
#pragma once

#include <climits>
#include <cstdint>

namespace gradus::trace {

class FilePattern {
  public:
    // Taken as it is seen from here: the program may change its directory. False: too long.
    bool set(const char* file) noexcept;
    // Of a fork: without %p in the name, the number of the process comes before its ending.
    void set_child() noexcept { child_ = true; }

    // %p is the number of the process. False: too long.
    bool timeline(uint32_t process, char (&path)[PATH_MAX]) const noexcept;
    // In the same folder, "op_summary_" and the name without .json.
    bool table(const char* prefix, uint32_t process, char (&path)[PATH_MAX]) const noexcept;

  private:
    char pattern_[PATH_MAX];
    bool child_ = false;
};

}  // namespace gradus::trace
