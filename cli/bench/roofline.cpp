// Where each operator stands under the roofs of this machine.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/bench/bench.h"
#include "cli/output/page.h"

namespace gradus::cli {
namespace {

constexpr double kTop = 16, kBottom = 48, kRadius = 8;

struct Point {
    size_t number;      // its row in the table
    double intensity;   // operations a byte
    double rate, best;  // operations a second: measured, and its own limit
    Standing standing;
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
                          r.flops / r.measured.limit.median, r.standing(),
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

Roof measured_memory() {
    std::vector<std::byte> from(64 << 20, std::byte{1}), to(from.size());
    const bench::Limit copy =
        bench::stream_limit(1, static_cast<int64_t>(from.size()), {{from.data(), 0}}, {{to.data(), 0}});
    return {copy.kind, copy.work / least(copy)};
}

Roof measured_products() {
    const bench::Limit products = bench::matrix_limit(6e9, false);
    return {products.kind, products.work / least(products)};
}

// What ran beside the operators; where nothing did, measured once.
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
        static const Roof memory = measured_memory();
        roofs.memory = memory;
    }
    if (roofs.compute.empty()) {
        static const Roof products = measured_products();
        roofs.compute.push_back(products);
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
    Plot(const Roofs& roofs, const std::vector<Point>& points, bool is_narrow)
        : narrow(is_narrow), width(narrow ? 400 : 900), height(narrow ? 420 : 480), left(narrow ? 44 : 64) {
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
        return left + (right() - left) * (std::log10(intensity) - x_low_) / (x_high_ - x_low_);
    }
    double y(double rate) const {
        return kTop + (height - kTop - kBottom) * (y_high_ - std::log10(rate)) / (y_high_ - y_low_);
    }
    double right() const { return width - (narrow ? 8 : 16); }
    // Where a roof that rises with the intensity comes into the picture.
    double entry(double memory) const { return std::max(std::pow(10, x_low_), std::pow(10, y_low_) / memory); }

    std::string axes() const {
        const char *grid = "stroke='var(--line)'", *middle = "text-anchor='middle'";
        const double bottom = height - kBottom;
        std::string svg;
        for (int e = static_cast<int>(x_low_); e <= x_high_; ++e) {
            const double at = x(std::pow(10, e));
            svg += segment(at, kTop, at, bottom, grid);
            svg += label(at, bottom + 16, middle, fmt::format("{:g}", std::pow(10, e)));
        }
        for (int e = static_cast<int>(y_low_); e <= y_high_; ++e) {
            const double at = y(std::pow(10, e));
            svg += segment(left, at, right(), at, grid);
            svg += label(left - 6, at + 4, "text-anchor='end'", fmt::format("{:g}", std::pow(10, e - 9)));
        }
        return svg + label(width / 2.0, height - 8, middle, "operations a byte") +
               label(-height / 2.0, 12, "text-anchor='middle' transform='rotate(-90)'", "GFLOP/s");
    }

    const bool narrow;
    const int width, height, left;

  private:
    double x_low_, x_high_, y_low_, y_high_;
};

// A roof's words, by turns of its own so that they keep clear of each other.
std::string draw_roofs(const Plot& plot, const Roofs& roofs) {
    const char* style = "stroke='var(--accent)' stroke-width='2'";
    const double memory = roofs.memory.peak, ridge = roofs.highest() / memory, entry = plot.entry(memory);
    std::string svg = segment(plot.x(entry), plot.y(entry * memory), plot.x(ridge), plot.y(ridge * memory), style);
    double above = 1e9;
    std::vector<Roof> compute = roofs.compute;
    std::ranges::sort(compute, {}, &Roof::peak);
    for (const Roof& roof : compute) {
        const double at = plot.y(roof.peak);
        svg += segment(plot.x(roof.peak / memory), at, plot.right(), at, style);
        above = std::min(at - 6, above - 14);  // two peaks that are nearly one: the words on each other's shoulders
        const std::string words = fmt::format("{:.0f} GFLOP/s, {}", roof.peak * 1e-9, roof.name);
        // At its beginning, if there is room: the dots of products are at its end.
        svg += plot.narrow ? label(plot.right(), above, "text-anchor='end' style='fill:var(--accent)'", words)
                           : label(plot.x(roof.peak / memory) + 6, above, "style='fill:var(--accent)'", words);
    }
    // At the bottom right, where nothing can lie under a slope that has risen.
    return svg + label(plot.right() - 4, plot.height - kBottom - 8, "text-anchor='end' style='fill:var(--accent)'",
                       plot.narrow ? fmt::format("slope: {:.1f} GB/s", memory * 1e-9)
                                   : fmt::format("slope: {:.1f} GB/s, {}", memory * 1e-9, roofs.memory.name));
}

struct Spot {
    double x, y;
};

// The free place nearest to its own: first to the right and left, then a little higher and lower.
Spot free_spot(const Plot& plot, Spot own, const std::vector<Spot>& taken) {
    constexpr double kApart = 2 * kRadius + 1;
    const auto free = [&](Spot s) {
        if (s.x < plot.left + kRadius || s.x > plot.right() - kRadius) return false;
        return std::ranges::none_of(taken, [&](Spot t) { return std::hypot(s.x - t.x, s.y - t.y) < kApart; });
    };
    for (int step = 0; step * kApart / 4 < 400; ++step)
        for (int turn = 0; turn < 16; ++turn) {
            const int eighths = turn % 2 == 0 ? turn / 2 : -(turn / 2);
            const double angle = eighths * M_PI / 8, distance = step * kApart / 4;
            const Spot spot{own.x + distance * std::cos(angle), own.y + distance * std::sin(angle)};
            if (free(spot)) return spot;
        }
    return own;
}

const char* colour_of(Standing standing) {
    static const char* const colours[] = {"accent", "good", "bad", "warn"};
    return colours[static_cast<int>(standing)];
}

}  // namespace

std::string draw_roofline(const std::vector<BenchResult>& results, bool narrow) {
    const Roofs roofs = roofs_of(results);
    const std::vector<Point> points = points_of(results);
    const Plot plot(roofs, points, narrow);
    std::string lines, dots;
    std::vector<Spot> taken;
    for (const Point& p : points) {
        const Spot own{plot.x(p.intensity), plot.y(p.rate)}, spot = free_spot(plot, own, taken);
        taken.push_back(spot);
        lines += segment(own.x, own.y, own.x, plot.y(p.best), "stroke='var(--soft)' stroke-dasharray='2 2'");
        lines += segment(own.x, own.y, spot.x, spot.y, "stroke='var(--soft)'");
        dots += fmt::format("<g><title>{}</title><circle cx='{:.1f}' cy='{:.1f}' r='{}' fill='var(--{})'/>",
                            escaped(p.label), spot.x, spot.y, kRadius, colour_of(p.standing));
        dots += label(spot.x, spot.y + 3.2, "class='dot' text-anchor='middle'", std::to_string(p.number)) + "</g>\n";
    }
    return svg_open(plot.width, plot.height, "operators under the roofs of this machine") + plot.axes() +
           draw_roofs(plot, roofs) + lines + dots + "</svg>";
}

}  // namespace gradus::cli
