// One self-contained HTML page: no script from elsewhere, readable in light and dark, printable.
#pragma once

#include <string>
#include <vector>

namespace gradus::cli {

class Page {
  public:
    explicit Page(const std::string& title);
    void heading(const std::string& text);
    void verdict(bool good, const std::string& word, const std::string& sentence);
    void table(const std::vector<std::vector<std::string>>& rows);  // first row: heading
    void svg(const std::string& drawing, const std::string& caption);
    void text(const std::string& paragraph);
    void write(const std::string& path) const;  // Failure(kEnvironment) if it cannot

  private:
    std::string title_, body_;
};

std::string escaped(const std::string& text);

}  // namespace gradus::cli
