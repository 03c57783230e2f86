#include "cli/trace/timeline.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <tuple>

#include "cli/base/failure.h"

namespace gradus::cli {
namespace {

constexpr uint64_t kRowsOfProcess = 512;  // the library's numbers for rows: as many for every process

int64_t ns(const ordered_json& micros) { return std::llround(micros.get<double>() * 1e3); }

class Reader {
  public:
    explicit Reader(const std::string& path) : path_(path) {}

    Timeline read() {
        std::ifstream file(path_, std::ios::binary);
        if (!file) throw Failure(kUsage, fmt::format("{}: cannot be read", path_));
        std::string line;
        std::getline(file, line);
        read_head(line);
        while (std::getline(file, line) && line.rfind("]}", 0) != 0) {
            if (!line.empty() && line.back() == ',') line.pop_back();
            read_event(parse(line));
        }
        finish();
        return std::move(timeline_);
    }

  private:
    using Key = std::pair<uint64_t, uint64_t>;  // process and thread of the file

    struct Process {
        std::string name, label;
    };
    struct ArrowEnd {
        Key row;
        int64_t at;
    };
    struct Found {
        ordered_json event;
        uint64_t process;
    };

    [[noreturn]] void refuse() const {
        throw Failure(kUsage, fmt::format("{}: not a trace that gradus has written", path_));
    }
    ordered_json parse(const std::string& text) const {
        ordered_json value = ordered_json::parse(text, nullptr, false);
        if (value.is_discarded() || !value.is_object()) refuse();
        return value;
    }
    void read_head(const std::string& line);
    void read_event(const ordered_json& event);
    void read_name(const ordered_json& event, const Key& key);
    void add_span(const ordered_json& event, const Key& key, int64_t length);
    void finish();
    void name_rows();
    void place_arrows();
    void place_findings();
    std::string group_of(uint64_t process) const;

    std::string path_;
    Timeline timeline_;
    int64_t first_ = INT64_MAX;
    std::map<uint64_t, Process> processes_;
    std::map<Key, std::string> names_;
    std::map<Key, TraceRow> rows_;
    std::map<Key, size_t> index_;
    std::map<std::string, ArrowEnd> begins_;
    std::vector<std::tuple<std::string, ArrowEnd, ArrowEnd>> arrows_;
    std::map<std::pair<uint64_t, std::string>, TraceCounter> counters_;
    std::vector<Found> findings_;
    std::map<Key, ArrowEnd> tasks_;  // by process and task
};

void Reader::read_head(const std::string& line) {
    const size_t end = line.find(",\"traceEvents\":[");
    if (end == std::string::npos) refuse();
    const ordered_json head = parse(line.substr(0, end) + "}");
    try {
        const ordered_json& other = head.at("otherData");
        timeline_.program = other.at("program").get<std::string>();
        timeline_.memory_limit = other.at("memory limit GB/s").get<double>();
        timeline_.lost = other.at("calls lost").get<int64_t>() + other.at("tasks lost").get<int64_t>();
    } catch (const ordered_json::exception&) {
        refuse();
    }
}

void Reader::read_event(const ordered_json& event) try {
    const std::string phase = event.at("ph");
    const Key key{event.at("pid").get<uint64_t>(), event.at("tid").get<uint64_t>()};
    if (phase == "M") return read_name(event, key);
    const int64_t at = ns(event.at("ts"));
    const std::string name = event.at("name");
    if (phase == "X") return add_span(event, key, ns(event.at("dur")));
    first_ = std::min(first_, at);
    if (phase == "s") begins_[event.at("id")] = {key, at};
    if (phase == "f") {
        const auto begin = begins_.find(event.at("id"));
        if (begin != begins_.end()) arrows_.emplace_back(name, begin->second, ArrowEnd{key, at});
    }
    if (phase == "C") {
        const auto value = event.at("args").items().begin();
        TraceCounter& counter = counters_[{key.first, name}];
        counter.name = name;
        counter.unit = value.key();
        counter.points.emplace_back(at, value.value().get<double>());
    }
    if (phase == "i" && event.at("cat") == "finding") findings_.push_back({event, key.first / kRowsOfProcess});
    if (phase == "i" && event.at("cat") == "never ran") add_span(event, key, 0);
} catch (const ordered_json::exception&) {
    refuse();
}

void Reader::read_name(const ordered_json& event, const Key& key) {
    const std::string what = event.at("name");
    if (what == "process_name") processes_[key.first].name = event.at("args").at("name");
    if (what == "process_labels") processes_[key.first].label = event.at("args").at("labels");
    if (what == "thread_name") names_[key] = event.at("args").at("name");
}

void Reader::add_span(const ordered_json& event, const Key& key, int64_t length) {
    const int64_t at = ns(event.at("ts"));
    first_ = std::min(first_, at);
    ordered_json args = event.value("args", ordered_json::object());
    if (args.contains("Task Id")) tasks_[{key.first / kRowsOfProcess, args.at("Task Id").get<uint64_t>()}] = {key, at};
    rows_[key].events.push_back({at, length, event.at("name"), event.at("cat"), std::move(args)});
}

std::string Reader::group_of(uint64_t process) const {
    const auto it = processes_.find(process);
    if (it == processes_.end()) return "?";
    const uint64_t own = process / kRowsOfProcess;
    const bool alone =
        processes_.begin()->first / kRowsOfProcess == own && processes_.rbegin()->first / kRowsOfProcess == own;
    const std::string device = it->second.label.substr(0, it->second.label.find(", process"));
    if (it->second.name == "CANN") return alone ? "CANN" : fmt::format("CANN, {}", it->second.label);
    return fmt::format("{}, {}", it->second.name, alone ? device : it->second.label);
}

void Reader::name_rows() {
    for (auto& [key, row] : rows_) {
        const std::string& of = processes_[key.first].name;
        row.kind = of == "CANN" ? "host" : of == "Overlap Analysis" ? "overlap" : "stream";
        row.group = group_of(key.first);
        const auto name = names_.find(key);
        row.name = name != names_.end() ? name->second : fmt::format("thread {}", key.second);
        if (of == "CANN") row.name += fmt::format(" {}", key.second);
        for (TraceEvent& event : row.events) {
            event.begin -= first_;
            timeline_.length = std::max(timeline_.length, event.begin + event.length);
        }
        std::sort(row.events.begin(), row.events.end(), [](const TraceEvent& a, const TraceEvent& b) {
            return a.begin != b.begin ? a.begin < b.begin : a.length > b.length;
        });
        index_[key] = timeline_.rows.size();
        timeline_.rows.push_back(std::move(row));
    }
}

void Reader::place_arrows() {
    for (const auto& [kind, from, to] : arrows_) {
        const auto a = index_.find(from.row), b = index_.find(to.row);
        if (a == index_.end() || b == index_.end()) continue;  // the call was overwritten by newer ones
        timeline_.arrows.push_back({kind, a->second, b->second, from.at - first_, to.at - first_});
    }
}

void Reader::place_findings() {
    for (const auto& [event, process] : findings_) {
        const ordered_json& args = event.at("args");
        TraceFinding finding{
            event.at("name"), args.value("level", "error"), args.value("text", ""), args.value("site", ""), {}};
        if (const std::string other = args.value("other site", ""); !other.empty()) finding.site += " and " + other;
        for (const ordered_json& task : args.value("tasks", ordered_json::array())) {
            const auto it = tasks_.find({process, task.get<uint64_t>()});
            if (it != tasks_.end()) finding.places.emplace_back(index_.at(it->second.row), it->second.at - first_);
        }
        const auto row = index_.find({event.at("pid").get<uint64_t>(), event.at("tid").get<uint64_t>()});
        if (finding.places.empty() && row != index_.end())
            finding.places.emplace_back(row->second, ns(event.at("ts")) - first_);
        timeline_.findings.push_back(std::move(finding));
    }
}

void Reader::finish() {
    if (rows_.empty()) throw Failure(kUsage, fmt::format("{}: there is no call in it", path_));
    name_rows();
    place_arrows();
    try {
        place_findings();
    } catch (const ordered_json::exception&) {
        refuse();
    }
    for (auto& [key, counter] : counters_) {
        for (auto& [at, value] : counter.points) at -= first_;
        std::sort(counter.points.begin(), counter.points.end());
        const std::string group = group_of(key.first);
        const size_t comma = group.find(", ");
        counter.group = "Counters" + (comma == std::string::npos ? "" : group.substr(comma));
        timeline_.counters.push_back(std::move(counter));
    }
}

std::vector<Took> taken(const Timeline& timeline, bool (*counts)(const TraceRow&, const TraceEvent&)) {
    std::map<std::string, std::vector<const TraceEvent*>> by_name;
    for (const TraceRow& row : timeline.rows)
        for (const TraceEvent& event : row.events)
            if (counts(row, event)) by_name[event.name].push_back(&event);
    std::vector<Took> all;
    int64_t sum = 0;
    for (auto& [name, events] : by_name) {
        const auto middle = events.begin() + static_cast<ptrdiff_t>(events.size() / 2);
        std::nth_element(events.begin(), middle, events.end(),
                         [](const TraceEvent* a, const TraceEvent* b) { return a->length < b->length; });
        Took took{name, static_cast<int64_t>(events.size()), 0, (*middle)->length, 0,
                  0,    (*middle)->args.value("GB/s", 0.0)};
        for (const TraceEvent* event : events) {
            took.total += event->length;
            took.most = std::max(took.most, event->length);
        }
        sum += took.total;
        all.push_back(std::move(took));
    }
    for (Took& took : all) took.share = sum > 0 ? static_cast<double>(took.total) / static_cast<double>(sum) : 0;
    std::stable_sort(all.begin(), all.end(), [](const Took& a, const Took& b) { return a.total > b.total; });
    return all;
}

}  // namespace

Timeline read_timeline(const std::string& path) { return Reader(path).read(); }

std::vector<Took> operators_of(const Timeline& timeline) {
    return taken(timeline, [](const TraceRow&, const TraceEvent& event) {
        return event.category == "compute" || event.category == "copy" || event.category == "communication";
    });
}

std::vector<Took> functions_of(const Timeline& timeline) {
    return taken(timeline, [](const TraceRow&, const TraceEvent& event) { return event.category == "call"; });
}

std::map<std::string, Shares> overlap_of(const Timeline& timeline) {
    constexpr const char* kNames[] = {"Computing", "Communication", "Communication(Not Overlapped)",
                                      "Copy",      "Waiting",       "Free"};
    struct Span {
        int64_t begin = INT64_MAX, end = INT64_MIN;
        std::map<std::string, int64_t> took;
    };
    std::map<std::string, Span> spans;
    for (const TraceRow& row : timeline.rows) {
        if (std::string_view(row.kind) != "overlap") continue;
        Span& span = spans[row.group];
        for (const TraceEvent& event : row.events) {
            span.begin = std::min(span.begin, event.begin);
            span.end = std::max(span.end, event.begin + event.length);
            span.took[event.name] += event.length;
        }
    }
    std::map<std::string, Shares> all;
    for (const auto& [group, span] : spans) {
        Shares& shares = all[group.substr(std::min(group.find(", ") + 2, group.size()))];
        for (const std::string name : kNames) {
            const auto it = span.took.find(name);
            const int64_t took = it != span.took.end() ? it->second : 0;
            if (took == 0 && name.starts_with("Communication")) continue;
            shares.emplace_back(
                name, static_cast<double>(took) / static_cast<double>(std::max<int64_t>(span.end - span.begin, 1)));
        }
    }
    return all;
}

}  // namespace gradus::cli
