// The page of `gradus sanitize`. A race is drawn as two rows, the two accesses on them, and the arrow that is missing.
#include <fmt/core.h>

#include "cli/output/page.h"
#include "cli/sanitize/sanitize.h"

namespace gradus::cli {
namespace {

using nlohmann::json;

std::string word(const json& finding, const char* key) { return finding.value(key, std::string()); }

std::string row_name(const std::string& stream) { return stream == "host" ? "host" : "stream " + stream; }

std::string box(int x, int y, const std::string& title, const std::string& does) {
    return fmt::format(
        "<rect x='{}' y='{}' width='300' height='46' rx='4' fill='var(--panel)' stroke='var(--accent)'/>"
        "<text x='{}' y='{}' fill='var(--ink)'>{}</text><text x='{}' y='{}' fill='var(--soft)'>{}</text>",
        x, y, x + 10, y + 19, escaped(title), x + 10, y + 38, escaped(does));
}

std::string draw_race(const json& finding) {
    const std::string kind = word(finding, "kind");  // "read after write"
    const bool later_writes = kind.starts_with("write"), earlier_writes = kind.ends_with("after write");
    const auto does = [](bool writes, const std::string& argument) {
        return (writes ? "writes " : "reads ") + argument;
    };
    return svg_open(860, 150, "two accesses and the arrow that is missing") +
           fmt::format(
               "<line x1='90' y1='37' x2='850' y2='37' stroke='var(--line)'/>"
               "<line x1='90' y1='117' x2='850' y2='117' stroke='var(--line)'/>"
               "<text x='4' y='42' fill='var(--ink)'>{}</text><text x='4' y='122' fill='var(--ink)'>{}</text>{}{}"
               "<line x1='412' y1='42' x2='526' y2='108' stroke='var(--bad)' stroke-width='2' stroke-dasharray='6 5'/>"
               "<path d='M530,112l-12,-2l6,-9z' fill='var(--bad)'/>"
               "<text x='480' y='66' fill='var(--bad)'>nothing orders the two</text></svg>",
               row_name(word(finding, "other_stream")), row_name(word(finding, "stream")),
               box(110, 14, word(finding, "other_function"), does(earlier_writes, word(finding, "other_argument"))),
               box(534, 94, word(finding, "function"), does(later_writes, word(finding, "argument"))));
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
    if (word(finding, "id") == "race") page.svg(draw_race(finding), "", kind);
    std::vector<std::vector<std::string>> rows = {{"What", "Where"}};
    for (const json& part : finding.at("parts")) rows.push_back({word(part, "text"), stack_text(part)});
    if (const std::string fix = word(finding, "fix"); !fix.empty()) rows.push_back({"Fix", fix});
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
