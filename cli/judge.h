// How far a result is from its reference, and what kind of mistake would look like that.
#pragma once

#include <nlohmann/json.hpp>

#include "cli/tensor.h"

namespace gradus::cli {

enum class Verdict {
    equal,      // bit by bit, but for the payload of NaN
    rounded,    // every element within what rounding explains
    accepted,   // within CANN's rules; more than one rounding away
    imprecise,  // outside, and it looks like arithmetic of less precision: truncation, 16-bit sums
    wrong       // outside, and it looks like a mistake: sign, row, tail, NaN
};
const char* verdict_name(Verdict verdict);
inline bool passes(Verdict verdict) { return verdict <= Verdict::accepted; }

struct Element {
    int64_t index;
    double got, want, ulps;
};

struct Judgement {
    Verdict verdict;
    std::string reason;                 // one sentence: what it looks like, and where
    int64_t count = 0, differing = 0;
    double worst_ulps = 0, mean_ulps = 0, bias_ulps = 0;
    double within_cann = 1;             // share within rule (a)
    double mean_relative = 0, worst_relative = 0;  // rule (b)
    bool rule_a = true, rule_b = true;
    int64_t small = 0, small_bad = 0;   // the small-value domain
    int64_t nan_got = 0, nan_want = 0, nan_misplaced = 0, inf_misplaced = 0;
    std::vector<Element> worst;         // the worst first
    std::vector<int64_t> histogram;     // of |ulps|: 0, (0,1/2], (1/2,1], (1,2], (2,4] ...
    nlohmann::json json(const Shape& shape) const;
};

// promise: elementwise, summed or exact, as the catalogue has it; unknown: summed.
Judgement judge(const Tensor& got, const Tensor& want, const std::string& promise);

}  // namespace gradus::cli
