// A shard of an LM head, its answers in f64, and how far f32 sums and a g in 16 bits may be from them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "testing/battery.h"
#include "testing/judge.h"

namespace gradus::testing {

inline constexpr aclDataType kTypes[] = {ACL_FLOAT16, ACL_BF16};

using Doubles = std::vector<double>;
inline size_t at2(int64_t i, int64_t n, int64_t j) { return static_cast<size_t>(i * n + j); }
inline Array of(aclDataType type, const Shape& shape, const Doubles& values) {
    Array array(type, shape);
    for (int64_t i = 0; i < array.size(); ++i) array.set(i, values[static_cast<size_t>(i)]);
    return array;
}

// What a 16-bit rounding of g costs: relative, and absolute among the subnormals.
inline double half_relative(aclDataType type) { return type == ACL_FLOAT16 ? 0x1p-11 : 0x1p-8; }
inline double half_absolute(aclDataType type) { return type == ACL_FLOAT16 ? 0x1p-25 : 0x1p-134; }

struct Problem {
    Array input, weight, target;
    int64_t start, end, tokens, hidden, words;
    Doubles logits, logits_slack;                                        // [BT, V]
    Doubles max, max_slack, sum, sum_slack, predicted, predicted_slack;  // [BT]
    Array mask, masked_target;

    Problem(Array x, Array w, Array t, int64_t first, int64_t last)
        : input(std::move(x)),
          weight(std::move(w)),
          target(std::move(t)),
          start(first),
          end(last),
          tokens(input.shape[0]),
          hidden(input.shape[1]),
          words(weight.shape[0]),
          mask(ACL_UINT8, {(tokens + 7) / 8}),
          masked_target(target.type, {tokens}) {
        Doubles xs(static_cast<size_t>(input.size())), ws(static_cast<size_t>(weight.size()));
        for (size_t i = 0; i < xs.size(); ++i) xs[i] = input.at(static_cast<int64_t>(i));
        for (size_t i = 0; i < ws.size(); ++i) ws[i] = weight.at(static_cast<int64_t>(i));
        logits.resize(static_cast<size_t>(tokens * words)), logits_slack = logits;
        std::vector<unsigned> bits(static_cast<size_t>(mask.size()));
        for (int64_t i = 0; i < tokens; ++i) {
            double top = -HUGE_VAL, top_slack = 0;
            for (int64_t v = 0; v < words; ++v) {
                double s = 0, a = 0;
                for (int64_t h = 0; h < hidden; ++h) {
                    const double term = xs[at2(i, hidden, h)] * ws[at2(v, hidden, h)];
                    s += term, a += std::fabs(term);
                }
                logits[at2(i, words, v)] = s;
                logits_slack[at2(i, words, v)] = sum_factor(static_cast<double>(hidden)) * a;
                top_slack = std::max(top_slack, logits_slack[at2(i, words, v)]);
                if (!(s <= top)) top = s;
            }
            double total = 0, total_slack = 0;
            for (int64_t v = 0; v < words; ++v) {
                const double d = logits[at2(i, words, v)] - top, e = std::exp(d);
                total += e;
                total_slack +=
                    e * (std::expm1(logits_slack[at2(i, words, v)] + top_slack) + kU * std::fabs(d) + 2 * kU);
            }
            const auto t64 = static_cast<int64_t>(target.at(i));
            const bool here = t64 >= start && t64 < end;
            const int64_t word = here ? t64 - start : 0;
            const bool picked = here && word < words;
            max.push_back(top), max_slack.push_back(top_slack);
            sum.push_back(total);
            sum_slack.push_back(total_slack + sum_factor(static_cast<double>(words)) * total);
            predicted.push_back(picked ? logits[at2(i, words, word)] - top : 0);
            predicted_slack.push_back(picked ? logits_slack[at2(i, words, word)] + top_slack : 0);
            bits[static_cast<size_t>(i / 8)] |= static_cast<unsigned>(!here) << i % 8;
            masked_target.set(i, static_cast<double>(word));
        }
        for (size_t b = 0; b < bits.size(); ++b) mask.bytes[b] = static_cast<std::byte>(bits[b]);
    }

    bool masked(int64_t i) const {
        return (std::to_integer<int>(mask.bytes[static_cast<size_t>(i / 8)]) >> i % 8 & 1) != 0;
    }
    // The word that is subtracted at; −1: none.
    int64_t hit(int64_t i) const { return masked(i) ? -1 : static_cast<int64_t>(masked_target.at(i)); }

    Call stats(bool with_logits = false) const {
        Call call("FusedLinearOnlineMaxSum");
        call.in("input", input).in("weight", weight).in("target", target);
        call.integer("vocabStartIndex", start).integer("vocabEndIndex", end);
        for (const char* name : {"logitsMaxLocalOut", "sumExpLogitsLocalOut", "predictedLogitsLocalOut"})
            call.out(name, ACL_FLOAT, {tokens});
        call.out("targetMaskOut", ACL_UINT8, {(tokens + 7) / 8}).out("maskedTargetOut", target.type, {tokens});
        if (with_logits) call.out("vocabParallelLogitsOutOptional", input.type, {tokens, words});
        return call;
    }

    void expect(const Call::Results& got, bool with_logits = false) const {
        ASSERT_TRUE(got.count("maskedTargetOut"));
        EXPECT_EQ(judge(got.at("logitsMaxLocalOut"), max, max_slack, Promise::summed), "") << "max";
        EXPECT_EQ(judge(got.at("sumExpLogitsLocalOut"), sum, sum_slack, Promise::summed), "") << "sum";
        EXPECT_EQ(judge(got.at("predictedLogitsLocalOut"), predicted, predicted_slack, Promise::summed), "");
        EXPECT_EQ(first_difference(got.at("targetMaskOut"), mask), -1) << "mask";
        EXPECT_EQ(first_difference(got.at("maskedTargetOut"), masked_target), -1) << "masked target";
        if (with_logits)
            EXPECT_EQ(judge(got.at("vocabParallelLogitsOutOptional"), logits, logits_slack, Promise::summed), "");
    }
};

inline Call loss_call(const Array& max, const Array& sum, const Array& predicted, const Array* logits) {
    Call call("FusedCrossEntropyLossWithMaxSum");
    call.in("logitsMax", max).in("sumExpLogits", sum).in("predictedLogits", predicted).real("labelSmoothing", 0);
    if (logits != nullptr) call.in("vocabParallelLogitsOptional", *logits);
    call.out("lossOut", ACL_FLOAT, max.shape);
    if (logits != nullptr) call.out("softMaxOutOptional", ACL_FLOAT, logits->shape);
    return call;
}

// The gradient of a problem; statistics in f32 as the operators before it would hand them over.
struct Gradient {
    const Problem& p;
    Array grad, max, sum, softmax;
    bool given;
    Doubles dx, dx_slack, dw, dw_slack;

    Gradient(const Problem& problem, Array token_grad, bool with_softmax)
        : p(problem),
          grad(std::move(token_grad)),
          max(ACL_FLOAT, {p.tokens}),
          sum(ACL_FLOAT, {p.tokens}),
          softmax(ACL_FLOAT, {p.tokens, p.words}),
          given(with_softmax) {
        const aclDataType type = p.input.type;
        const double relative = half_relative(type), absolute = half_absolute(type);
        dx.resize(static_cast<size_t>(p.input.size())), dx_slack = dx;
        dw.resize(static_cast<size_t>(p.weight.size())), dw_slack = dw;
        Doubles xs(dx.size()), ws(dw.size());
        for (size_t i = 0; i < xs.size(); ++i) xs[i] = p.input.at(static_cast<int64_t>(i));
        for (size_t i = 0; i < ws.size(); ++i) ws[i] = p.weight.at(static_cast<int64_t>(i));
        const double by_words = sum_factor(static_cast<double>(p.words));
        const double by_tokens = sum_factor(static_cast<double>(p.tokens));
        for (int64_t i = 0; i < p.tokens; ++i) {
            max.set(i, p.max[static_cast<size_t>(i)]), sum.set(i, p.sum[static_cast<size_t>(i)]);
            const int64_t hit = p.hit(i);
            for (int64_t v = 0; v < p.words; ++v) {
                const size_t iv = at2(i, p.words, v);
                const double d = p.logits[iv] - max.at(i);
                double s = std::exp(d) / sum.at(i);
                softmax.set(i * p.words + v, s);
                double slack = s * (std::expm1(p.logits_slack[iv]) + kU * std::fabs(d) + 3 * kU);
                if (given) s = softmax.at(i * p.words + v), slack = 0;
                const double q = s - (v == hit ? 1 : 0), g = q * grad.at(i);
                slack = (slack + kU * std::fabs(q)) * std::fabs(grad.at(i)) + kU * std::fabs(g);
                slack += (std::fabs(g) + slack) * relative + absolute;
                for (int64_t h = 0; h < p.hidden; ++h) {
                    const size_t ih = at2(i, p.hidden, h), vh = at2(v, p.hidden, h);
                    dx[ih] += g * ws[vh], dx_slack[ih] += (slack + by_words * std::fabs(g)) * std::fabs(ws[vh]);
                    dw[vh] += g * xs[ih], dw_slack[vh] += (slack + by_tokens * std::fabs(g)) * std::fabs(xs[ih]);
                }
            }
        }
    }

    Call call() const {
        Call call("FusedLinearCrossEntropyLossGrad");
        call.in("grad", grad).in("input", p.input).in("weight", p.weight).in("targetMask", p.mask);
        call.in("maskedTarget", p.masked_target).real("labelSmoothing", 0);
        if (given)
            call.in("softmaxOptional", softmax);
        else
            call.in("logitsMaxOptional", max).in("sumExpLogitsOptional", sum);
        return call.out("inputGradOut", p.input.type, p.input.shape).out("weightGradOut", p.input.type, p.weight.shape);
    }

    void expect(const Call::Results& got) const {
        ASSERT_TRUE(got.count("inputGradOut"));
        const Array &x = got.at("inputGradOut"), &w = got.at("weightGradOut");
        EXPECT_EQ(judge(x, dx, dx_slack, Promise::summed), "") << "inputGrad";
        EXPECT_EQ(judge(w, dw, dw_slack, Promise::summed), "") << "weightGrad";
        EXPECT_EQ(judge_by_cann(x, dx, Promise::summed), "") << "inputGrad";
        EXPECT_EQ(judge_by_cann(w, dw, Promise::summed), "") << "weightGrad";
    }
    void expect() const { expect(call().run()); }
};

inline Problem random_problem(Random& random, aclDataType type, int64_t tokens, int64_t words, int64_t hidden,
                              double scale = 1) {
    const double by_root = scale / std::sqrt(std::sqrt(static_cast<double>(std::max<int64_t>(hidden, 1))));
    const int64_t start = random.between(0, 50);
    Array target(random.chance(0.5) ? ACL_INT32 : ACL_INT64, {tokens});
    for (int64_t i = 0; i < tokens; ++i)
        target.set(i,
                   static_cast<double>(random.between(std::max<int64_t>(0, start - words / 2), start + words * 3 / 2)));
    return {random.normals(type, {tokens, hidden}, by_root), random.normals(type, {words, hidden}, by_root),
            std::move(target), start, start + words};
}

}  // namespace gradus::testing
