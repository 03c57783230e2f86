// What is said of a result: verdict, JSON, a line in the terminal.
#include <fmt/core.h>

#include <algorithm>

#include "cli/base/clock.h"
#include "cli/bench/bench.h"

namespace gradus::cli {
namespace {

constexpr double kBusy = 0.05;       // of the machine; a daemon takes less
constexpr double kAboveLimit = 1.1;  // of the limit: then the limit was disturbed, not the operator fast
constexpr double kUnsteady = 1.5;    // of the quartiles

nlohmann::json spread_json(const bench::Spread& s) { return {{"q1", s.q1}, {"median", s.median}, {"q3", s.q3}}; }

nlohmann::json run_json(const BenchRun& run) {
    return {{"operator", run.op->name}, {"dtype", run.dtype}, {"model", run.model}, {"arguments", run.arguments()}};
}

std::string word_of(Standing standing, const char* below) {
    switch (standing) {
        case Standing::ok:
            return tinted(Tint::good, "ok");
        case Standing::below:
            return tinted(Tint::bad, below);
        case Standing::unknown:
            return tinted(Tint::warn, "no verdict");
        default:
            return "";
    }
}

template <typename Result>
void add_verdict(nlohmann::json& json, const Result& r, double target) {
    json["others"] = r.others;
    const Standing standing = r.standing();
    if (target > 0) json.update({{"target", target}, {"verdict", standing_word(standing)}});
    if (standing == Standing::ok || standing == Standing::below) json["met"] = standing == Standing::ok;
    if (r.before)
        json["baseline"] = {
            {"median", r.before->value},
            {"verdict", r.before->standing == Standing::below ? "slower" : standing_word(r.before->standing)}};
}

std::string baseline_text(const std::optional<Before>& before) {
    if (!before) return fmt::format("{:>8}", "new");
    return fmt::format("{:>8.2f}  {}", before->value, word_of(before->standing, "slower"));
}

// As many characters as there is room for.
std::string cut(const std::string& text, size_t room) {
    return text.size() <= room ? text : text.substr(0, room - 1) + "…";
}

}  // namespace

const char* standing_word(Standing standing) {
    static const char* const words[] = {"", "ok", "below", "no verdict"};
    return words[static_cast<int>(standing)];
}

Standing BenchResult::standing() const {
    const double fraction = measured.fraction.median;
    if (of.target == 0) return Standing::none;
    if (doubt().empty()) return fraction >= of.target ? Standing::ok : Standing::below;
    return fraction * kBeyond < of.target ? Standing::below : Standing::unknown;
}

std::string BenchResult::doubt() const {
    const bench::Spread& f = measured.fraction;
    if (others > kBusy) return fmt::format("others took {:.0f} % of the machine", 100 * others);
    if (f.median > kAboveLimit) return "faster than its limit, which something must have slowed";
    if (f.q3 > kUnsteady * f.q1) return "the rounds differ too much";
    return "";
}

Standing TinyResult::standing() const {
    if (microseconds.median <= kTarget) return Standing::ok;  // no neighbour makes it faster
    const bool doubtful = others > kBusy && microseconds.median < kBeyond * kTarget;
    return doubtful ? Standing::unknown : Standing::below;
}

nlohmann::json BenchResult::json() const {
    nlohmann::json json = run_json(of);
    json.update({{"rounds", measured.rounds},
                 {"fraction", spread_json(measured.fraction)},
                 {"limit", limit.kind},
                 {"work", limit.work},
                 {"unit", limit.unit},
                 {"limit_seconds", spread_json(measured.limit)},
                 {"operator_seconds", spread_json(measured.op)},
                 {"flops", flops},
                 {"bytes", bytes}});
    add_verdict(json, *this, of.target);
    if (standing() == Standing::unknown) json["doubt"] = doubt();
    return json;
}

nlohmann::json TinyResult::json() const {
    nlohmann::json json = run_json(of);
    json["microseconds"] = spread_json(microseconds);
    add_verdict(json, *this, kTarget);
    return json;
}

nlohmann::json BenchReport::json() const {
    nlohmann::json json = {{"schema", "gradus-bench/2"},
                           {"time", utc_time()},
                           {"machine", machine.json()},
                           {"results", nlohmann::json::array()},
                           {"whole_calls", nlohmann::json::array()}};
    for (const BenchResult& result : results) json["results"].push_back(result.json());
    for (const TinyResult& result : tiny) json["whole_calls"].push_back(result.json());
    return json;
}

BenchTable::BenchTable(const std::vector<BenchRun>& runs, bool compared) : compared_(compared) {
    for (const BenchRun& run : runs) {
        op_width_ = std::max(op_width_, run.op->name.size());
        name_width_ = std::max(name_width_, run.name().size());
    }
    const size_t numbers = compared ? 97 : 75, room = terminal_width();
    const size_t wanted = op_width_ + name_width_ + numbers;
    if (wanted > room) name_width_ = std::max<size_t>(12, name_width_ - std::min(name_width_, wanted - room));
}

std::string BenchTable::names(const BenchRun& run) const {
    const std::string name = cut(run.name(), name_width_);
    return fmt::format("{:<{}}  {:<5}  {:<{}}", run.op->name, op_width_, run.dtype, name, name_width_);
}

void BenchTable::heading() const {
    fmt::print("\n{:<{}}  {:<5}  {:<{}}  {:>14}  {:>14}  {:>8}  {:<11}  {:>6}{}\n", "operator", op_width_, "dtype",
               "shape", name_width_, "limit", "operator", "fraction", "quartiles", "target",
               compared_ ? "              baseline" : "");
    std::fflush(stdout);
}

void BenchTable::print(const BenchResult& r) const {
    const bench::Timing& m = r.measured;
    const auto rate = [&r](double seconds) {
        return fmt::format("{:.1f} {}", r.limit.work / seconds * 1e-9, r.limit.unit);
    };
    const Standing standing = r.standing();
    fmt::print("{}  {:>14}  {:>14}  {:>8.2f}  {:.2f} - {:.2f}  {:>6}  {}", names(r.of), rate(m.limit.median),
               rate(m.op.median), m.fraction.median, m.fraction.q1, m.fraction.q3,
               r.of.target > 0 ? fmt::format("{:.2f}", r.of.target) : "", word_of(standing, "below"));
    if (compared_)
        fmt::print("{}{}", std::string(12 - std::string_view(standing_word(standing)).size(), ' '),
                   baseline_text(r.before));
    fmt::print("\n");
    std::fflush(stdout);
}

void BenchTable::tiny_heading() const {
    fmt::print("\nA whole call, both phases and the synchronisation\n{:<{}}  {:<5}  {:<{}}  {:>10}  {:<13}  {:>6}\n",
               "operator", op_width_, "dtype", "shape", name_width_, "time", "quartiles", "target");
}

void BenchTable::print(const TinyResult& r) const {
    const bench::Spread& us = r.microseconds;
    const Standing standing = r.standing();
    fmt::print("{}  {:>7.2f} us  {:<13}  {:>6.0f}  {}", names(r.of), us.median,
               fmt::format("{:.2f} - {:.2f}", us.q1, us.q3), TinyResult::kTarget, word_of(standing, "slower"));
    if (compared_)
        fmt::print("{}{}", std::string(12 - std::string_view(standing_word(standing)).size(), ' '),
                   baseline_text(r.before));
    fmt::print("\n");
    std::fflush(stdout);
}

}  // namespace gradus::cli
