// The page of `gradus sanitize`: one file, no network, no script. A race is drawn as two rows, the two accesses on
// them, and the arrow that is missing.
#include <fmt/core.h>

#include <fstream>

#include "cli/failure.h"
#include "cli/sanitize.h"

namespace gradus::cli {
namespace {

using nlohmann::json;

constexpr char kHead[] = R"(<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>gradus sanitize</title>
<style>
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1f24;background:#fff}
h1{font-size:1.4rem}h2{font-size:1.05rem;margin:0}
article{border:1px solid #d0d7de;border-left:5px solid #888;border-radius:6px;padding:1rem;margin:1rem 0}
article.error{border-left-color:#c62828}article.warning{border-left-color:#e69f00}
code,pre{font:13px/1.45 ui-monospace,monospace}pre{background:#f6f8fa;padding:.6rem;overflow:auto;margin:.4rem 0}
.fix{background:#e8f5e9;padding:.4rem .6rem;border-radius:4px}.part{margin:.6rem 0 0}
svg{width:100%;height:auto;margin-top:.6rem}svg text{font:13px system-ui,sans-serif}
</style>
)";

std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
        if (c == '<')
            out += "&lt;";
        else if (c == '>')
            out += "&gt;";
        else if (c == '&')
            out += "&amp;";
        else if (c == '"')
            out += "&quot;";
        else
            out += c;
    }
    return out;
}

std::string word(const json& finding, const char* key) { return finding.value(key, std::string()); }

std::string row_name(const std::string& stream) { return stream == "host" ? "host" : "stream " + stream; }

std::string draw_race(const json& finding) {
    const auto box = [](int x, int y, const std::string& title, const std::string& does) {
        return fmt::format(
            "<rect x='{}' y='{}' width='300' height='44' rx='4' fill='#dbe9ff' stroke='#3b6fb6'/>"
            "<text x='{}' y='{}'>{}</text><text x='{}' y='{}' fill='#555'>{}</text>",
            x, y, x + 8, y + 18, escaped(title), x + 8, y + 36, escaped(does));
    };
    const std::string kind = word(finding, "kind");
    const bool later_writes = kind.rfind("write", 0) == 0,
               earlier_writes = kind.find("after write") != std::string::npos;
    const auto does = [](bool writes, const std::string& argument) {
        return (writes ? "writes " : "reads ") + argument;
    };
    return fmt::format(
        "<svg viewBox='0 0 860 150' role='img' aria-label='the two accesses and the arrow that is missing'>"
        "<defs><marker id='m' markerWidth='8' markerHeight='8' refX='7' refY='3' orient='auto'>"
        "<path d='M0,0L7,3L0,6z' fill='#c62828'/></marker></defs>"
        "<line x1='90' y1='37' x2='850' y2='37' stroke='#bbb'/><line x1='90' y1='117' x2='850' y2='117' stroke='#bbb'/>"
        "<text x='4' y='42'>{}</text><text x='4' y='122'>{}</text>{}{}"
        "<line x1='412' y1='42' x2='528' y2='108' stroke='#c62828' stroke-width='2' stroke-dasharray='6 5' "
        "marker-end='url(#m)'/><text x='480' y='66' fill='#c62828'>nothing orders the two</text></svg>\n",
        row_name(word(finding, "other_stream")), row_name(word(finding, "stream")),
        box(110, 15, word(finding, "other_function"), does(earlier_writes, word(finding, "other_argument"))),
        box(534, 95, word(finding, "function"), does(later_writes, word(finding, "argument"))));
}

std::string stack_text(const json& part) {
    std::string text;
    for (const json& frame : part["stack"]) {
        const std::string file = word(frame, "file");
        text += file.empty() ? word(frame, "function")
                             : fmt::format("{}:{} {}", file.substr(file.rfind('/') + 1), frame.value("line", 0),
                                           word(frame, "function"));
        text += "\n";
    }
    return text;
}

std::string article(const json& finding) {
    std::string html = fmt::format("<article class='{}'><h2>#{} {} <code>{}</code> {}</h2>\n", word(finding, "level"),
                                   finding.value("number", 0), word(finding, "level"), word(finding, "id"),
                                   escaped(word(finding, "kind")));
    if (word(finding, "id") == "race") html += draw_race(finding);
    for (const json& part : finding["parts"]) {
        html += fmt::format("<p class='part'>{}</p>\n", escaped(word(part, "text")));
        if (!part["stack"].empty()) html += fmt::format("<pre>{}</pre>\n", escaped(stack_text(part)));
    }
    if (const std::string fix = word(finding, "fix"); !fix.empty())
        html += fmt::format("<p class='fix'>Fix: {}</p>\n", escaped(fix));
    return html + "</article>\n";
}

}  // namespace

void write_sanitize_page(const std::string& path, const std::string& program, const std::vector<json>& found) {
    std::ofstream file(path);
    file << kHead << fmt::format("<h1>gradus sanitize</h1>\n<p><code>{}</code></p>\n", escaped(program));
    file << (found.empty() ? "<p>Nothing found.</p>\n" : fmt::format("<p>{} found.</p>\n", found.size()));
    for (const json& finding : found) file << article(finding);
    file << "</html>\n";
    if (!file.flush()) throw Failure(kEnvironment, fmt::format("cannot write {}", path));
}

}  // namespace gradus::cli
