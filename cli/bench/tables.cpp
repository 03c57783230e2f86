// The results as rows: of the page, of Markdown, of a spreadsheet.
#include <fmt/format.h>

#include "cli/base/clock.h"
#include "cli/bench/bench.h"

namespace gradus::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string rate(const BenchResult& r, const bench::Spread& seconds) {
    return fmt::format("{:.1f} {}", r.limit.work / seconds.median * 1e-9, r.limit.unit);
}

bool compared(const BenchReport& report) {
    for (const BenchResult& r : report.results)
        if (r.before) return true;
    return false;
}

std::string before_text(const std::optional<Before>& before) {
    if (!before) return "new";
    const char* word = before->standing == Standing::below ? "slower" : standing_word(before->standing);
    return fmt::format("{:.2f}, {}", before->value, word);
}

std::string markdown(const Rows& rows) {
    std::string text;
    for (size_t i = 0; i < rows.size(); ++i) {
        text += fmt::format("| {} |\n", fmt::join(rows[i], " | "));
        if (i == 0) text += fmt::format("|{}|\n", fmt::join(std::vector<std::string>(rows[0].size(), "---"), "|"));
    }
    return text;
}

// In quotes where a spreadsheet would split it.
std::string csv_cell(const std::string& cell) {
    if (cell.find_first_of(",\"\n") == std::string::npos) return cell;
    std::string text = "\"";
    for (const char c : cell) text += c == '"' ? std::string("\"\"") : std::string(1, c);
    return text + "\"";
}

std::string csv_line(const std::vector<std::string>& cells) {
    std::vector<std::string> quoted;
    quoted.reserve(cells.size());
    for (const std::string& cell : cells) quoted.push_back(csv_cell(cell));
    return fmt::format("{}\n", fmt::join(quoted, ","));
}

}  // namespace

Rows result_rows(const BenchReport& report) {
    const bool with_before = compared(report);
    Rows rows = {{"no.", "operator", "dtype", "shape", "verdict", "fraction", "quartiles", "target", "operator's rate",
                  "limit"}};
    if (with_before) rows[0].push_back("baseline");
    for (const BenchResult& r : report.results) {
        const bench::Spread& f = r.measured.fraction;
        rows.push_back({std::to_string(rows.size()), r.of.op->name, r.of.dtype,
                        r.of.model.empty() ? r.of.arguments() : r.of.model + ": " + r.of.arguments(),
                        standing_word(r.standing()), fmt::format("{:.2f}", f.median),
                        fmt::format("{:.2f} – {:.2f}", f.q1, f.q3),
                        r.of.target > 0 ? fmt::format("{:.2f}", r.of.target) : "", rate(r, r.measured.op),
                        rate(r, r.measured.limit)});
        if (with_before) rows.back().push_back(before_text(r.before));
    }
    return rows;
}

Rows tiny_rows(const BenchReport& report) {
    Rows rows = {{"operator", "dtype", "shape", "verdict", "microseconds", "quartiles"}};
    for (const TinyResult& r : report.tiny) {
        const Standing standing = r.standing();
        rows.push_back({r.of.op->name, r.of.dtype, r.of.arguments(),
                        standing == Standing::below ? "slower" : standing_word(standing),
                        fmt::format("{:.2f}", r.microseconds.median),
                        fmt::format("{:.2f} – {:.2f}", r.microseconds.q1, r.microseconds.q3)});
    }
    return rows;
}

std::string bench_markdown(const BenchReport& report) {
    std::string text = fmt::format("{}, {}\n\n{}", report.machine.line(), utc_time(), markdown(result_rows(report)));
    if (!report.tiny.empty()) text += "\nA whole call on a tiny tensor\n\n" + markdown(tiny_rows(report));
    return text;
}

std::string bench_csv(const BenchReport& report) {
    std::string text =
        "operator,dtype,model,arguments,fraction,fraction_q1,fraction_q3,target,verdict,operator_seconds,"
        "limit_seconds,work,unit,limit,others\n";
    const auto number = [](double x) { return fmt::format("{:.6g}", x); };
    for (const BenchResult& r : report.results) {
        const bench::Timing& m = r.measured;
        text += csv_line({r.of.op->name, r.of.dtype, r.of.model, r.of.arguments(), number(m.fraction.median),
                          number(m.fraction.q1), number(m.fraction.q3), r.of.target > 0 ? number(r.of.target) : "",
                          standing_word(r.standing()), number(m.op.median), number(m.limit.median),
                          number(r.limit.work), r.limit.unit, r.limit.kind, number(r.others)});
    }
    return text;
}

}  // namespace gradus::cli
