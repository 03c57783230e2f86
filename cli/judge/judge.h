// How far a result is from its reference, in units of what its magnitude allows, and what kind of mistake would look
// like that. docs/diff.md has the rules.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "cli/judge/values.h"

namespace gradus::cli {

enum class Verdict {
    equal,      // bit by bit, but for the payload of NaN and the sign of zero
    kept,       // the promise of this library: f32 sums, one rounding at the end, and the roundings it states
    rounded,    // what rounding on the way leaves: factors in the 16-bit type, f32 sums in any order
    imprecise,  // more than that, everywhere and in no pattern, and as much as sums carried in 16 bits leave
    wrong       // no rounding does that
};
const char* verdict_name(Verdict verdict);
inline bool passes(Verdict verdict) { return verdict <= Verdict::rounded; }

// CANN's public rules for a dtype, printed beside the verdict.
struct Rules {
    double rtol, atol;  // (a) |got − want| ≤ atol + rtol·|want| for 99 % of the elements
    double relative;    // (b) T: mean of |got − want| / (|want| + 1e-7) below it, the largest below 10·T
};
Rules rules_of(aclDataType dtype);

// What an output promises.
struct Allowance {
    bool exact = false;
    double terms = 4096;             // of its sums, multiplied out
    int roundings = 0;               // on the way, in half units of the 16-bit type
    aclDataType kernel = ACL_FLOAT;  // what a kernel for these inputs would round factors to
};

// One result and what it is judged by. Same shapes. `want` may be of a wider dtype than `got`.
struct Subject {
    Shape shape;
    Values got, want;
    Values magnitude;  // Σ|terms| of each element; not given: the largest |want| of the row is taken for it
    Allowance allowance;
    std::vector<std::string> dims = {};  // their names, if they have some
};

// Other answers to the same question, computed when they are needed.
struct Answers {
    // As golden's loops give it in narrow arithmetic: f32, bf16, f16, and these with _products, _sums or
    // _truncated.
    std::function<Values(const std::string& precision)> simulated;
    // Of a sum: the terms that are left out, or counted twice. Of a mistake that has one: its number.
    struct Part {
        int64_t begin = 0, end = 0;
        bool twice = false;
        int64_t step = 1;
        double amount = 0;
    };
    struct Mistake {
        std::string name;               // of a sum "without a part of X"; of one with a number "with # added to X"
        int64_t terms = 0;              // of a sum that has parts
        std::optional<double> neutral;  // the number that would change nothing
        std::string words(const Part& part, int digits) const;  // of its number
    };
    std::vector<Mistake> mistakes;
    // How many of them may be computed, and how many of these to look for a block of a sum: so many as the size of the
    // problem allows, and never what the clock does, for no verdict may depend on it.
    int64_t most = 1 << 20, most_blocks = 1 << 20;
    // None: it would change nothing, or the operator does not take the arguments.
    std::function<std::optional<Values>(const Mistake& mistake, const Part& part)> mistaken;
};

struct Element {
    int64_t index;
    double got, want, ulps;
    double times;  // the error over what is kept: the order of Judgement::worst
};

// What explains errors: how many of all of them, and the sentence.
struct Cause {
    double share;
    std::string sentence;
};

struct Judgement {
    Verdict verdict = Verdict::equal;
    std::string reason;         // one sentence: what it looks like, and where
    std::vector<Cause> causes;  // the sentence's parts, the largest share first
    std::string assumed;        // what was taken for granted; empty: nothing
    aclDataType dtype = ACL_FLOAT;
    Rules rules{};
    int64_t count = 0, differing = 0;
    int64_t beyond_kept = 0, beyond_rounded = 0,
            beyond_any = 0;                                   // farther off than each class has it, element by element
    double kept_share = 0, rounded_share = 0, any_share = 0;  // of the magnitude, beside half a unit
    double worst_share = 0;                                   // the largest error, of its magnitude
    double noise = 0, rounding_noise = 0;  // typical error, of the magnitude; what rounding on the way leaves
    std::string noise_of;                  // ... in which arithmetic
    double worst_ulps = 0, mean_ulps = 0;
    double bias_ulps = 0;    // mean, away from zero positive: truncation is negative
    double within_cann = 1;  // share within rule (a)
    double mean_relative = 0, worst_relative = 0;
    bool rule_a = true, rule_b = true;
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

Judgement judge(const Subject& subject, const JudgeOptions& options = {}, const Answers* answers = nullptr);

}  // namespace gradus::cli
