// One self-contained HTML page: nothing from elsewhere, readable in light and dark, on a narrow screen and on paper.
#pragma once

#include <string>
#include <vector>

namespace gradus::cli {

enum class Tone { good, warn, bad };

class Page {
  public:
    explicit Page(const std::string& title);
    void heading(const std::string& text);
    void verdict(Tone tone, const std::string& word, const std::string& sentence);
    void table(const std::vector<std::vector<std::string>>& rows);  // first row: heading
    // A drawing carries its own <title> and role for those who cannot see it; the caption is for all.
    // `narrow` is the same for a screen of less than 640 points, should the other be too small to read there.
    void svg(const std::string& drawing, const std::string& narrow, const std::string& caption);
    void text(const std::string& paragraph);
    void part(const std::string& html);  // of the caller's own making, as it is
    // With the time and the command line at the end. Failure(kEnvironment) if it cannot.
    void write(const std::string& path, const std::string& line) const;

  private:
    std::string title_, body_;
};

bool is_page(const std::string& path);  // .html

std::string escaped(const std::string& text);

// The start of a drawing: role, title and the size it is drawn for; it scales with the page. Close with </svg>.
// Colours are the page's: var(--ink), --soft, --line, --panel, --good, --warn, --bad, --accent, --heat-1 to --heat-7.
std::string svg_open(int width, int height, const std::string& title);

}  // namespace gradus::cli
