#include <fmt/core.h>

#include <fstream>

#include "cli/base/failure.h"
#include "cli/bench/bench.h"

namespace gradus::cli {
namespace {

constexpr double kSlower = 0.9;  // of what it was; less is what a rebuild can do to the same source

// Slower: by more than a tenth, and outside what either run varied by. Where others work, by much more.
Standing compared(double ratio, bool apart, bool doubtful) {
    if (ratio >= kSlower || !apart) return doubtful && ratio < kSlower ? Standing::unknown : Standing::ok;
    return doubtful && ratio * kBeyond > 1 ? Standing::unknown : Standing::below;
}

Before before_of(const nlohmann::json& spread) {
    return {spread.at("median"), spread.at("q1"), spread.at("q3"), Standing::none};
}

}  // namespace

Baseline::Baseline(const std::string& path) : path_(path) {
    std::ifstream file(path);
    if (!file) throw Failure(kUsage, fmt::format("--baseline: {}: cannot be read", path));
    json_ = nlohmann::json::parse(file, nullptr, false);
    if (!json_.is_object() || json_.value("schema", nlohmann::json()) != "gradus-bench/2" ||
        !json_.contains("results") || !json_.contains("whole_calls") || !json_.contains("machine"))
        throw Failure(kUsage, fmt::format("--baseline: {}: not what `gradus bench -o FILE.json` writes", path));
}

const nlohmann::json* Baseline::find(const char* list, const BenchRun& run) const {
    for (const nlohmann::json& other : json_.at(list))
        if (other.at("operator") == run.op->name && other.at("dtype") == run.dtype &&
            other.at("arguments") == run.arguments())
            return &other;
    return nullptr;
}

void Baseline::compare(BenchResult& result) const {
    const nlohmann::json* other = find("results", result.of);
    if (other == nullptr) return;
    Before before = before_of(other->at("fraction"));
    const bench::Spread& now = result.measured.fraction;
    const bool doubtful = !result.doubt().empty() || other->value("verdict", "") == "no verdict";
    before.standing = compared(now.median / before.value, now.q3 < before.q1, doubtful);
    result.before = before;
}

void Baseline::compare(TinyResult& result) const {
    const nlohmann::json* other = find("whole_calls", result.of);
    if (other == nullptr) return;
    Before before = before_of(other->at("microseconds"));
    const bench::Spread& now = result.microseconds;
    before.standing = compared(before.value / now.median, now.q1 > before.q3, result.others > 0.05);
    result.before = before;
}

std::string Baseline::other_machine(const Machine& here) const {
    const nlohmann::json there = json_.at("machine"), own = here.json();
    std::string differs;
    for (const char* key : {"cpu", "isa", "threads"})
        if (!there.contains(key) || there.at(key) != own.at(key))
            differs += fmt::format("{}{} {}, here {}", differs.empty() ? "" : "; ", key,
                                   there.contains(key) ? there.at(key).dump() : "unknown", own.at(key).dump());
    return differs.empty() ? "" : fmt::format("{} is of another machine: {}", path_, differs);
}

}  // namespace gradus::cli
