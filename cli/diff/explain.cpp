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

Tensor through(const Tensor& tensor, aclDataType narrow) {
    return converted(converted(tensor, narrow), tensor.dtype());
}

// The same call with every floating input as `change` has it.
template <typename F>
Call changed(const Call& call, const F& change) {
    Call other = with_new_outputs(call);
    for (const Argument& argument : call.op->arguments) {
        const auto found = other.tensors.find(argument.name);
        if (argument.direction == Argument::input && found != other.tensors.end() && is_float(found->second.dtype()))
            found->second = change(found->second);
    }
    return other;
}

Tensor answer(const Call& call, const std::string& output, const char* precision) {
    const ScopedOption option("precision", precision);
    run(call);
    return call.tensors.at(output);
}

// Everything in f32, if the operator takes that: the golden answer to the same inputs before its last rounding.
std::optional<Tensor> wide_answer(const Call& call, const std::string& output) {
    Call wide = changed(call, [](const Tensor& t) { return converted(t, ACL_FLOAT); });
    for (const Argument& argument : call.op->arguments) {
        const auto found = wide.tensors.find(argument.name);
        if (found == wide.tensors.end() || !is_float(found->second.dtype())) continue;
        if (std::find(argument.dtypes.begin(), argument.dtypes.end(), ACL_FLOAT) == argument.dtypes.end()) return {};
        if (argument.direction == Argument::output) found->second = Tensor(ACL_FLOAT, found->second.shape());
    }
    return answer(wide, output, "golden");
}

class Explainer {
  public:
    Explainer(const Call& call, const std::string& output, Finding& finding)
        : call_(call), output_(output), f_(finding) {}

    void explain() {
        if (f_.judgement.differing == 0 || !is_float(f_.got.dtype())) return;
        stated_roundings();
        if (f_.judgement.verdict <= Verdict::rounded || f_.judgement.misplaced()) return;
        last_rounding();
        narrow_inputs();
        own_error();
        if (tried_.empty()) return;
        if (std::none_of(f_.explanations.begin(), f_.explanations.end(), [](const auto& e) { return e.explains; }))
            f_.explanations.push_back({false, "No rounding point explains it; tried: " + tried_ + "."});
    }

  private:
    // Whether GOT is that answer, but for f32 sums in another order.
    bool agrees(const Tensor& other) const {
        const Judgement j = judge(f_.got, other, f_.promise, {.top = 0, .rtol = {}, .atol = {}});
        return j.verdict <= Verdict::rounded && j.relative_l2 <= 0.25 * f_.judgement.relative_l2;
    }

    void test(const Tensor& other, const std::string& what) {
        if (agrees(other))
            f_.explanations.push_back({true, "Explained: GOT is the golden answer " + what + "."});
        else
            tried_ += (tried_.empty() ? "" : "; ") + what;
    }

    void stated_roundings() {
        const std::string& roundings = call_.op->roundings;
        if (roundings.empty() || call_.dtype == ACL_FLOAT) return;
        const Tensor fast = answer(with_new_outputs(call_), output_, "fast");
        if (agrees(fast))
            f_.explanations.push_back(
                {true, fmt::format("Explained: GOT agrees, but for f32 sums in another order, with the answer that has "
                                   "the rounding points of this operator ({}).",
                                   roundings)}),
                f_.judgement.verdict = std::min(f_.judgement.verdict, Verdict::accepted);
        else if (f_.judgement.verdict > Verdict::rounded)
            tried_ = fmt::format("the rounding points of this operator ({})", roundings);
    }

    void last_rounding() {
        const aclDataType dtype = f_.got.dtype();
        const std::optional<Tensor> wide = dtype == ACL_FLOAT ? f_.want : wide_answer(call_, output_);
        if (!wide) return;
        const char* name = dtype_name(dtype);
        if (dtype != ACL_FLOAT) test(converted(*wide, dtype, true), fmt::format("truncated to {}", name));
        for (const aclDataType narrow : {ACL_BF16, ACL_FLOAT16}) {
            if (narrow == dtype) continue;
            test(converted(converted(*wide, narrow), dtype),
                 fmt::format("rounded first to {}, then to {}", dtype_name(narrow), name));
            if (dtype == ACL_FLOAT)
                test(converted(converted(*wide, narrow, true), dtype),
                     fmt::format("truncated to {}", dtype_name(narrow)));
        }
    }

    void narrow_inputs() {
        for (const aclDataType narrow : {ACL_BF16, ACL_FLOAT16}) {
            if (call_.dtype != ACL_FLOAT && !(call_.dtype == ACL_FLOAT16 && narrow == ACL_BF16)) continue;
            const Call other = changed(call_, [narrow](const Tensor& t) { return through(t, narrow); });
            test(answer(other, output_, "golden"), fmt::format("of the inputs rounded to {}", dtype_name(narrow)));
        }
    }

    void own_error() {
        Judgement& j = f_.judgement;
        if (j.verdict != Verdict::imprecise) return;
        const Tensor fast = answer(with_new_outputs(call_), output_, "fast");
        const Judgement own = judge(fast, f_.want, f_.promise, {.top = 0, .rtol = {}, .atol = {}});
        if (own.relative_l2 * 4 < j.relative_l2) return;
        j.verdict = Verdict::accepted;
        f_.explanations.push_back(
            {true, fmt::format("Explained: f32 arithmetic leaves as much on these inputs, whose terms cancel (the fast "
                               "answer of this library is {:.2g} of the values off, GOT {:.2g}).",
                               own.relative_l2, j.relative_l2)});
    }

    const Call& call_;
    const std::string& output_;
    Finding& f_;
    std::string tried_;
};

}  // namespace

void explain(const Call& golden, const std::string& output, Finding& finding) {
    Explainer(golden, output, finding).explain();
}

}  // namespace gradus::cli
