// The page of `gradus sanitize`. A race is drawn as two rows, the two accesses on them, and the arrow that is missing.
#include <fmt/core.h>

#include "cli/output/page.h"
#include "cli/sanitize/sanitize.h"

namespace gradus::cli {
namespace {

using nlohmann::json;

std::string word(const json& finding, const char* key) { return finding.value(key, std::string()); }

std::string row_name(const std::string& stream) { return stream == "host" ? "host" : "stream " + stream; }

struct Point {
    int x, y;
};

// Where things are in the drawing of a race: on a telephone the rows' names stand above their lines.
struct Layout {
    int width, height, box_width;
    int line_from;         // x
    Point names[2];        // of the rows: the earlier access, and the later one
    Point boxes[2];        // the corner at the top left
    Point arrow[2], said;  // from, to, and what is said beside it
};
constexpr Layout kWide = {860,      150, 300, 90, {{4, 42}, {4, 122}}, {{110, 14}, {534, 94}}, {{412, 42}, {530, 112}},
                          {480, 66}};
constexpr Layout kNarrow = {370,      196, 240, 4, {{4, 16}, {4, 138}}, {{4, 24}, {126, 146}}, {{90, 72}, {180, 142}},
                            {150, 98}};

std::string box(const Layout& layout, Point at, const std::string& title, const std::string& does) {
    return fmt::format(
        "<rect x='{}' y='{}' width='{}' height='46' rx='4' fill='var(--panel)' stroke='var(--accent)'/>"
        "<text x='{}' y='{}' style='fill:var(--ink)'>{}</text><text x='{}' y='{}'>{}</text>",
        at.x, at.y, layout.box_width, at.x + 10, at.y + 19, escaped(title), at.x + 10, at.y + 38, escaped(does));
}

std::string draw_race(const json& finding, const Layout& layout) {
    const std::string kind = word(finding, "kind");  // "read after write"
    const bool later_writes = kind.starts_with("write"), earlier_writes = kind.ends_with("after write");
    const auto does = [](bool writes, const std::string& argument) {
        return (writes ? "writes " : "reads ") + argument;
    };
    std::string svg = svg_open(layout.width, layout.height, "two accesses and the arrow that is missing");
    for (const Point& at : layout.boxes)
        svg += fmt::format("<line x1='{}' y1='{}' x2='{}' y2='{}' stroke='var(--line)'/>", layout.line_from, at.y + 23,
                           layout.width - 10, at.y + 23);
    const std::string streams[] = {word(finding, "other_stream"), word(finding, "stream")};
    for (int row = 0; row < 2; ++row)
        svg += fmt::format("<text x='{}' y='{}' style='fill:var(--ink)'>{}</text>", layout.names[row].x,
                           layout.names[row].y, row_name(streams[row]));
    svg += box(layout, layout.boxes[0], word(finding, "other_function"),
               does(earlier_writes, word(finding, "other_argument")));
    svg += box(layout, layout.boxes[1], word(finding, "function"), does(later_writes, word(finding, "argument")));
    const auto& [from, to] = layout.arrow;
    return svg + fmt::format(
                     "<line x1='{}' y1='{}' x2='{}' y2='{}' stroke='var(--bad)' stroke-width='2' "
                     "stroke-dasharray='6 5'/><path d='M{},{}l-12,-2l6,-9z' fill='var(--bad)'/>"
                     "<text x='{}' y='{}' style='fill:var(--bad);font-weight:600'>nothing orders the two</text></svg>",
                     from.x, from.y, to.x - 4, to.y - 4, to.x, to.y, layout.said.x, layout.said.y);
}

std::string stack_text(const json& part) {
    std::string text;
    for (const json& frame : part.at("stack")) {
        const std::string file = word(frame, "file");
        if (!text.empty()) text += ", ";
        text += file.empty() ? word(frame, "function")
                             : fmt::format("{}:{} {}", file.substr(file.rfind('/') + 1), frame.value("line", 0),
                                           word(frame, "function"));
    }
    return text;
}

void add(Page& page, const json& finding) {
    const std::string level = word(finding, "level"), kind = word(finding, "kind");
    page.heading(fmt::format("#{} {}{}", finding.value("number", 0), word(finding, "id"),
                             kind.empty() ? "" : " (" + kind + ")"));
    page.verdict(level == "error" ? Tone::bad : Tone::warn, level,
                 finding.at("parts").empty() ? "" : word(finding.at("parts")[0], "text"));
    if (word(finding, "id") == "race") page.svg(draw_race(finding, kWide), draw_race(finding, kNarrow), kind);
    std::vector<std::vector<std::string>> rows = {{"What", "Where"}};
    for (const json& part : finding.at("parts")) rows.push_back({word(part, "text"), stack_text(part)});
    if (const std::string fix = word(finding, "fix"); !fix.empty()) rows.push_back({"Fix", fix});
    if (const std::string schedule = word(finding, "schedule"); !schedule.empty())
        rows.push_back({"Found with", "GRADUS_SCHEDULE=" + schedule});
    page.table(rows);
}

}  // namespace

void write_sanitize_page(const std::string& path, const std::string& line, const std::vector<json>& found) {
    Page page("gradus sanitize");
    if (found.empty()) page.verdict(Tone::good, "clean", "Nothing found.");
    for (const json& finding : found) add(page, finding);
    page.write(path, line);
}

}  // namespace gradus::cli
