#include "cli/diff/question.h"

#include <fmt/format.h>

#include <cmath>

#include "cli/base/failure.h"
#include "cli/base/text.h"
#include "cli/call/launch.h"

namespace gradus::cli {
namespace {

// Operations of the formula that golden may do for the mistakes of an output, and for blocks of its sums: seconds.
constexpr double kMistakes = 4e9, kBlocks = 1e9;
constexpr int64_t kLeastMistakes = 8;  // however large the problem is
constexpr int64_t kKept = 1 << 25;     // elements of answers, of which there may be hundreds

Tensor as_double(const Tensor& tensor) {
    Tensor wide(ACL_DOUBLE, tensor.shape());
    Values(tensor).load(0, {reinterpret_cast<double*>(wide.data()), static_cast<size_t>(tensor.count())});
    return wide;
}

// Sizes, and numbers among the attributes.
Sizes sizes_of(const Call& call) {
    Sizes sizes = call.sizes;
    for (const auto& [name, value] : call.attributes)
        if (value.is_number_integer()) sizes[name] = value.get<int64_t>();
    return sizes;
}

// Of one answer. An expression may name optional tensors that are not there: then its elements.
double operations_of(const Call& call) {
    double elements = 1;
    for (const auto& [name, tensor] : call.tensors) elements += static_cast<double>(tensor.count());
    try {
        return std::max(elements, evaluate(call.op->limit.at("flops"), sizes_of(call), call.tensors));
    } catch (const Failure&) {
        return elements;
    }
}

// The dtype that a kernel for this call computes in.
aclDataType kernel_of(const Call& call) {
    for (const Argument& argument : call.op->arguments)
        if (const auto found = call.tensors.find(argument.name);
            found != call.tensors.end() && argument.direction == Argument::input &&
            (found->second.dtype() == ACL_FLOAT16 || found->second.dtype() == ACL_BF16))
            return found->second.dtype();
    return ACL_FLOAT;
}

}  // namespace

Call widened(const Call& call, bool inputs) {
    Call wide = with_new_outputs(call);
    for (const Argument& argument : call.op->arguments) {
        const auto found = wide.tensors.find(argument.name);
        if (found == wide.tensors.end() || !is_float(found->second.dtype())) continue;
        if (argument.direction == Argument::output)
            found->second = Tensor(ACL_DOUBLE, found->second.shape());
        else if (inputs)
            found->second = as_double(found->second);
    }
    return wide;
}

Question::Question(Call call) : call_(std::move(call)) {
    answer_ = run(widened(call_, false), "golden", "none", "golden");
    magnitude_ = run(widened(call_, false), "magnitude", "none", "magnitude");
}

Question::Outputs Question::run(const Call& call, const char* precision, const std::string& mistake,
                                const std::string& doing) const {
    const ScopedOption how("precision", precision), wrong("mistake", mistake);
    run_watched(call, doing);
    Outputs outputs;
    for (const Argument& argument : call.op->arguments)
        if (const auto found = call.tensors.find(argument.name);
            argument.direction == Argument::output && found != call.tensors.end())
            outputs.emplace(argument.name, found->second);
    return outputs;
}

Subject Question::subject(const std::string& output, const Values& got) const {
    const Argument& argument = *call_.op->find(output);
    const Tensor& want = answer_.at(output);
    Subject subject{want.shape(), got, want, {}, {}, {}};
    subject.allowance.exact = argument.promise == "exact";
    if (!subject.allowance.exact) subject.magnitude = magnitude_.at(output);
    subject.allowance.terms = subject.allowance.exact ? 1 : evaluate(argument.terms, sizes_of(call_));
    subject.allowance.roundings = argument.roundings;
    subject.allowance.kernel = kernel_of(call_);
    const std::vector<std::string> dims = split(argument.shape, ',');
    if (dims.size() == want.shape().size()) subject.dims = dims;
    return subject;
}

Tensor Question::answer_as(const std::string& output, const char* precision) const {
    return run(with_new_outputs(call_), precision, "none", precision).at(output);
}

// In f64: of 16 bits, 1.01 times a number would be that number.
std::optional<Call> Question::changed_by(std::string arguments, double amount) const {
    const std::string number = fmt::format("{:.17g}", amount);
    for (size_t mark = arguments.find('#'); mark != std::string::npos; mark = arguments.find('#'))
        arguments.replace(mark, 1, number);
    return changed(widened(call_, true), arguments);
}

std::optional<Question::Outputs> Question::mistaken(const FormulaMistake& mistake, const std::string& name,
                                                    double amount) {
    if (const auto known = others_.find(name); known != others_.end()) return known->second;
    std::optional<Outputs> outputs;
    try {
        if (mistake.arguments.empty())
            outputs = run(widened(call_, false), "golden", name, "golden " + name);
        else if (const std::optional<Call> other =
                     mistake.neutral ? changed_by(mistake.arguments, amount) : changed(call_, mistake.arguments))
            outputs = run(widened(*other, false), "golden", "none", "golden " + name);
    } catch (const Failure&) {  // the operator does not take such arguments: then it is not this mistake
    }
    if (outputs)
        for (const auto& [output, tensor] : *outputs) kept_ += tensor.count();
    if ((mistake.terms.empty() && !mistake.neutral) || kept_ <= kKept) others_.emplace(name, outputs);
    return outputs;
}

Answers Question::answers(const std::string& output) {
    Answers answers;
    answers.simulated = [this, output](const std::string& precision) -> Values {
        auto& known = others_[precision];
        if (!known) known = run(widened(call_, true), precision.c_str(), "none", "golden in " + precision);
        return known->at(output);
    };
    const Sizes sizes = sizes_of(call_);
    for (const FormulaMistake& mistake : call_.op->mistakes) {
        const double terms = mistake.terms.empty() ? 0 : evaluate(mistake.terms, sizes);
        answers.mistakes.push_back({mistake.name, static_cast<int64_t>(terms), mistake.neutral});
    }
    answers.most = std::max(kLeastMistakes, static_cast<int64_t>(kMistakes / operations_of(call_)));
    answers.most_blocks = static_cast<int64_t>(kBlocks / operations_of(call_));
    answers.mistaken = [this, output](const Answers::Mistake& wanted,
                                      const Answers::Part& part) -> std::optional<Values> {
        for (const FormulaMistake& mistake : call_.op->mistakes) {
            if (mistake.name != wanted.name) continue;
            std::string name = wanted.words(part, 17);
            if (wanted.terms > 0) name += fmt::format(" [{},{})", part.begin, part.end);
            if (part.step > 1) name += fmt::format(" by {}", part.step);
            const auto outputs = mistaken(mistake, name, part.amount);
            if (!outputs) return {};
            return Values(outputs->at(output));
        }
        return {};
    };
    return answers;
}

}  // namespace gradus::cli
