#include "fuzz/call_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/base/text.h"
#include "cli/tensor/tensor.h"

namespace gradus::fuzz {
namespace {

using cli::Operator;
using cli::Shape;
using Words = std::vector<std::string>;

constexpr int64_t kElements = 4000;  // about so many of the largest tensor: cases are to be many, not large

// Sizes that together stay within the bound.
class Budget {
  public:
    explicit Budget(int64_t elements) : left_(elements) {}
    int64_t size(Input& in, int64_t most) {
        const int64_t n = in.size(std::clamp<int64_t>(left_, 1, most));
        left_ /= n;
        return n;
    }

  private:
    int64_t left_;
};

std::string list(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

// Halves along any dim.
Words swi_glu(const Operator& /*op*/, Input& in, bool limits) {
    Shape shape(static_cast<size_t>(in.between(1, 4)));
    const int64_t dim = in.between(0, static_cast<int64_t>(shape.size()) - 1);
    Budget budget(kElements / 2);
    for (int64_t& n : shape) n = budget.size(in, 40);
    shape[static_cast<size_t>(dim)] = 2 * in.size(130);
    if (!limits && in.one_in(16)) shape[in.below(shape.size())] = 0;
    return {"x=" + list(shape), fmt::format("dim={}", in.one_in(2) ? dim : dim - static_cast<int64_t>(shape.size()))};
}

Words scaled_masked_softmax(const Operator& /*op*/, Input& in, bool limits) {
    Budget budget(kElements);
    const int64_t n = in.one_in(24) ? 4096 : budget.size(in, 1100), s = budget.size(in, 20);
    const int64_t b = budget.size(in, 4), h = !limits && in.one_in(16) ? 0 : budget.size(in, 4);
    const Shape mask = {in.one_in(2) ? 1 : b, in.one_in(2) ? 1 : h, s, n};
    return {fmt::format("B={}", b),
            fmt::format("H={}", h),
            fmt::format("S={}", s),
            fmt::format("N={}", n),
            "mask=" + in.pick<std::string>({"", "zeros", "ones"}) + list(mask),
            fmt::format("scale={}", in.pick({1.0, 0.125, -1.5, 0.0, 3.0}))};
}

Words exp_segsum(const Operator& op, Input& in, bool /*limits*/) {
    const bool forward = op.find("self") != nullptr;
    Shape shape(static_cast<size_t>(in.between(2, 3)));
    const int64_t t = in.one_in(16) ? in.between(120, 260) : in.size(70);
    Budget budget(4 * kElements / (t * t) + 1);
    for (int64_t& n : shape) n = budget.size(in, 6);
    shape.push_back(t);
    if (!forward) shape.push_back(t);
    return {(forward ? "self=" : "gradOutput=") + list(shape)};
}

Words fused_linear_cross_entropy(const Operator& op, Input& in, bool limits) {
    const int64_t bt = !limits && in.one_in(16) ? 0 : in.size(100), h = in.size(130);
    const bool grad = op.find("grad") != nullptr, stats = op.find("target") != nullptr;
    const int64_t v = grad && limits ? in.between(128, 200) : in.one_in(3) ? in.between(1, 200) : in.size(130);
    Words words = {fmt::format("BT={}", bt), fmt::format("V={}", v)};
    if (grad || stats) words.push_back(fmt::format("H={}", h));
    if (stats) {
        const int64_t start = in.one_in(2) ? 0 : in.between(0, 64);
        words.push_back(fmt::format("vocabStartIndex={}", start));
        words.push_back(fmt::format("vocabEndIndex={}", start + v));
        words.push_back(
            fmt::format("target=index:{},high={}", in.one_in(2) ? "int64" : "int32", start + v + v / 4 + 1));
        if (in.one_in(2)) words.emplace_back("vocabParallelLogitsOutOptional=auto");
    } else if (!grad && in.one_in(3)) {
        words.insert(words.end(), {"vocabParallelLogitsOptional=none", "softMaxOutOptional=none"});
    } else if (grad && in.one_in(4)) {
        words.emplace_back("softmaxOptional=uniform,low=0,high=0.015625");
    }
    return words;
}

Words nsa_selected_attention(const Operator& /*op*/, Input& in, bool limits) {
    const int64_t t1 = in.between(1, 7), n2 = in.between(1, 2), group = in.one_in(8) ? 17 : in.between(1, 5);
    const int64_t size = in.one_in(8) ? 64 : 16 * in.between(1, 2), blocks = in.between(1, 3);
    const int64_t batches = t1 > 1 && in.one_in(2) ? 2 : 1;
    const int64_t length = size * (blocks + in.between(0, 2));
    const int64_t depth = limits ? in.pick<int64_t>({128, 192}) : in.size(64);
    const int64_t value_depth = limits ? 128 : in.between(1, depth);
    Words words = {fmt::format("T1={}", t1),
                   fmt::format("T2={}", batches * length),
                   fmt::format("N1={}", n2 * group),
                   fmt::format("N2={}", n2),
                   fmt::format("D={}", depth),
                   fmt::format("Dv={}", value_depth),
                   fmt::format("selectedBlockSize={}", size),
                   fmt::format("selectedBlockCount={}", blocks),
                   fmt::format("sparseMode={}", in.pick({0, 2}))};
    if (batches == 2) {
        words.push_back(fmt::format("actualSeqQLenOptional=[{},{}]", in.between(1, t1 - 1), t1));
        words.push_back(fmt::format("actualSeqKvLenOptional=[{},{}]", length, 2 * length));
    }
    if (in.one_in(4)) words.emplace_back("attenMaskOptional=none");
    return words;
}

constexpr struct {
    const char* family;
    Words (*words)(const Operator& op, Input& in, bool limits);
} kRecipes[] = {{"swi_glu", swi_glu},
                {"scaled_masked_softmax", scaled_masked_softmax},
                {"exp_segsum", exp_segsum},
                {"fused_linear_cross_entropy", fused_linear_cross_entropy},
                {"nsa_selected_attention", nsa_selected_attention}};

// The float dtypes that the first argument with a choice of them has.
std::vector<aclDataType> float_dtypes(const Operator& op) {
    for (const cli::Argument& argument : op.arguments)
        if (argument.dtypes.size() > 1 && cli::is_float(argument.dtypes.front())) return argument.dtypes;
    return {};
}

}  // namespace

std::vector<std::string> random_words(const Operator& op, Input& in, bool limits) {
    const auto* const recipe =
        std::ranges::find_if(kRecipes, [&](const auto& known) { return op.family == known.family; });
    Words words = recipe != std::end(kRecipes) ? recipe->words(op, in, limits) : cli::split(in.pick(op.sweep), ' ');
    if (const auto dtypes = float_dtypes(op); !dtypes.empty())
        words.push_back(std::string("dtype=") + cli::dtype_name(in.pick(dtypes)));
    words.push_back(fmt::format("seed={}", in.below(1000)));
    return words;
}

}  // namespace gradus::fuzz
