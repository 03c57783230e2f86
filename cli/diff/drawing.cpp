#include "cli/diff/drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "cli/output/page.h"

namespace gradus::cli {
namespace {

int width_of(bool narrow) { return narrow ? 400 : 900; }

std::string rect(double x, double y, double width, double height, const std::string& colour, const std::string& title) {
    const std::string inside = title.empty() ? "/>" : "><title>" + escaped(title) + "</title></rect>";
    return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"var(--{})\"{}\n", x,
                       y, width, height, colour, inside);
}

std::string label(double x, double y, const char* anchor, const std::string& text) {
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, escaped(text));
}

std::string line(double x1, double y1, double x2, double y2) {
    return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"var(--line)\"/>\n", x1,
                       y1, x2, y2);
}

struct Bar {
    std::string name, full;  // under the bar; for its title
    int64_t count;
    const char* colour;
};

std::string power_name(int exponent) {
    return exponent <= 9 ? fmt::format("{}", 1 << exponent) : fmt::format("2^{}", exponent);
}

// From 0 to the worst bin; bins beyond the room are one.
std::vector<Bar> bars_of(const Judgement& j) {
    constexpr size_t kMost = 26;
    static const char* const low[] = {"0", "½", "1"};
    static const char* const low_full[] = {"equal", "up to half an ulp", "up to one ulp"};
    std::vector<Bar> bars;
    for (size_t i = 0; i < std::max<size_t>(j.histogram.size(), 3); ++i) {
        const int64_t count = i < j.histogram.size() ? j.histogram[i] : 0;
        const int exponent = static_cast<int>(i) - 2;
        if (i < 3)
            bars.push_back({low[i], low_full[i], count, "good"});
        else if (i < kMost)
            bars.push_back({power_name(exponent), "up to " + power_name(exponent) + " ulps", count, "warn"});
        else if (i == kMost)
            bars.push_back({"more", "more ulps", count, "bad"});
        else
            bars.back().count += count;
    }
    if (const int64_t misplaced = j.nan_extra + j.nan_missing + j.inf_extra + j.inf_missing; misplaced > 0)
        bars.push_back({"NaN/Inf", "NaN or Inf on one side only", misplaced, "bad"});
    return bars;
}

// The steps of colour, in multiples of what rounding explains.
constexpr double kSteps[] = {1, 4, 16, 256, 65536};
const char* const kStepNames[] = {"rounding", "up to 4 ×", "16 ×", "256 ×", "2^16 ×", "more", "NaN/Inf"};

int step_of(double times) {
    if (times == 0) return 0;
    if (std::isinf(times)) return 7;
    return 1 + static_cast<int>(std::lower_bound(std::begin(kSteps), std::end(kSteps), times) - std::begin(kSteps));
}

// As many names in a line as there is room for.
std::string legend(double left, double y, double width) {
    constexpr double kEach = 112, kHigh = 22;
    std::string svg;
    double x = left;
    for (int step = 0; step <= 7; ++step) {
        if (x + kEach > left + width) x = left, y += kHigh;
        svg += rect(x, y, 14, 14, step == 0 ? "line" : fmt::format("heat-{}", step), "");
        svg += label(x + 20, y + 12, "start", step == 0 ? "equal" : kStepNames[step - 1]);
        x += step == 0 ? 80 : kEach;
    }
    return svg;
}

}  // namespace

std::string draw_histogram(const Judgement& j, bool narrow) {
    constexpr double kTop = 14, kHeight = 220;
    const double left = narrow ? 40 : 58;
    const int width = width_of(narrow);
    const std::vector<Bar> bars = bars_of(j);
    int64_t most = 1;
    for (const Bar& bar : bars) most = std::max(most, bar.count);
    const double decades = std::max(1.0, std::log10(static_cast<double>(most)) + 0.3);
    // a count of 1 has a height, too: the axis starts at a half
    const auto height = [&](double count) { return kHeight * (std::log10(count) + 0.3) / (decades + 0.3); };
    std::string svg = svg_open(width, 290,
                               fmt::format("Histogram of errors: {} of {} elements differ, the worst by {:.3g} ulps",
                                           j.differing, j.count, j.worst_ulps));
    for (int d = 0; d <= static_cast<int>(decades); d += decades > 6 ? 2 : 1) {
        const double y = kTop + kHeight - height(std::pow(10.0, d));
        svg += line(left, y, width, y) +
               label(left - 8, y + 4, "end", d < 4 ? fmt::format("{:.0f}", std::pow(10.0, d)) : fmt::format("1e{}", d));
    }
    const double step = std::min(90.0, (width - left - 6) / static_cast<double>(bars.size()));
    for (size_t i = 0; i < bars.size(); ++i) {
        const Bar& bar = bars[i];
        const double x = left + 6 + step * static_cast<double>(i);
        if (bar.count > 0) {
            const double h = height(static_cast<double>(bar.count));
            svg += rect(x + step * 0.1, kTop + kHeight - h, step * 0.8, h, bar.colour,
                        fmt::format("{}: {} elements", bar.full, bar.count));
        }
        const size_t sparse = narrow ? 7 : 14, every = 1 + bars.size() / (sparse + 1);
        // The last name may be a long one: where there is little room, the one before it gives way.
        const bool crowded = narrow && i + 1 < bars.size() && i + 1 + every >= bars.size();
        if (i == 0 || (!crowded && (bars.size() - i) % every == 1 % every))
            svg += i + 1 < bars.size() ? label(x + step / 2, kTop + kHeight + 18, "middle", bar.name)
                                       : label(x + step, kTop + kHeight + 18, "end", bar.name);
    }
    svg += label(left, kTop + kHeight + 44, "start", "error in ulps, up to") + "</svg>";
    return svg;
}

std::string draw_heat_map(const HeatMap& map, const Shape& shape, const std::string& cells, bool narrow) {
    const int wide = width_of(narrow);
    constexpr double kLeft = 6, kTop = 24;
    const double cell = std::min((wide - 2 * kLeft) / static_cast<double>(std::max<int64_t>(map.columns, 1)), 22.0);
    const double high = std::clamp(420 / static_cast<double>(std::max<int64_t>(map.rows, 1)), 3.0, cell);
    const double height = high * static_cast<double>(map.rows);
    int64_t touched = 0;
    for (const double worst : map.worst) touched += worst > 0;
    std::string svg = svg_open(
        wide, static_cast<int>(kTop + height) + (narrow ? 92 : 58),
        fmt::format("Heat map of a tensor {}: errors in {} of {} cells", text(shape), touched, map.worst.size()));
    svg += label(kLeft, kTop - 8, "start", "columns (last dim) →  rows (the other dims) ↓");
    // In units of cells, a path a colour: short, and the pointer's place is a cell.
    svg += fmt::format("<g class=\"map\" shape-rendering=\"crispEdges\" data-cells=\"{}\" ", escaped(cells));
    svg += fmt::format("transform=\"translate({} {}) scale({:.4f} {:.4f})\">\n", kLeft, kTop, cell, high);
    svg += rect(0, 0, static_cast<double>(map.columns), static_cast<double>(map.rows), "line", "");
    std::array<std::string, 8> paths;
    for (int64_t r = 0; r < map.rows; ++r) {
        for (int64_t c = 0; c < map.columns;) {  // equal cells side by side are one piece
            const auto level = [&](int64_t column) {
                return step_of(map.worst[static_cast<size_t>(r * map.columns + column)]);
            };
            const int step = level(c);
            int64_t end = c + 1;
            while (end < map.columns && level(end) == step) ++end;
            if (step > 0) paths[static_cast<size_t>(step)] += fmt::format("M{} {}h{}v1h-{}z", c, r, end - c, end - c);
            c = end;
        }
    }
    for (size_t step = 1; step < paths.size(); ++step)
        if (!paths[step].empty()) svg += fmt::format("<path fill=\"var(--heat-{})\" d=\"{}\"/>\n", step, paths[step]);
    svg += "</g>\n" + legend(kLeft, kTop + height + 16, wide) + "</svg>";
    return svg;
}

}  // namespace gradus::cli
