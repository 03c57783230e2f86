// Colour, tables and progress, where somebody looks at them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gradus::cli {

enum class Tint { plain, good, bad, dim, bold, warn };
// Escapes only when stdout is a terminal and NO_COLOR is not set.
std::string tinted(Tint tint, const std::string& text);

// Columns of the terminal that stdout is; without one there is room for everything.
size_t terminal_width();

// Columns as wide as their widest cell; the first row is the heading. Widths count characters, not bytes. Where the
// terminal is narrower, the widest columns are, too, and their cells go on in the next line.
std::string table(const std::vector<std::vector<std::string>>& rows);

// On stderr, only if that is a terminal, and only once the work has taken a second.
class Progress {
  public:
    explicit Progress(std::string what, int64_t steps);
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    void step(const std::string& doing);  // the next of the steps begins
    void tick();                          // the step goes on
    void clear();                         // before something else is printed

  private:
    void draw();
    std::string what_, doing_;
    int64_t steps_, begun_ = 0, ticks_ = 0;
    double start_, drawn_ = 0;
};

}  // namespace gradus::cli
