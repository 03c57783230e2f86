#include "cli/output/page.h"

#include <fmt/format.h>

#include <cctype>
#include <map>

#include "cli/base/clock.h"
#include "cli/base/json.h"
#include "cli/base/write_file.h"
#include "gradus/gradus.h"

namespace gradus::cli {
namespace {

constexpr char kStyle[] = R"css(
:root { color-scheme: light dark;
  --paper: #fbfbf9; --panel: #ffffff; --ink: #1c2024; --soft: #5d666f; --line: #dfe2e5; --accent: #2f6fb2;
  --good: #1a7f4b; --good-wash: #e5f5ec; --warn: #a2660a; --warn-wash: #fbf1dd; --bad: #c0322b; --bad-wash: #fcebe9;
  --heat-1: #e3eef8; --heat-2: #b9d7ee; --heat-3: #f7d79a; --heat-4: #f2a65a; --heat-5: #dd6031; --heat-6: #a3201d;
  --heat-7: #5b1a7c; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #14171a; --panel: #1c2024; --ink: #e8eaec; --soft: #9aa4ad; --line: #343b42; --accent: #6fb1ee;
  --good: #4cc38a; --good-wash: #14301f; --warn: #e2a83f; --warn-wash: #33270f; --bad: #f2726a; --bad-wash: #3a1a18;
  --heat-1: #23384b; --heat-2: #2f5f8a; --heat-3: #8a6a1f; --heat-4: #c9812a; --heat-5: #ec7440; --heat-6: #ff9d8a;
  --heat-7: #d58cff; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 78rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.35rem; line-height: 1.25; margin: 0 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 2.2rem 0 .6rem; }
p { margin: .5rem 0; max-width: 48rem; overflow-wrap: anywhere; }
.verdict { border-left: .4rem solid var(--tone); background: var(--wash); border-radius: .4rem;
  padding: .8rem 1.1rem; margin: .8rem 0; }
.verdict strong { display: block; color: var(--tone); font-size: 1.5rem; line-height: 1.3; }
.verdict p { margin: .2rem 0 0; }
.good { --tone: var(--good); --wash: var(--good-wash); }
.bad { --tone: var(--bad); --wash: var(--bad-wash); }
.warn { --tone: var(--warn); --wash: var(--warn-wash); }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: .4rem; background: var(--panel); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { text-align: left; padding: .38rem .8rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; white-space: nowrap; }
tr:last-child td { border-bottom: 0; }
td { overflow-wrap: anywhere; }
td.number, td.word { white-space: nowrap; }
td.tone { color: var(--tone); font-weight: 600; white-space: nowrap; }
figure { margin: 0; padding: .8rem; border: 1px solid var(--line); border-radius: .4rem; background: var(--panel);
  overflow-x: auto; }
figure + .scroll { margin-top: .8rem; }
figure svg { display: block; width: 100%; height: auto; }
figcaption { color: var(--soft); font-size: .9rem; margin-top: .5rem; max-width: 48rem; }
svg text { fill: var(--soft); font: 12px system-ui, "DejaVu Sans", sans-serif; }
svg text.dot { fill: var(--panel); font-size: 9px; font-weight: 600; }
.narrow { display: none; }
.note { position: fixed; display: none; padding: .2rem .6rem; border-radius: .3rem; background: var(--ink);
  color: var(--paper); font-size: .85rem; font-variant-numeric: tabular-nums; pointer-events: none; }
.note.shown { display: block; }
footer { color: var(--soft); font-size: .85rem; margin-top: 2.5rem; }
footer code { overflow-wrap: anywhere; }
/* A row becomes a card: its first cell the heading, the others with their column's name. */
@media (max-width: 40rem) { figure { padding: .3rem; } .narrow { display: block; } .wide { display: none; }
  thead { position: absolute; clip-path: inset(50%); height: 1px; overflow: hidden; }
  tr, td { display: block; } tr { padding: .5rem .7rem; border-bottom: 1px solid var(--line); }
  tr:last-child { border-bottom: 0; } td { border: 0; padding: .05rem 0; }
  td.number, td.word { white-space: normal; }
  td:empty { display: none; }
  td::before { content: attr(data-name) " "; color: var(--soft); font-weight: 400; } td:first-child { font-weight: 600; }
  td:first-child::before { content: ""; } }
@media print { body { background: none; } .scroll { overflow: visible; } }
)css";

// What lies under the pointer on a map: its cells are in the element that data-cells names.
constexpr char kScript[] = R"js(
const note = document.body.appendChild(document.createElement("div"));
note.className = "note";
for (const map of document.querySelectorAll("g.map")) {
  const data = JSON.parse(document.getElementById(map.dataset.cells).textContent);
  const index = flat => data.shape.reduceRight((done, size) => {
    done.unshift(flat % size); flat = Math.floor(flat / size); return done; }, []);
  map.addEventListener("pointermove", event => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(map.getScreenCTM().inverse());
    const cell = data.cells[Math.floor(at.y) * data.columns + Math.floor(at.x)];
    note.textContent = cell ? `[${index(cell[0])}] got ${cell[1]}, expected ${cell[2]}` : "nothing differs here";
    note.style.left = `${Math.min(event.clientX + 12, innerWidth - note.offsetWidth - 8)}px`;
    note.style.top = `${event.clientY + 16}px`;
    note.classList.add("shown");
  });
  map.addEventListener("pointerleave", () => note.classList.remove("shown"));
}
)js";

// The words of verdicts in their colours, numbers, indices and short words in one line.
std::string class_of(const std::string& cell) {
    static const std::map<std::string, std::string> tones = {{"pass", "good"},      {"ok", "good"},    {"fail", "bad"},
                                                             {"below", "bad"},      {"slower", "bad"}, {"wrong", "bad"},
                                                             {"no verdict", "warn"}};
    const std::string last = cell.substr(cell.rfind(", ") == std::string::npos ? 0 : cell.rfind(", ") + 2);
    if (const auto tone = tones.find(last); tone != tones.end()) return " class=\"tone " + tone->second + "\"";
    const size_t at = cell.find_first_not_of("-+[");
    if (at == std::string::npos || cell.size() >= 24) return "";
    if (std::isdigit(static_cast<unsigned char>(cell[at])) != 0) return " class=\"number\"";
    return cell.find(' ') == std::string::npos ? " class=\"word\"" : "";
}

}  // namespace

bool is_page(const std::string& path) { return path.ends_with(".html") || path.ends_with(".htm"); }

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

void Page::verdict(Tone tone, const std::string& word, const std::string& sentence) {
    static const char* const classes[] = {"good", "warn", "bad"};
    body_ += fmt::format("<div class=\"verdict {}\"><strong>{}</strong><p>{}</p></div>\n",
                         classes[static_cast<int>(tone)], escaped(word), escaped(sentence));
}

void Page::table(const std::vector<std::vector<std::string>>& rows) {
    body_ += "<div class=\"scroll\" tabindex=\"0\"><table>\n";
    for (size_t i = 0; i < rows.size(); ++i) {
        body_ += i == 0 ? "<thead><tr>" : "<tr>";
        for (size_t c = 0; c < rows[i].size(); ++c) {
            const std::string& cell = rows[i][c];
            body_ += i == 0 ? fmt::format("<th scope=\"col\">{}</th>", escaped(cell))
                            : fmt::format("<td{} data-name=\"{}\">{}</td>", class_of(cell),
                                          c < rows[0].size() ? escaped(rows[0][c]) : "", escaped(cell));
        }
        body_ += i == 0 ? "</tr></thead><tbody>\n" : "</tr>\n";
    }
    body_ += "</tbody></table></div>\n";
}

void Page::svg(const std::string& drawing, const std::string& narrow, const std::string& caption) {
    body_ += fmt::format(
        "<figure><div class=\"wide\">{}</div><div class=\"narrow\">{}</div><figcaption>{}</figcaption></figure>\n",
        drawing, narrow, escaped(caption));
}

void Page::part(const std::string& html) { body_ += html; }

void Page::text(const std::string& paragraph) { body_ += fmt::format("<p>{}</p>\n", escaped(paragraph)); }

void Page::write(const std::string& path, const std::string& line) const {
    const std::string title = escaped(title_);
    const std::string html = fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n"
        "<link rel=\"icon\" href=\"data:,\">\n<style>{}</style>\n</head>\n<body>\n<main>\n<h1>{}</h1>\n{}"
        "<footer><p><code>{}</code></p><p>{}, gradus {}</p></footer>\n</main>\n{}</body>\n</html>\n",
        title, kStyle, title, body_, escaped(line), utc_time(), gradusVersion(),
        body_.find("class=\"map\"") == std::string::npos ? "" : fmt::format("<script>{}</script>\n", kScript));
    write_file(path, {as_utf8(html)});  // it says that it is UTF-8; the names of files may be anything
}

}  // namespace gradus::cli
