// The page of gradus bench.
#include <fmt/core.h>

#include <algorithm>

#include "cli/bench/bench.h"
#include "cli/output/page.h"

namespace gradus::cli {

void write_bench_page(const std::string& path, const BenchReport& report, const std::string& line) {
    Page page("Gradus: speed beside the limit of this machine");
    const auto count = [&report](Standing standing) {
        return std::ranges::count_if(report.results,
                                     [standing](const BenchResult& r) { return r.standing() == standing; });
    };
    const auto below = count(Standing::below), unknown = count(Standing::unknown);
    const std::string word = below > 0     ? fmt::format("{} below target", below)
                             : unknown > 0 ? fmt::format("no verdict on {}", unknown)
                                           : "on target";
    page.verdict(below > 0 ? Tone::bad : unknown > 0 ? Tone::warn : Tone::good, word, report.machine.line());
    for (const BenchResult& r : report.results)
        if (r.standing() == Standing::unknown) {
            page.text(fmt::format("No verdict, such as on {} {}: {}. Measure again when the machine is quiet.",
                                  r.of.op->name, r.of.dtype, r.doubt()));
            break;
        }
    page.svg(draw_roofline(report.results, false), draw_roofline(report.results, true),
             "A dot is an operator on one shape, by its number in the table; the dashed line above it reaches to its "
             "own limit, which ran in turn with it. Dots that would lie on each other stand side by side. The slope is "
             "the memory's speed, level lines are peaks of matrix instructions.");
    page.heading("Limit and operator");
    page.table(result_rows(report));
    page.text("The fraction is the median of the rounds' ratios, with its quartiles.");
    if (!report.tiny.empty()) {
        page.heading("A whole call on a tiny tensor");
        page.table(tiny_rows(report));
    }
    page.write(path, line);
}

}  // namespace gradus::cli
