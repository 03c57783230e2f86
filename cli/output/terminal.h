// Colour, tables and progress, where somebody looks at them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gradus::cli {

enum class Tint { plain, good, bad, dim, bold };
// Escapes only when stdout is a terminal and NO_COLOR is not set.
std::string tinted(Tint tint, const std::string& text);

// Columns as wide as their widest cell; the first row is the heading. Widths count characters, not bytes.
std::string table(const std::vector<std::vector<std::string>>& rows);

// On stderr, only if that is a terminal, and only once the work has taken a second.
class Progress {
  public:
    explicit Progress(std::string what, int64_t steps);
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    void step(const std::string& doing);

  private:
    void draw();
    std::string what_, doing_;
    int64_t steps_, done_ = 0;
    double start_, drawn_ = 0;
};

}  // namespace gradus::cli
