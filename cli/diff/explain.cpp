#include "cli/diff/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/judge/measure.h"

namespace gradus::cli {
namespace {

// The tensor in another dtype, rounded to nearest or towards zero.
Tensor converted(const Tensor& tensor, aclDataType dtype, bool truncate = false) {
    Tensor result(dtype, tensor.shape());
    const Grid grid = grid_of(dtype);
    for (int64_t i = 0; i < tensor.count(); ++i) {
        const double x = tensor.at(i);
        result.set(i, x);
        const double nearest = result.at(i);
        if (truncate && std::abs(nearest) > std::abs(x))
            result.set(i, nearest - std::copysign(grid.ulp(std::abs(x)), x));
    }
    return result;
}

// The same call with every floating input rounded to a narrower dtype on its way.
Call with_narrow_inputs(const Call& call, aclDataType narrow) {
    Call other = with_new_outputs(call);
    for (const Argument& argument : call.op->arguments) {
        const auto found = other.tensors.find(argument.name);
        if (argument.direction == Argument::input && found != other.tensors.end() && is_float(found->second.dtype()))
            found->second = converted(converted(found->second, narrow), found->second.dtype());
    }
    return other;
}

class Explainer {
  public:
    Explainer(const Question& question, const std::string& output, Finding& finding)
        : question_(question), output_(output), f_(finding) {}

    void explain() {
        const Judgement& j = f_.judgement;
        if (j.verdict == Verdict::equal || !is_float(f_.subject.got.dtype())) return;
        stated_roundings();
        if (j.verdict <= Verdict::kept || j.misplaced()) return;
        last_rounding();
        narrow_inputs();
        if (std::none_of(f_.explanations.begin(), f_.explanations.end(), [](const auto& e) { return e.explains; }) &&
            !tried_.empty())
            f_.explanations.push_back({false, "No rounding point explains it; tried: " + tried_ + "."});
    }

  private:
    // Whether GOT is that answer, but for f32 sums in another order.
    bool agrees(const Tensor& other) const {
        Subject subject = f_.subject;
        subject.want = other;
        subject.allowance.roundings = 0;
        const Judgement j = judge(subject, {.top = 0, .rtol = {}, .atol = {}});
        return j.verdict <= Verdict::kept && j.relative_l2 <= 0.25 * f_.judgement.relative_l2;
    }

    void test(const Tensor& other, const std::string& what) {
        if (agrees(other))
            f_.explanations.push_back({true, "Explained: GOT is the golden answer " + what + "."});
        else
            tried_ += (tried_.empty() ? "" : "; ") + what;
    }

    void stated_roundings() {
        const std::string& roundings = question_.call().op->roundings;
        if (roundings.empty() || question_.call().dtype == ACL_FLOAT || question_.call().dtype == ACL_DOUBLE) return;
        if (agrees(question_.answer_as(output_, "fast")))
            f_.explanations.push_back(
                {true, fmt::format("Explained: GOT agrees, but for f32 sums in another order, with the answer that has "
                                   "the rounding points of this operator ({}).",
                                   roundings)});
        else
            tried_ = fmt::format("the rounding points of this operator ({})", roundings);
    }

    void last_rounding() {
        const aclDataType dtype = f_.subject.got.dtype();
        const Tensor& wide = question_.answer(output_);
        const char* name = dtype_name(dtype);
        if (dtype != ACL_FLOAT) test(converted(wide, dtype, true), fmt::format("truncated to {}", name));
        for (const aclDataType narrow : {ACL_BF16, ACL_FLOAT16}) {
            if (narrow == dtype) continue;
            test(converted(converted(wide, narrow), dtype),
                 fmt::format("rounded first to {}, then to {}", dtype_name(narrow), name));
            if (dtype == ACL_FLOAT)
                test(converted(converted(wide, narrow, true), dtype),
                     fmt::format("truncated to {}", dtype_name(narrow)));
        }
    }

    void narrow_inputs() {
        const Call& call = question_.call();
        for (const aclDataType narrow : {ACL_BF16, ACL_FLOAT16}) {
            if (call.dtype != ACL_FLOAT && !(call.dtype == ACL_FLOAT16 && narrow == ACL_BF16)) continue;
            const Call other = with_narrow_inputs(call, narrow);
            const ScopedOption golden("precision", "golden");
            run(other);
            test(other.tensors.at(output_), fmt::format("of the inputs rounded to {}", dtype_name(narrow)));
        }
    }

    const Question& question_;
    const std::string& output_;
    Finding& f_;
    std::string tried_;
};

}  // namespace

void explain(const Question& question, const std::string& output, Finding& finding) {
    Explainer(question, output, finding).explain();
}

}  // namespace gradus::cli
