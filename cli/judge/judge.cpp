#include "cli/judge/judge.h"

#include <fmt/format.h>

#include <cmath>

#include "cli/judge/recognise.h"

namespace gradus::cli {
namespace {

bool cann_accepts(const Judgement& j) {
    // of the small ones as many may be off as rule (a) lets of all
    return j.rule_a && j.rule_b_large && static_cast<double>(j.small_bad) <= 0.01 * static_cast<double>(j.small);
}

std::string broken_rules(const Judgement& j) {
    std::string rules;
    const auto add = [&](const std::string& text) { rules += (rules.empty() ? " (" : ", ") + text; };
    if (!j.rule_a) add(fmt::format("only {:.2f} % within rule (a)", 100 * j.within_cann));
    if (!j.rule_b_large)
        add(fmt::format("rule (b): mean {:.2g}, worst {:.2g}", j.mean_relative_large, j.worst_relative_large));
    return rules.empty() ? "" : rules + ")";
}

std::string rounded_sentence(const Judgement& j) {
    const std::string few = fmt::format("{} of {} elements differ, ", j.differing, j.count);
    if (j.worst_ulps <= 1) return few + "by one ulp at most: rounding explains it";
    return few + fmt::format(
                     "by no more than f32 rounding leaves beside the largest of the row (up to {:.3g} ulps of "
                     "small values)",
                     j.worst_ulps);
}

std::string accepted_sentence(const Judgement& j) {
    return fmt::format(
        "within CANN's rules; {} of {} elements are farther off than one rounding, the worst by {:.3g} ulps", j.beyond,
        j.count, j.worst_ulps);
}

void decide(Judgement& j, Verdict verdict, std::string reason) { j.verdict = verdict, j.reason = std::move(reason); }

// A difference that rounding does not explain. From the most particular to the most general: what most elements have
// in common, what a few do that stand out, what the many do that are outside the rules.
void decide_beyond(const Tensor& got, const Tensor& want, const Measured& m, Judgement& j) {
    std::string common;
    if (m.broken > 0) common = common_mistake(collect(got, want, m, Suspects::broken), m);
    const double broken_share = static_cast<double>(m.broken) / static_cast<double>(j.count);
    if (!common.empty() && broken_share > 0.1) return decide(j, Verdict::wrong, common);
    if (broken_share > 0.2 && j.relative_l2 > 0.7 && j.correlation < 0.5)
        return decide(j, Verdict::wrong,
                      fmt::format("unlike what is expected: {:.0f} % of the elements are wrong, correlation {:.2f}",
                                  100 * broken_share, j.correlation));
    const Suspects outliers = collect(got, want, m, Suspects::stands_out);
    if (outliers.count > 0) return decide(j, Verdict::wrong, mistake(outliers, m));
    if (!common.empty()) return decide(j, Verdict::wrong, common);
    if (cann_accepts(j)) return decide(j, Verdict::accepted, accepted_sentence(j));
    decide(j, Verdict::imprecise, imprecision(m) + broken_rules(j));
}

void decide(const Tensor& got, const Tensor& want, const Measured& m, Judgement& j, const std::string& promise) {
    if (j.differing == 0) return decide(j, Verdict::equal, "equal bit by bit");
    if (j.misplaced()) {
        const Suspects numbers = collect(got, want, m, Suspects::stands_out);
        return decide(j, Verdict::wrong,
                      misplaced_sentence(collect(got, want, m, Suspects::misplaced), j) +
                          (numbers.count > 0 ? "; besides, " + mistake(numbers, m) : ""));
    }
    if (promise == "exact" || m.yardstick.grid.integer)
        return decide(j, Verdict::wrong, mistake(collect(got, want, m, Suspects::different), m));
    // truncation stays within an ulp, which CANN accepts; it is a mistake all the same, and its name helps
    const std::string truncated = truncation(m);
    if (!truncated.empty()) return decide(j, cann_accepts(j) ? Verdict::accepted : Verdict::imprecise, truncated);
    if (j.beyond == 0) return decide(j, Verdict::rounded, rounded_sentence(j));
    decide_beyond(got, want, m, j);
}

// A tolerance of the caller's own decides between pass and fail; the sentence stays, it says what the difference is.
void decide_by_own(Judgement& j) {
    if (!j.outside_own || j.misplaced()) return;
    const bool within = *j.outside_own == 0;
    if (within == passes(j.verdict)) return;
    j.verdict = within ? Verdict::accepted : Verdict::imprecise;
    j.reason = within ? "within the tolerance given; " + j.reason
                      : fmt::format("{} elements outside the tolerance given; {}", *j.outside_own, j.reason);
}

nlohmann::json number(double x) {
    if (std::isfinite(x)) return x;
    return std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf";  // JSON has no word for them
}

}  // namespace

const char* verdict_name(Verdict verdict) {
    static const char* const names[] = {"equal", "rounded", "accepted", "imprecise", "wrong"};
    return names[static_cast<int>(verdict)];
}

Rules rules_of(aclDataType dtype, const std::string& promise) {
    // f32 sums leave (8 + log2 n)·2^-24 of the sum of |terms|: 16·2^-23 of the largest result of the row; an
    // elementwise result 4·2^-23 of its largest term.
    const bool elementwise = promise == "elementwise";
    Rules r{0x1p-10, 0x1p-16, 0x1p-13, 0, 0x1p-19, elementwise ? 0x1p-21 : 0x1p-19, 0x1p-19};
    if (dtype == ACL_FLOAT16) r.rtol = r.atol = 0x1p-9, r.relative = 0x1p-10;
    if (dtype == ACL_BF16) r.rtol = r.atol = 0x1p-6, r.relative = 0x1p-7;
    // Below this, an error that f32 sums may leave is more than T of the element.
    r.small_below = r.small_error / r.relative;
    // 16-bit factors inside a sum (g, P, dS) leave T/8 of the typical result, which is about a quarter of the largest;
    // and in f16 nothing of a factor below 2^-25, however small the row is by it.
    if (!elementwise && (dtype == ACL_FLOAT16 || dtype == ACL_BF16))
        r.small_below = 0x1p-5, r.small_error = r.relative / 4, r.floor = 0x1p-16;
    if (promise == "exact" || grid_of(dtype).integer) r = {0, 0, 1, 0, 0, -1, 0};
    return r;
}

Judgement judge(const Tensor& got, const Tensor& want, const std::string& promise, const JudgeOptions& options) {
    const Measured measured = measure(got, want, promise, options);
    Judgement j = measured.judgement;
    decide(got, want, measured, j, promise);
    decide_by_own(j);
    return j;
}

nlohmann::json Judgement::json(const Shape& shape) const {
    nlohmann::json bins = histogram, elements = nlohmann::json::array();
    for (const Element& e : worst)
        elements.push_back({{"index", index_text(shape, e.index)},
                            {"flat_index", e.index},
                            {"got", number(e.got)},
                            {"want", number(e.want)},
                            {"ulps", number(e.ulps)}});
    nlohmann::json json = {
        {"verdict", verdict_name(verdict)},
        {"pass", passes(verdict)},
        {"reason", reason},
        {"dtype", dtype_name(dtype)},
        {"shape", shape},
        {"count", count},
        {"differing", differing},
        {"beyond_rounding", beyond},
        {"ulps", {{"worst", number(worst_ulps)}, {"mean", mean_ulps}, {"bias", bias_ulps}, {"histogram", bins}}},
        {"relative_l2", number(relative_l2)},
        {"correlation", number(correlation)},
        {"rule_a", {{"pass", rule_a}, {"within", within_cann}, {"rtol", rules.rtol}, {"atol", rules.atol}}},
        {"rule_b",
         {{"pass", rule_b},
          {"pass_without_small", rule_b_large},
          {"mean", mean_relative},
          {"worst", worst_relative},
          {"mean_without_small", mean_relative_large},
          {"worst_without_small", worst_relative_large},
          {"limit", rules.relative}}},
        {"small", {{"count", small}, {"bad", small_bad}, {"below", rules.small_below}, {"error", rules.small_error}}},
        {"nan", {{"got", nan_got}, {"want", nan_want}, {"extra", nan_extra}, {"missing", nan_missing}}},
        {"inf", {{"extra", inf_extra}, {"missing", inf_missing}}},
        {"worst", elements}};
    if (outside_own) json["own"] = {{"outside", *outside_own}, {"rtol", own_rtol}, {"atol", own_atol}};
    return json;
}

}  // namespace gradus::cli
