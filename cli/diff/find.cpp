#include "cli/diff/find.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/base/failure.h"
#include "cli/diff/explain.h"
#include "cli/diff/question.h"

namespace gradus::cli {
namespace {

int rank_of(aclDataType dtype) { return dtype == ACL_DOUBLE ? 3 : dtype == ACL_FLOAT ? 2 : 1; }

void check_dtypes(const std::string& name, aclDataType got, aclDataType want) {
    if (got == want) return;
    const auto raw = [](aclDataType dtype) { return dtype == ACL_UINT16 || dtype == ACL_INT16; };
    const std::string what = fmt::format("{}: GOT is {}, WANT is {}", name, dtype_name(got), dtype_name(want));
    if (raw(got) || raw(want))
        throw Failure(kUsage, fmt::format("{}; raw 16-bit words become bf16 with FILE.npy:bf16", what));
    if (!is_float(got) || !is_float(want)) throw Failure(kUsage, what + "; both must be of one dtype");
    if (rank_of(got) > rank_of(want))
        throw Failure(kUsage, fmt::format("{}; a reference must be as fine as the result: give WANT in {} or finer, or "
                                          "round GOT to {} first",
                                          what, dtype_name(got), dtype_name(want)));
    if (rank_of(got) == rank_of(want))
        throw Failure(kUsage, what + "; give WANT in the dtype of GOT, or in f32 or f64 before its last rounding");
}

void check_shapes(const std::string& name, const Tensor& got, const Tensor& want) {
    if (got.shape() == want.shape()) return;
    Shape reversed = got.shape();
    std::reverse(reversed.begin(), reversed.end());
    std::string advice = "GOT is not a result of that problem, or a part of it";
    if (reversed == want.shape())
        advice = "GOT looks transposed: save it in the order of WANT";
    else if (got.count() == want.count())
        advice = "as many elements in another shape: reshape one of them";
    throw Failure(kUsage, fmt::format("{}: GOT has shape {}, WANT has {}; {}", name, text(got.shape()),
                                      text(want.shape()), advice));
}

void check_alike(const std::string& name, const Tensor& got, const Tensor& want) {
    check_shapes(name, got, want);
    check_dtypes(name, got.dtype(), want.dtype());
}

}  // namespace

Finding find_between(const std::string& name, const Tensor& got, const Tensor& want,
                     const std::optional<Tensor>& magnitude, const std::string& promise, const JudgeOptions& options) {
    check_alike(name, got, want);
    Subject subject{got.shape(), got, want, {}, {}, {}};
    if (magnitude) {
        check_shapes("--magnitude", got, *magnitude);
        if (!is_float(magnitude->dtype())) throw Failure(kUsage, "--magnitude: expected f32 or f64");
        subject.magnitude = *magnitude;
    }
    subject.allowance.exact = promise == "exact";
    if (promise == "elementwise") subject.allowance.terms = 2;
    if (got.dtype() == ACL_FLOAT16 || got.dtype() == ACL_BF16) subject.allowance.kernel = got.dtype();
    return {name, subject, judge(subject, options), {}, {}};
}

std::vector<Finding> find_in_results(const Call& call, const std::vector<std::pair<std::string, Tensor>>& results,
                                     const JudgeOptions& options) {
    Question question(call);
    std::vector<Finding> findings;
    for (const auto& [name, got] : results) {
        if (!question.has(name)) throw Failure(kUsage, fmt::format("{}: this call does not make it", name));
        check_alike(name, got, question.answer(name));
        const Subject subject = question.subject(name, got);
        const Answers answers = question.answers(name);
        findings.push_back({name, subject, judge(subject, options, &answers), {}, call.origins});
        explain(question, name, findings.back());
    }
    return findings;
}

}  // namespace gradus::cli
