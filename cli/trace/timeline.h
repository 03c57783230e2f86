// A trace as the library writes it, read back for tables and pages.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gradus::cli {

using nlohmann::ordered_json;

struct TraceEvent {
    int64_t begin, length;  // ns; begin since the first event of all
    std::string name, category;
    ordered_json args;
};

struct TraceRow {
    std::string group, name;
    const char* kind;                // host, stream or overlap
    std::vector<TraceEvent> events;  // by their begin, those that enclose others first
};

struct TraceArrow {
    std::string kind;  // launch, record or sync
    size_t from_row, to_row;
    int64_t from, to;
};

struct TraceCounter {
    std::string group, name, unit;
    std::vector<std::pair<int64_t, double>> points;
};

struct TraceFinding {
    std::string id, level, text, site;
    std::vector<std::pair<size_t, int64_t>> places;  // row and time
};

struct Timeline {
    std::string program;
    double memory_limit = 0;  // GB/s; 0: not known
    int64_t lost = 0;         // calls and tasks that were overwritten by newer ones
    int64_t length = 1;       // ns
    std::vector<TraceRow> rows;
    std::vector<TraceArrow> arrows;
    std::vector<TraceCounter> counters;
    std::vector<TraceFinding> findings;
};

// Failure(kUsage) if it is no such file.
Timeline read_timeline(const std::string& path);

// What one operator or one function took, over all its calls.
struct Took {
    std::string name;
    int64_t calls = 0, total = 0, median = 0, most = 0;  // ns
    double share = 0;                                    // of all of its kind
    double rate = 0;                                     // GB/s, median
};
std::vector<Took> operators_of(const Timeline& timeline);  // copies, collectives; of streams and of the host itself
std::vector<Took> functions_of(const Timeline& timeline);  // of the interface

// Shares of the time from the first to the last task: Computing, Copy, Waiting, Free, and where ranks communicate
// Communication and Communication(Not Overlapped); by device.
using Shares = std::vector<std::pair<std::string, double>>;
std::map<std::string, Shares> overlap_of(const Timeline& timeline);

}  // namespace gradus::cli
