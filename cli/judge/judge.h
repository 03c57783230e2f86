// How far a result is from its reference, and what kind of mistake would look like that. docs/diff.md has the rules.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "cli/tensor/tensor.h"

namespace gradus::cli {

enum class Verdict {
    equal,      // bit by bit, but for the payload of NaN and the sign of zero
    rounded,    // every element within what rounding explains
    accepted,   // within CANN's rules; more than one rounding away
    imprecise,  // outside, and it looks like arithmetic of less precision: truncation, 16-bit sums
    wrong       // outside, and it looks like a mistake: sign, row, tail, NaN
};
const char* verdict_name(Verdict verdict);
inline bool passes(Verdict verdict) { return verdict <= Verdict::accepted; }

// The numbers behind a verdict, of one dtype and one promise.
struct Rules {
    double rtol, atol;   // (a) |got − want| ≤ atol + rtol·|want| for 99 % of the elements
    double relative;     // (b) T: mean of |got − want| / (|want| + 1e-7) below it, the largest below 10·T
    double small_below;  // small-value domain: |want| below this share of the largest of its row
    double small_error;  // ... where an error may be this share of the largest of the row, plus one ulp
    double rounding;     // "rounded" allows one ulp plus this share of the largest of the row
    double floor;        // an error below this share of the largest of the tensor is never a mistake
};
Rules rules_of(aclDataType dtype, const std::string& promise);

struct Element {
    int64_t index;
    double got, want, ulps;
    double times;  // the error over what rounding explains: the order of Judgement::worst
};

struct Judgement {
    Verdict verdict = Verdict::equal;
    std::string reason;  // one sentence: what it looks like, and where
    aclDataType dtype = ACL_FLOAT;
    Rules rules{};
    int64_t count = 0, differing = 0, beyond = 0;  // beyond: farther than rounding explains
    double worst_ulps = 0, mean_ulps = 0;
    double bias_ulps = 0;                                      // mean, away from zero positive: truncation is negative
    double within_cann = 1;                                    // share within rule (a)
    double mean_relative = 0, worst_relative = 0;              // rule (b), of all elements
    double mean_relative_large = 0, worst_relative_large = 0;  // ... outside the small-value domain
    bool rule_a = true, rule_b = true, rule_b_large = true;
    int64_t small = 0, small_bad = 0;
    int64_t nan_got = 0, nan_want = 0, nan_extra = 0, nan_missing = 0, inf_extra = 0, inf_missing = 0;
    double relative_l2 = 0;              // ‖got − want‖ / ‖want‖
    double correlation = 1;              // of got and want
    std::vector<Element> worst;          // the worst first
    std::vector<int64_t> histogram;      // of |ulps|: 0, (0,1/2], (1/2,1], (1,2], (2,4] ...
    std::optional<int64_t> outside_own;  // elements outside the tolerance that the caller gave
    double own_rtol = 0, own_atol = 0;

    bool misplaced() const { return nan_extra + nan_missing + inf_extra + inf_missing > 0; }
    nlohmann::json json(const Shape& shape) const;
};

struct JudgeOptions {
    size_t top = 10;                   // worst elements to keep
    std::optional<double> rtol, atol;  // a tolerance of one's own, for every element: decides between pass and fail
};

// promise: elementwise, summed or exact, as the catalogue has it; unknown: summed. Same shapes. `want` may be of a
// wider dtype than `got`; errors are in ulps of got's.
Judgement judge(const Tensor& got, const Tensor& want, const std::string& promise, const JudgeOptions& options = {});

}  // namespace gradus::cli
