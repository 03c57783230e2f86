#include "testing/bench/report.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "gradus/gradus.h"

namespace gradus::bench {
namespace {

template <typename... Values>
std::string format(const char* pattern, Values... values) {
    char text[256];
    std::snprintf(text, sizeof text, pattern, values...);
    return text;
}

std::string cpu_model() {
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);)
        if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
    return "unknown CPU";
}

}  // namespace

Machine machine() {
    double load = 0;
    std::ifstream("/proc/loadavg") >> load;
    return {cpu_model(), gradusGetOption("max_isa"), gradusVersion(), std::atoi(gradusGetOption("num_threads")), load};
}

void print_header(const Machine& m) {
    std::printf("Gradus %s on %s, %s, %d thread%s\n", m.library.c_str(), m.cpu.c_str(), m.isa.c_str(), m.threads,
                m.threads == 1 ? "" : "s");
    if (m.target_scale() != 1) std::printf("targets are scaled by %.1f: no AVX-512\n", m.target_scale());
    if (m.load > 0.5)
        std::printf("others are at work here (load %.1f): an operator that computes much will look too slow\n", m.load);
}

void print_list(const std::vector<const Case*>& cases, const std::vector<int>& numbers) {
    std::string last;
    for (size_t i = 0; i < cases.size(); ++i) {
        const std::string line =
            format("--shape %d  %-32s  %s", numbers[i], cases[i]->op.c_str(), shape_text(cases[i]->shape).c_str());
        if (line != last) std::printf("\n%s ", line.c_str());
        std::printf(" %s", dtype_text(cases[i]->dtype));
        last = line;
    }
    std::printf("\n");
}

Table::Table(const std::vector<const Case*>& cases, const std::vector<const Case*>& tiny)
    : op_width_(8), shape_width_(5) {
    const auto widen = [this](const Case* c) {
        op_width_ = std::max(op_width_, static_cast<int>(c->op.size()));
        shape_width_ = std::max(shape_width_, static_cast<int>(shape_text(c->shape).size()));
    };
    std::ranges::for_each(cases, widen);
    std::ranges::for_each(tiny, widen);
}

std::string Table::names(const Case& c) const {
    return format("%-*s  %-5s  %-*s", op_width_, c.op.c_str(), dtype_text(c.dtype), shape_width_,
                  shape_text(c.shape).c_str());
}

void Table::heading() const {
    std::printf("\n%-*s  %-5s  %-*s  %10s  %10s  %8s  %-11s  %6s\n", op_width_, "operator", "dtype", shape_width_,
                "shape", "limit", "operator", "fraction", "quartiles", "target");
}

void Table::print(const Result& r) const {
    const Measured& m = r.measured;
    const auto rate = [&r](double seconds) { return format("%.1f %s", r.limit.work / seconds * 1e-9, r.limit.unit); };
    std::printf("%s  %10s  %10s  %8.2f  %.2f - %.2f  %6.2f  %s\n", names(*r.of).c_str(), rate(m.limit.median).c_str(),
                rate(m.op.median).c_str(), m.fraction.median, m.fraction.q1, m.fraction.q3, r.target,
                r.met() ? "ok" : "below");
    std::fflush(stdout);
}

void Table::tiny_heading() const {
    std::printf("\nA whole call, both phases and the synchronisation\n%-*s  %-5s  %-*s  %10s  %-13s  %6s\n", op_width_,
                "operator", "dtype", shape_width_, "shape", "time", "quartiles", "target");
}

void Table::print(const TinyResult& r) const {
    const Spread& us = r.microseconds;
    std::printf("%s  %10s  %-13s  %6.0f  %s\n", names(*r.of).c_str(), format("%.2f us", us.median).c_str(),
                format("%.2f - %.2f", us.q1, us.q3).c_str(), r.of->target, r.met() ? "ok" : "slower");
    std::fflush(stdout);
}

}  // namespace gradus::bench
