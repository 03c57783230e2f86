#include <fmt/core.h>

#include <algorithm>
#include <ctime>

#include "cli/bench/bench.h"
#include "cli/output/terminal.h"

namespace gradus::cli {
namespace {

nlohmann::json spread_json(const bench::Spread& s) { return {{"q1", s.q1}, {"median", s.median}, {"q3", s.q3}}; }

nlohmann::json run_json(const BenchRun& run) {
    return {{"operator", run.op->name}, {"dtype", run.dtype}, {"model", run.model}, {"arguments", run.arguments}};
}

std::string verdict(bool met, const char* otherwise) {
    return met ? tinted(Tint::good, "ok") : tinted(Tint::bad, otherwise);
}

}  // namespace

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
    if (of.target > 0) json.update({{"target", of.target}, {"met", met()}});
    return json;
}

nlohmann::json TinyResult::json() const {
    nlohmann::json json = run_json(of);
    json.update({{"microseconds", spread_json(microseconds)}, {"target", kTarget}, {"met", met()}});
    return json;
}

nlohmann::json bench_json(const Machine& machine, const std::vector<BenchResult>& results,
                          const std::vector<TinyResult>& tiny) {
    char time[32];
    const std::time_t seconds = std::time(nullptr);
    std::tm utc{};
    std::strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &utc));
    nlohmann::json json = {{"schema", "gradus-bench/2"},
                           {"time", time},
                           {"machine", machine.json()},
                           {"results", nlohmann::json::array()},
                           {"whole_calls", nlohmann::json::array()}};
    for (const BenchResult& result : results) json["results"].push_back(result.json());
    for (const TinyResult& result : tiny) json["whole_calls"].push_back(result.json());
    return json;
}

BenchTable::BenchTable(const std::vector<BenchRun>& runs) {
    for (const BenchRun& run : runs) {
        op_width_ = std::max(op_width_, run.op->name.size());
        name_width_ = std::max(name_width_, run.name().size());
    }
}

std::string BenchTable::names(const BenchRun& run) const {
    return fmt::format("{:<{}}  {:<5}  {:<{}}", run.op->name, op_width_, run.dtype, run.name(), name_width_);
}

void BenchTable::heading() const {
    fmt::print("\n{:<{}}  {:<5}  {:<{}}  {:>14}  {:>14}  {:>8}  {:<11}  {:>6}\n", "operator", op_width_, "dtype",
               "shape", name_width_, "limit", "operator", "fraction", "quartiles", "target");
    std::fflush(stdout);
}

void BenchTable::print(const BenchResult& r) const {
    const bench::Measured& m = r.measured;
    const auto rate = [&r](double seconds) {
        return fmt::format("{:.1f} {}", r.limit.work / seconds * 1e-9, r.limit.unit);
    };
    fmt::print("{}  {:>14}  {:>14}  {:>8.2f}  {:.2f} - {:.2f}", names(r.of), rate(m.limit.median), rate(m.op.median),
               m.fraction.median, m.fraction.q1, m.fraction.q3);
    if (r.of.target > 0) fmt::print("  {:>6.2f}  {}", r.of.target, verdict(r.met(), "below"));
    fmt::print("\n");
    std::fflush(stdout);
}

void BenchTable::tiny_heading() const {
    fmt::print("\nA whole call, both phases and the synchronisation\n{:<{}}  {:<5}  {:<{}}  {:>10}  {:<13}  {:>6}\n",
               "operator", op_width_, "dtype", "shape", name_width_, "time", "quartiles", "target");
}

void BenchTable::print(const TinyResult& r) const {
    const bench::Spread& us = r.microseconds;
    fmt::print("{}  {:>7.2f} us  {:<13}  {:>6.0f}  {}\n", names(r.of), us.median,
               fmt::format("{:.2f} - {:.2f}", us.q1, us.q3), TinyResult::kTarget, verdict(r.met(), "slower"));
    std::fflush(stdout);
}

}  // namespace gradus::cli
