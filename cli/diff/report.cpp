#include <fmt/format.h>

#include <cmath>

#include "cli/diff/cells.h"
#include "cli/diff/diff.h"
#include "cli/diff/drawing.h"
#include "cli/output/page.h"
#include "cli/output/terminal.h"

namespace gradus::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

const char* pass_word(bool pass) { return pass ? "pass" : "fail"; }

// 2^-9 where the number is a power of two, as the rules are written.
std::string power(double x) {
    int exponent = 0;
    return x > 0 && std::frexp(x, &exponent) == 0.5 ? fmt::format("2^{}", exponent - 1) : fmt::format("{:.3g}", x);
}

std::string percent(int64_t part, int64_t whole) {
    return fmt::format("{} of {} ({:.3g} %)", part, whole,
                       whole > 0 ? 100 * static_cast<double>(part) / static_cast<double>(whole) : 0);
}

std::string value(double x, aclDataType dtype) {
    return fmt::format("{:.{}g}", x, dtype == ACL_FLOAT16 || dtype == ACL_BF16 ? 5 : 9);
}

Rows numbers(const Finding& f) {
    const Judgement& j = f.judgement;
    Rows rows = {{"measure", "value", "verdict"}};
    rows.push_back({"elements that differ", percent(j.differing, j.count), ""});
    if (j.rules.rtol == 0) return rows;  // an exact result has no tolerance to report
    const char* const magnitude = j.assumed.empty() ? "magnitude" : "row's largest";
    const auto beyond = [&](const char* what, double share, int64_t count) {
        rows.push_back({fmt::format("... by more than {} (half an ulp + {} of the {})", what, power(share), magnitude),
                        percent(count, j.count), ""});
    };
    beyond("is promised here", j.kept_share, j.beyond_kept);
    beyond("rounding on the way leaves", j.rounded_share, j.beyond_rounded);
    beyond("sums in 16 bits leave", j.any_share, j.beyond_any);
    if (j.assumed.empty() && j.noise > 0)
        rows.push_back(
            {"error of the magnitude",
             fmt::format("worst {:.2g}, typical {:.2g}{}", j.worst_share, j.noise,
                         j.noise_of.empty() ? "" : fmt::format("; {} arithmetic {:.2g}", j.noise_of, j.rounding_noise)),
             ""});
    rows.push_back({"error in ulps of " + std::string(dtype_name(j.dtype)),
                    fmt::format("worst {:.4g}, mean {:.3g}, bias {:+.2g}", j.worst_ulps, j.mean_ulps, j.bias_ulps),
                    ""});
    rows.push_back(
        {fmt::format("CANN's rule (a): 99 % within {} + {}·|want|", power(j.rules.atol), power(j.rules.rtol)),
         fmt::format("{:.4g} % within", 100 * j.within_cann), pass_word(j.rule_a)});
    const std::string limits =
        fmt::format("relative error, mean < {}, max < 10·{}", power(j.rules.relative), power(j.rules.relative));
    rows.push_back({"CANN's rule (b): " + limits,
                    fmt::format("mean {:.2g}, max {:.2g}", j.mean_relative, j.worst_relative), pass_word(j.rule_b)});
    rows.push_back(
        {"NaN",
         fmt::format("{} got, {} expected; {} too many, {} missing", j.nan_got, j.nan_want, j.nan_extra, j.nan_missing),
         pass_word(j.nan_extra + j.nan_missing == 0)});
    if (j.inf_extra + j.inf_missing > 0)
        rows.push_back({"Inf", fmt::format("{} too many, {} missing", j.inf_extra, j.inf_missing), "fail"});
    if (j.outside_own)
        rows.push_back({fmt::format("your tolerance: all within {:g} + {:g}·|want|", j.own_atol, j.own_rtol),
                        fmt::format("{} outside", *j.outside_own), pass_word(*j.outside_own == 0)});
    return rows;
}

// Two elements on either side: a shift or a wrong lane is seen at once.
std::string around(const Values& tensor, const Shape& shape, int64_t index) {
    const int64_t columns = shape.empty() ? 1 : shape.back(), row = index - index % columns;
    std::string text;
    for (int64_t i = std::max(row, index - 2); i <= std::min(row + columns - 1, index + 2); ++i) {
        const std::string number = fmt::format("{:.4g}", tensor.at(i));
        text += (text.empty() ? "" : " ") + (i == index ? "[" + number + "]" : number);
    }
    return text;
}

Rows worst(const Finding& f) {
    Rows rows = {{"index", "got", "expected", "ulps", "around: got", "around: expected"}};
    for (const Element& e : f.judgement.worst)
        rows.push_back({index_text(f.subject.shape, e.index), value(e.got, f.subject.got.dtype()),
                        value(e.want, f.subject.got.dtype()), fmt::format("{:.4g}", e.ulps),
                        around(f.subject.got, f.subject.shape, e.index),
                        around(f.subject.want, f.subject.shape, e.index)});
    return rows;
}

Rows elsewhere(const Finding& f, const std::vector<Cell>& cells) {
    Rows rows = {{"index", "got", "expected", "around: got", "around: expected"}};
    for (const Cell& c : cells)
        rows.push_back({index_text(f.subject.shape, c.index), value(c.got, f.subject.got.dtype()),
                        value(c.want, f.subject.got.dtype()), around(f.subject.got, f.subject.shape, c.index),
                        around(f.subject.want, f.subject.shape, c.index)});
    return rows;
}

std::string subject(const Finding& f) {
    const aclDataType got = f.subject.got.dtype(), want = f.subject.want.dtype();
    std::string text = fmt::format("{}  {} {}", f.name, dtype_name(got), cli::text(f.subject.shape));
    return want == got ? text : text + fmt::format(" against {}", dtype_name(want));
}

void add_to_page(Page& page, const Finding& f, const std::string& id) {
    const Judgement& j = f.judgement;
    page.heading(subject(f));
    page.verdict(passes(j.verdict) ? Tone::good : Tone::bad, verdict_name(j.verdict), j.reason);
    for (const auto& explanation : f.explanations) page.text(explanation.sentence);
    if (!j.assumed.empty()) page.text("Assumed: " + j.assumed + ".");
    page.table(numbers(f));
    if (j.differing == 0) return;
    page.heading("How large the errors are");
    page.svg(draw_histogram(j, false), draw_histogram(j, true),
             "Each bar counts the elements whose error is up to that many ulps and more than the bar before; "
             "the height is logarithmic. Green is within one ulp.");
    page.heading("Where they are");
    const HeatMap map = heat_map(f.subject);
    const std::vector<Cell> cells = worst_cells(
        map, f.subject.shape, [&f](int64_t i) { return f.subject.got.at(i); },
        [&f](int64_t i) { return f.subject.want.at(i); });
    page.svg(
        cells_data(map, cells, f.subject.shape, id) + draw_heat_map(map, f.subject.shape, id, false),
        draw_heat_map(map, f.subject.shape, id, true),
        fmt::format("The tensor as rows of its last dim; each cell is the worst of {} × {} elements, as a multiple "
                    "of what is promised. The pointer shows the element.",
                    map.row_step, map.column_step));
    page.heading("Worst elements");
    page.table(worst(f));
    const std::vector<Cell> places = different_places(map, cells, f.judgement.worst.size());
    if (places.size() < 2) return;
    page.heading("Worst elements of different places");
    page.table(elsewhere(f, places));
}

}  // namespace

namespace {

// Arguments by where they came from: "x: file x.npy".
std::string origins_text(const Finding& f) {
    std::string text;
    for (const auto& [name, origin] : f.origins)
        text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", name, origin);
    return text;
}

}  // namespace

void print_findings(const std::vector<Finding>& findings) {
    for (const Finding& f : findings) {
        const Judgement& j = f.judgement;
        const Tint tint = passes(j.verdict) ? Tint::good : Tint::bad;
        fmt::print("{}\n{}: {}\n", tinted(Tint::bold, subject(f)), tinted(tint, verdict_name(j.verdict)), j.reason);
        for (const auto& explanation : f.explanations) fmt::print("  {}\n", explanation.sentence);
        if (!j.assumed.empty()) fmt::print("  Assumed: {}.\n", j.assumed);
        fmt::print("\n{}", table(numbers(f)));
        if (!j.worst.empty()) fmt::print("\n{}", table(worst(f)));
        fmt::print("\n");
    }
    if (!findings.empty() && !findings.front().origins.empty())
        fmt::print("Arguments: {}\n", origins_text(findings.front()));
}

nlohmann::json findings_json(const std::vector<Finding>& findings, const std::string& against) {
    nlohmann::json outputs = nlohmann::json::array();
    bool pass = true;
    for (const Finding& f : findings) {
        nlohmann::json output = f.judgement.json(f.subject.shape);
        output["name"] = f.name;
        output["explanations"] = nlohmann::json::array();
        for (const auto& e : f.explanations)
            output["explanations"].push_back({{"explains", e.explains}, {"sentence", e.sentence}});
        outputs.push_back(output);
        pass = pass && passes(f.judgement.verdict);
    }
    nlohmann::json arguments = nlohmann::json::object();
    if (!findings.empty())
        for (const auto& [name, origin] : findings.front().origins) arguments[name] = origin;
    return {{"schema", "gradus-diff/2"},
            {"pass", pass},
            {"against", against},
            {"arguments", arguments},
            {"outputs", outputs}};
}

void write_findings(const std::string& path, const std::vector<Finding>& findings, const std::string& against,
                    const std::string& line) {
    Page page("gradus diff: " + against);
    for (size_t i = 0; i < findings.size(); ++i) add_to_page(page, findings[i], fmt::format("map-{}", i));
    if (!findings.empty() && !findings.front().origins.empty())
        page.text("Arguments: " + origins_text(findings.front()));
    page.write(path, line);
}

}  // namespace gradus::cli
