// The page of gradus bench: where each operator stands under the roofs of this machine.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/bench/bench.h"
#include "cli/output/page.h"

namespace gradus::cli {
namespace {

constexpr int kWidth = 860, kHeight = 460, kLeft = 64, kRight = 16, kTop = 16, kBottom = 48;

struct Point {
    size_t number;      // its row in the table
    double intensity;   // operations a byte
    double rate, best;  // operations a second: measured, and its own limit
    bool met;
    std::string label;
};

struct Roof {
    std::string name;
    double peak;  // operations or bytes a second
};

struct Roofs {
    Roof memory;
    std::vector<Roof> compute;
    double highest() const { return std::ranges::max_element(compute, {}, &Roof::peak)->peak; }
};

bool is_stream(const BenchResult& r) { return r.of.op->limit.contains("strip"); }

std::vector<Point> points_of(const std::vector<BenchResult>& results) {
    std::vector<Point> points;
    for (const BenchResult& r : results) {
        const double bytes = is_stream(r) ? r.limit.work : r.bytes;
        points.push_back({points.size() + 1, r.flops / bytes, r.flops / r.measured.op.median,
                          r.flops / r.measured.limit.median, r.of.target == 0 || r.met(),
                          fmt::format("{} {} {}: {:.2f} of the limit", r.of.op->name, r.of.dtype, r.of.name(),
                                      r.measured.fraction.median)});
    }
    return points;
}

double least(const bench::Limit& limit) {
    double seconds = limit.seconds();
    for (int i = 0; i < 4; ++i) seconds = std::min(seconds, limit.seconds());
    return seconds;
}

// What ran beside the operators; where nothing did, measured now.
Roofs roofs_of(const std::vector<BenchResult>& results) {
    Roofs roofs{{"", 0}, {}};
    for (const BenchResult& r : results) {
        const Roof roof{r.limit.kind, r.limit.work / r.measured.limit.median};
        if (is_stream(r)) {
            if (roof.peak > roofs.memory.peak) roofs.memory = roof;
            continue;
        }
        const auto same = std::ranges::find(roofs.compute, roof.name, &Roof::name);
        if (same == roofs.compute.end())
            roofs.compute.push_back(roof);
        else
            same->peak = std::max(same->peak, roof.peak);
    }
    if (roofs.memory.peak == 0) {
        std::vector<std::byte> from(64 << 20, std::byte{1}), to(from.size());
        const bench::Limit copy =
            bench::stream_limit(1, static_cast<int64_t>(from.size()), {{from.data(), 0}}, {{to.data(), 0}});
        roofs.memory = {copy.kind, copy.work / least(copy)};
    }
    if (roofs.compute.empty()) {
        const bench::Limit products = bench::matrix_limit(6e9, false);
        roofs.compute.push_back({products.kind, products.work / least(products)});
    }
    return roofs;
}

// In pixels.
std::string segment(double x1, double y1, double x2, double y2, const char* style) {
    return fmt::format("<line x1='{:.1f}' y1='{:.1f}' x2='{:.1f}' y2='{:.1f}' {}/>", x1, y1, x2, y2, style);
}
std::string label(double x, double y, const char* style, const std::string& text) {
    return fmt::format("<text x='{:.1f}' y='{:.1f}' {}>{}</text>", x, y, style, escaped(text));
}

// Both axes in powers of ten.
class Plot {
  public:
    Plot(const Roofs& roofs, const std::vector<Point>& points) {
        const double peak = roofs.highest(), ridge = peak / roofs.memory.peak;
        double low = ridge / 4, high = ridge * 4, slow = peak;
        for (const Point& p : points) {
            low = std::min(low, p.intensity), high = std::max(high, p.intensity);
            slow = std::min({slow, p.rate, p.best});
        }
        x_low_ = std::floor(std::log10(low * 0.8)), x_high_ = std::log10(high * 2);
        y_low_ = std::floor(std::log10(slow * 0.8)), y_high_ = std::log10(peak * 2);
    }
    double x(double intensity) const {
        return kLeft + (kWidth - kLeft - kRight) * (std::log10(intensity) - x_low_) / (x_high_ - x_low_);
    }
    double y(double rate) const {
        return kTop + (kHeight - kTop - kBottom) * (y_high_ - std::log10(rate)) / (y_high_ - y_low_);
    }
    // Where a roof that rises with the intensity comes into the picture.
    double entry(double memory) const { return std::max(std::pow(10, x_low_), std::pow(10, y_low_) / memory); }

    std::string axes() const {
        const char *grid = "stroke='var(--line)'", *middle = "text-anchor='middle'";
        const double bottom = kHeight - kBottom, right = kWidth - kRight;
        std::string svg;
        for (int e = static_cast<int>(x_low_); e <= x_high_; ++e) {
            const double at = x(std::pow(10, e));
            svg += segment(at, kTop, at, bottom, grid);
            svg += label(at, bottom + 16, middle, fmt::format("{:g}", std::pow(10, e)));
        }
        for (int e = static_cast<int>(y_low_); e <= y_high_; ++e) {
            const double at = y(std::pow(10, e));
            svg += segment(kLeft, at, right, at, grid);
            svg += label(kLeft - 6, at + 4, "text-anchor='end'", fmt::format("{:g}", std::pow(10, e - 9)));
        }
        return svg + label(kWidth / 2.0, kHeight - 8, middle, "operations a byte") +
               label(-kHeight / 2.0, 14, "text-anchor='middle' transform='rotate(-90)'", "GFLOP/s");
    }

  private:
    double x_low_, x_high_, y_low_, y_high_;
};

std::string draw_roofs(const Plot& plot, const Roofs& roofs) {
    const char* style = "stroke='var(--accent)' stroke-width='2'";
    const double memory = roofs.memory.peak, ridge = roofs.highest() / memory, entry = plot.entry(memory);
    std::string svg = segment(plot.x(entry), plot.y(entry * memory), plot.x(ridge), plot.y(ridge * memory), style);
    // Right of the slope's upper end: to its left there may be no room.
    svg += label(plot.x(ridge / 2) + 14, plot.y(ridge / 2 * memory) + 8, "style='fill:var(--accent)'",
                 fmt::format("{:.1f} GB/s, {}", memory * 1e-9, roofs.memory.name));
    for (const Roof& roof : roofs.compute) {
        const double at = plot.y(roof.peak);
        svg += segment(plot.x(roof.peak / memory), at, kWidth - kRight, at, style);
        svg += label(kWidth - kRight - 4, at - 6, "text-anchor='end' style='fill:var(--accent)'",
                     fmt::format("{:.0f} GFLOP/s, {}", roof.peak * 1e-9, roof.name));
    }
    return svg;
}

std::string draw_roofline(const Roofs& roofs, const std::vector<Point>& points) {
    const Plot plot(roofs, points);
    std::string svg =
        svg_open(kWidth, kHeight, "operators under the roofs of this machine") + plot.axes() + draw_roofs(plot, roofs);
    for (const Point& p : points) {
        const double x = plot.x(p.intensity), y = plot.y(p.rate);
        svg += segment(x, y, x, plot.y(p.best), "stroke='var(--soft)' stroke-dasharray='2 2'");
        svg += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='5' fill='var(--{})'><title>{}</title></circle>", x, y,
                           p.met ? "good" : "bad", escaped(p.label));
        svg += label(x + 7, y + 3, "style='font-size:10px'", std::to_string(p.number));
    }
    return svg + "</svg>";
}

std::vector<std::vector<std::string>> rows_of(const std::vector<BenchResult>& results) {
    std::vector<std::vector<std::string>> rows = {
        {"", "operator", "dtype", "shape", "limit", "operator", "fraction", "quartiles", "target", ""}};
    for (const BenchResult& r : results) {
        const auto rate = [&r](const bench::Spread& seconds) {
            return fmt::format("{:.1f} {}", r.limit.work / seconds.median * 1e-9, r.limit.unit);
        };
        const bench::Spread& f = r.measured.fraction;
        const bool judged = r.of.target > 0;
        rows.push_back({std::to_string(rows.size()), r.of.op->name, r.of.dtype,
                        r.of.model.empty() ? r.of.arguments : r.of.model + ": " + r.of.arguments,
                        rate(r.measured.limit), rate(r.measured.op), fmt::format("{:.2f}", f.median),
                        fmt::format("{:.2f} – {:.2f}", f.q1, f.q3), judged ? fmt::format("{:.2f}", r.of.target) : "",
                        !judged   ? ""
                        : r.met() ? "ok"
                                  : "below"});
    }
    return rows;
}

}  // namespace

void write_bench_page(const std::string& path, const Machine& machine, const std::vector<BenchResult>& results,
                      const std::vector<TinyResult>& tiny) {
    Page page("Gradus: speed beside the limit of this machine");
    const auto below = std::ranges::count_if(results, [](const BenchResult& r) { return r.of.target > 0 && !r.met(); });
    page.verdict(below == 0, below == 0 ? "on target" : fmt::format("{} below target", below), machine.line());
    if (machine.load > 0.5)
        page.text(fmt::format("Others were at work (load {:.1f}): what computes much looks too slow.", machine.load));
    page.svg(draw_roofline(roofs_of(results), points_of(results)),
             "A dot is an operator on one shape, the dashed line above it reaches to its own limit, which ran in turn "
             "with it. The slope is the memory's speed, level lines are peaks of matrix instructions.");
    page.heading("Limit and operator");
    page.table(rows_of(results));
    page.text("The fraction is the median of the rounds' ratios, with its quartiles.");
    if (!tiny.empty()) {
        page.heading("A whole call on a tiny tensor");
        std::vector<std::vector<std::string>> rows = {{"operator", "dtype", "shape", "microseconds", "quartiles", ""}};
        for (const TinyResult& r : tiny)
            rows.push_back({r.of.op->name, r.of.dtype, r.of.arguments, fmt::format("{:.2f}", r.microseconds.median),
                            fmt::format("{:.2f} – {:.2f}", r.microseconds.q1, r.microseconds.q3),
                            r.met() ? "ok" : "slower"});
        page.table(rows);
    }
    page.write(path);
}

}  // namespace gradus::cli
