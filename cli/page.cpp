#include "cli/page.h"

#include <fmt/format.h>

#include <cctype>
#include <cstdio>
#include <fstream>

#include "cli/failure.h"
#include "gradus/gradus.h"

namespace gradus::cli {
namespace {

constexpr char kStyle[] = R"css(
:root { color-scheme: light dark;
  --paper: #fbfbf9; --panel: #ffffff; --ink: #1c2024; --soft: #5d666f; --line: #dfe2e5; --accent: #2f6fb2;
  --good: #1a7f4b; --good-wash: #e5f5ec; --warn: #b3730b; --bad: #c0322b; --bad-wash: #fcebe9;
  --heat-1: #e3eef8; --heat-2: #b9d7ee; --heat-3: #f7d79a; --heat-4: #f2a65a; --heat-5: #dd6031; --heat-6: #a3201d;
  --heat-7: #5b1a7c; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #14171a; --panel: #1c2024; --ink: #e8eaec; --soft: #9aa4ad; --line: #343b42; --accent: #6fb1ee;
  --good: #4cc38a; --good-wash: #14301f; --warn: #e2a83f; --bad: #f2726a; --bad-wash: #3a1a18;
  --heat-1: #23384b; --heat-2: #2f5f8a; --heat-3: #8a6a1f; --heat-4: #c9812a; --heat-5: #ec7440; --heat-6: #ff9d8a;
  --heat-7: #d58cff; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.35rem; line-height: 1.25; margin: 0 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 2.2rem 0 .6rem; }
p { margin: .5rem 0; max-width: 48rem; overflow-wrap: anywhere; }
.verdict { border-left: .4rem solid var(--tone); background: var(--wash); border-radius: .4rem;
  padding: .8rem 1.1rem; margin: .8rem 0; }
.verdict strong { display: block; color: var(--tone); font-size: 1.5rem; line-height: 1.3; }
.verdict p { margin: .2rem 0 0; }
.good { --tone: var(--good); --wash: var(--good-wash); }
.bad { --tone: var(--bad); --wash: var(--bad-wash); }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: .4rem; background: var(--panel); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { text-align: left; padding: .38rem .8rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; white-space: nowrap; }
tr:last-child td { border-bottom: 0; }
td { min-width: 5rem; }
td.number { white-space: nowrap; }
td.pass { color: var(--good); font-weight: 600; }
td.fail { color: var(--bad); font-weight: 600; }
figure { margin: 0; padding: .8rem; border: 1px solid var(--line); border-radius: .4rem; background: var(--panel);
  overflow-x: auto; }
figure svg { display: block; width: 100%; height: auto; }
figcaption { color: var(--soft); font-size: .9rem; margin-top: .5rem; max-width: 48rem; }
svg text { fill: var(--soft); font: 12px system-ui, "DejaVu Sans", sans-serif; }
footer { color: var(--soft); font-size: .85rem; margin-top: 2.5rem; }
@media (max-width: 40rem) { figure { padding: .4rem; } figure svg { min-width: 40rem; } svg text { font-size: 14px; }
  th, td { padding: .35rem .5rem; } td:first-child { min-width: 9rem; } }
@media print { body { background: none; } .scroll { overflow: visible; } }
)css";

// pass and fail in colour, numbers and indices in one line.
const char* class_of(const std::string& cell) {
    if (cell == "pass" || cell == "fail") return cell == "pass" ? " class=\"pass\"" : " class=\"fail\"";
    const size_t at = cell.find_first_not_of("-+[");
    if (at == std::string::npos || cell.size() >= 24) return "";
    return std::isdigit(static_cast<unsigned char>(cell[at])) != 0 ? " class=\"number\"" : "";
}

}  // namespace

std::string escaped(const std::string& text) {
    std::string html;
    for (const char c : text) {
        switch (c) {
            case '&':
                html += "&amp;";
                break;
            case '<':
                html += "&lt;";
                break;
            case '>':
                html += "&gt;";
                break;
            case '"':
                html += "&quot;";
                break;
            default:
                html += c;
        }
    }
    return html;
}

std::string svg_open(int width, int height, const std::string& title) {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\"><title>{}</title>\n", width,
        height, escaped(title));
}

Page::Page(const std::string& title) : title_(title) {}

void Page::heading(const std::string& text) { body_ += fmt::format("<h2>{}</h2>\n", escaped(text)); }

void Page::verdict(bool good, const std::string& word, const std::string& sentence) {
    body_ += fmt::format("<div class=\"verdict {}\"><strong>{}</strong><p>{}</p></div>\n", good ? "good" : "bad",
                         escaped(word), escaped(sentence));
}

void Page::table(const std::vector<std::vector<std::string>>& rows) {
    body_ += "<div class=\"scroll\" tabindex=\"0\"><table>\n";
    for (size_t i = 0; i < rows.size(); ++i) {
        body_ += i == 0 ? "<thead><tr>" : "<tr>";
        for (const std::string& cell : rows[i])
            body_ += i == 0 ? fmt::format("<th scope=\"col\">{}</th>", escaped(cell))
                            : fmt::format("<td{}>{}</td>", class_of(cell), escaped(cell));
        body_ += i == 0 ? "</tr></thead><tbody>\n" : "</tr>\n";
    }
    body_ += "</tbody></table></div>\n";
}

void Page::svg(const std::string& drawing, const std::string& caption) {
    body_ += fmt::format("<figure>{}<figcaption>{}</figcaption></figure>\n", drawing, escaped(caption));
}

void Page::part(const std::string& html) { body_ += html; }

void Page::text(const std::string& paragraph) { body_ += fmt::format("<p>{}</p>\n", escaped(paragraph)); }

void Page::write(const std::string& path) const {
    const std::string title = escaped(title_);
    const std::string html = fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n"
        "<link rel=\"icon\" href=\"data:,\">\n<style>{}</style>\n</head>\n<body>\n<main>\n<h1>{}</h1>\n{}"
        "<footer>gradus {}</footer>\n</main>\n</body>\n</html>\n",
        title, kStyle, title, body_, gradusVersion());
    std::ofstream file(path, std::ios::binary);
    file << html;
    file.close();
    if (!file) throw Failure(kEnvironment, fmt::format("{}: cannot be written", path));
}

}  // namespace gradus::cli
