#include "cli/trace/page.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/output/page.h"
#include "trace_page_parts.h"

namespace gradus::cli {
namespace {

constexpr size_t kMostEvents = 300'000;  // what a browser draws without a thought; of more, the newest
constexpr size_t kMostFindings = 100;
constexpr const char* kKinds[] = {"call",    "blocking", "computing", "communication", "copy",
                                  "waiting", "free",     "callback",  "other"};
enum Kind { kCall, kBlocking, kComputing, kCommunication, kCopy, kWaiting, kFree, kCallback, kOther };

// Every text once.
class Strings {
  public:
    size_t operator[](const std::string& text) {
        const auto [it, fresh] = index_.emplace(text, all_.size());
        if (fresh) all_.push_back(text);
        return it->second;
    }
    const ordered_json& all() const { return all_; }

  private:
    std::map<std::string, size_t> index_;
    ordered_json all_ = ordered_json::array();
};

bool blocks(const std::string& function) {
    const auto has = [&](const char* word) { return function.find(word) != std::string::npos; };
    return has("Synchronize") || ((has("Memcpy") || has("Memset")) && !has("Async"));
}

Kind kind_of(const TraceRow& row, const TraceEvent& event) {
    if (std::string_view(row.kind) == "overlap") {
        if (event.name == "Computing") return kComputing;
        if (event.name.starts_with("Communication")) return kCommunication;
        return event.name == "Copy" ? kCopy : event.name == "Waiting" ? kWaiting : kFree;
    }
    if (event.category == "call") return blocks(event.name) ? kBlocking : kCall;
    if (event.category == "compute") return kComputing;
    if (event.category == "communication") return kCommunication;
    if (event.category == "copy") return kCopy;
    if (event.category == "wait") return kWaiting;
    return event.category == "callback" ? kCallback : kOther;
}

class Data {
  public:
    explicit Data(const Timeline& timeline) : timeline_(timeline), from_(first_drawn()) {}

    ordered_json make() {
        ordered_json rows = ordered_json::array(), counters = ordered_json::array(), arrows = ordered_json::object(),
                     findings = ordered_json::array();
        for (const TraceRow& row : timeline_.rows)
            rows.push_back({{"group", row.group}, {"name", row.name}, {"kind", row.kind}, {"events", events_of(row)}});
        for (const TraceCounter& counter : timeline_.counters)
            counters.push_back({{"group", counter.group},
                                {"name", counter.name},
                                {"unit", counter.unit},
                                {"points", points_of(counter)}});
        for (const char* kind : {"launch", "record", "sync"}) arrows[kind] = ordered_json::array();
        for (const TraceArrow& arrow : timeline_.arrows) {
            if (arrow.from < from_) continue;
            for (const int64_t value : {static_cast<int64_t>(arrow.from_row), arrow.from - from_,
                                        static_cast<int64_t>(arrow.to_row), arrow.to - from_})
                arrows[arrow.kind].push_back(value);
        }
        for (const TraceFinding& finding : timeline_.findings) {
            if (findings.size() == kMostFindings) break;
            ordered_json places = ordered_json::array();
            for (const auto& [row, at] : finding.places) places.push_back({row, at - from_});
            findings.push_back({{"id", finding.id}, {"level", finding.level}, {"places", places}});
        }
        return {{"length", timeline_.length - from_},
                {"strings", strings_.all()},
                {"args", args_},
                {"kinds", kKinds},
                {"rows", rows},
                {"counters", counters},
                {"arrows", arrows},
                {"findings", findings}};
    }

    int64_t from() const { return from_; }

  private:
    int64_t first_drawn() const {
        std::vector<int64_t> begins;
        for (const TraceRow& row : timeline_.rows)
            for (const TraceEvent& event : row.events) begins.push_back(event.begin);
        if (begins.size() <= kMostEvents) return 0;
        const auto cut = begins.end() - kMostEvents;
        std::nth_element(begins.begin(), cut, begins.end());
        return *cut;
    }

    ordered_json events_of(const TraceRow& row) {
        ordered_json flat = ordered_json::array();
        for (const TraceEvent& event : row.events) {
            if (event.begin < from_) continue;
            flat.push_back(event.begin - from_);
            flat.push_back(event.length);
            flat.push_back(strings_[event.name]);
            flat.push_back(static_cast<int>(kind_of(row, event)));
            flat.push_back(args_of(event));
        }
        return flat;
    }

    int64_t args_of(const TraceEvent& event) {
        if (event.args.empty()) return -1;
        ordered_json flat = ordered_json::array();
        for (const auto& [key, value] : event.args.items()) {
            flat.push_back(strings_[key]);
            if (value.is_string())
                flat.push_back(ordered_json::array({strings_[value.get<std::string>()]}));
            else
                flat.push_back(value);
        }
        args_.push_back(std::move(flat));
        return static_cast<int64_t>(args_.size()) - 1;
    }

    ordered_json points_of(const TraceCounter& counter) const {
        ordered_json flat = ordered_json::array();
        for (const auto& [at, value] : counter.points) {
            if (at < from_) continue;
            flat.push_back(at - from_);
            flat.push_back(value);
        }
        return flat;
    }

    const Timeline& timeline_;
    const int64_t from_;
    Strings strings_;
    ordered_json args_ = ordered_json::array();
};

void add_facts(Page& page, const Timeline& timeline, int64_t from) {
    size_t calls = 0, tasks = 0, streams = 0;
    for (const TraceRow& row : timeline.rows) {
        const bool stream = std::string_view(row.kind) == "stream";
        streams += stream ? 1 : 0;
        (stream ? tasks : calls) += std::string_view(row.kind) == "overlap" ? 0 : row.events.size();
    }
    std::string text =
        fmt::format("{} · {} calls · {} tasks on {} stream{}", time_text(static_cast<double>(timeline.length)), calls,
                    tasks, streams, streams == 1 ? "" : "s");
    if (timeline.memory_limit > 0) text += fmt::format(" · memory limit {:.1f} GB/s", timeline.memory_limit);
    if (timeline.lost > 0) text += fmt::format(" · {} older records were overwritten", timeline.lost);
    if (from > 0) text += fmt::format(" · drawn: the last {}", time_text(static_cast<double>(timeline.length - from)));
    page.part(fmt::format("<p class=\"facts\">{}</p>\n", escaped(text)));
}

// What the name of a row in Overlap Analysis looks like; nullptr: it is a part of another one.
const char* style_of(const std::string& activity) {
    if (activity == "Communication") return nullptr;
    return activity == "Computing" ? "computing"
           : activity == "Copy"    ? "copy"
           : activity == "Waiting" ? "waiting"
           : activity == "Free"    ? "free"
                                   : "communication";
}

void add_shares(Page& page, const Timeline& timeline) {
    for (const auto& [device, shares] : overlap_of(timeline)) {
        std::string bar, legend;
        double before = 0;
        for (const auto& [name, share] : shares) {
            // copies beside computing are in both: the bar shows them as far as there is room
            if (const char* const style = style_of(name)) {
                const double drawn = std::min(share, 1 - before);
                before += drawn;
                bar += fmt::format("<span class=\"{}\" style=\"width:{:.2f}%\"></span>", style, 100 * drawn);
                legend += fmt::format("<li><i class=\"{}\"></i>{} {:.0f} %</li>", style, name, 100 * share);
            } else {
                legend += fmt::format("<li>{} {:.0f} %</li>", name, 100 * share);
            }
        }
        page.part(
            fmt::format("<div class=\"share\">{}</div>\n<ul class=\"legend\"><li><strong>{}</strong></li>{}</ul>\n",
                        bar, escaped(device), legend));
    }
}

void add_findings(Page& page, const Timeline& timeline) {
    if (timeline.findings.empty()) return;
    struct Entry {
        size_t first, count;
    };
    std::map<std::string, Entry> by_text;
    std::vector<std::string> order;
    for (size_t i = 0; i < timeline.findings.size(); ++i) {
        const std::string text = timeline.findings[i].id + timeline.findings[i].text + timeline.findings[i].site;
        const auto [it, fresh] = by_text.try_emplace(text, Entry{i, 0});
        ++it->second.count;
        if (fresh) order.push_back(text);
    }
    std::string list;
    for (const std::string& text : order) {
        const auto [first, count] = by_text.at(text);
        const TraceFinding& finding = timeline.findings[first];
        const std::string times = count > 1 ? fmt::format(" ({} times)", count) : "";
        const std::string site = finding.site.empty() ? "" : ", " + finding.site;
        const std::string link = first < kMostFindings
                                     ? fmt::format(" <button type=\"button\" data-finding=\"{}\">show</button>", first)
                                     : "";
        list += fmt::format("<li><b>{}</b>: {}{}{}{}</li>", escaped(finding.id), escaped(finding.text), escaped(site),
                            times, link);
    }
    page.part(
        fmt::format("<div class=\"verdict bad\"><strong>{} finding{}</strong><ul class=\"findings\">{}</ul></div>\n",
                    order.size(), order.size() == 1 ? "" : "s", list));
}

constexpr char kStage[] =
    "<div class=\"tools\"><button id=\"closer\" type=\"button\" title=\"zoom in\">+</button>"
    "<button id=\"wider\" type=\"button\" title=\"zoom out\">−</button>"
    "<button id=\"left\" type=\"button\" title=\"to the left\">◀</button>"
    "<button id=\"right\" type=\"button\" title=\"to the right\">▶</button>"
    "<button id=\"work\" type=\"button\" title=\"where streams work\">streams</button>"
    "<button id=\"fit\" type=\"button\">all</button>"
    "<button id=\"arrows\" type=\"button\" aria-pressed=\"true\">arrows</button>"
    "<span class=\"hint\">drag, Ctrl+wheel, double click, pinch; W A S D; a click keeps an event</span></div>\n"
    "<div class=\"stage\"><canvas id=\"timeline\" tabindex=\"0\" role=\"img\" aria-label=\"timeline of host threads "
    "and "
    "streams; the tables below say the same in numbers\"></canvas><div id=\"tip\"></div></div>\n"
    "<ul class=\"legend\"><li><i class=\"computing\"></i>operator</li><li><i class=\"copy\"></i>copy or fill</li>"
    "<li><i class=\"communication\"></i>collective</li><li><i class=\"waiting\"></i>waits for an event</li><li><i "
    "style=\"background:var(--call)\"></i>call</li>"
    "<li><i style=\"background:var(--blocking)\"></i>call that blocks</li>"
    "<li><i style=\"background:var(--callback)\"></i>callback</li></ul>\n<div id=\"chosen\"></div>\n";

void add_tables(Page& page, const Timeline& timeline) {
    const auto text = [](int64_t ns) { return time_text(static_cast<double>(ns)); };
    std::vector<std::vector<std::string>> rows = {
        {"operator", "calls", "total", "median", "share", "GB/s", "of the memory limit"}};
    for (const Took& took : operators_of(timeline))
        rows.push_back(
            {took.name, std::to_string(took.calls), text(took.total), text(took.median),
             fmt::format("{:.1f} %", 100 * took.share), took.rate > 0 ? fmt::format("{:.1f}", took.rate) : "",
             took.rate > 0 && timeline.memory_limit > 0 ? fmt::format("{:.2f}", took.rate / timeline.memory_limit)
                                                        : ""});
    if (rows.size() > 1) {
        page.heading("Operators, copies and collectives");
        page.table(rows);
    }
    rows = {{"function", "calls", "total", "median", "longest", "share"}};
    for (const Took& took : functions_of(timeline))
        rows.push_back({took.name, std::to_string(took.calls), text(took.total), text(took.median), text(took.most),
                        fmt::format("{:.1f} %", 100 * took.share)});
    page.heading("Calls of the host");
    page.table(rows);
}

// Inside <script> the text ends at the next "</": it is written so that there is none.
std::string in_script(const ordered_json& data) {
    const std::string text = data.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    std::string safe;
    for (const char c : text) safe += c == '<' ? std::string("\\u003c") : std::string(1, c);
    return safe;
}

}  // namespace

std::string time_text(double ns) {
    if (ns >= 1e9) return fmt::format("{:.4g} s", ns / 1e9);
    if (ns >= 1e6) return fmt::format("{:.4g} ms", ns / 1e6);
    if (ns >= 1e3) return fmt::format("{:.4g} µs", ns / 1e3);
    return fmt::format("{:.0f} ns", ns);
}

void write_trace_page(const std::string& path, const Timeline& timeline, const std::string& line) {
    Data data(timeline);
    Page page(timeline.program);
    page.part(fmt::format("<style>{}</style>\n", page_css));
    add_facts(page, timeline, data.from());
    add_shares(page, timeline);
    add_findings(page, timeline);
    page.part(kStage);
    add_tables(page, timeline);
    page.part(fmt::format("<script type=\"application/json\" id=\"trace-data\">{}</script>\n<script>{}</script>\n",
                          in_script(data.make()), page_js));
    page.write(path, line);
}

}  // namespace gradus::cli
