// LinearCrossEntropyWithGrad against the formulas in f64: what its two operators promise, and what it costs that logits
// are kept in half precision.
#include <cstring>

#include "test_problem.h"

namespace gradus::testing {
namespace {

constexpr const char* kResults[] = {"logitsMaxOut", "sumExpLogitsOut", "predictedLogitsOut", "inputGradOut",
                                    "weightGradOut"};

Call both_call(const Array& grad, const Array& input, const Array& weight, const Array& target) {
    Call call("LinearCrossEntropyWithGrad");
    call.in("grad", grad).in("input", input).in("weight", weight).in("target", target);
    for (const char* name : {"logitsMaxOut", "sumExpLogitsOut", "predictedLogitsOut"})
        call.out(name, ACL_FLOAT, {input.shape[0]});
    return call.out("inputGradOut", input.type, input.shape).out("weightGradOut", input.type, weight.shape);
}

// A whole vocabulary; some targets are outside of it.
Problem whole_problem(Random& random, aclDataType type, int64_t tokens, int64_t words, int64_t hidden) {
    const double scale = 2 / std::sqrt(std::sqrt(static_cast<double>(std::max<int64_t>(hidden, 1))));
    Array target(random.chance(0.5) ? ACL_INT32 : ACL_INT64, {tokens});
    for (int64_t i = 0; i < tokens; ++i) target.set(i, static_cast<double>(random.between(-words / 8 - 1, words + 2)));
    return {random.normals(type, {tokens, hidden}, scale), random.normals(type, {words, hidden}, scale),
            std::move(target), 0, words};
}

// Beside what the operators may err, a logit by 2^-17 of the widest distance in its block (104 at most), and the
// statistics that are computed here and given there.
struct Both {
    const Problem& p;
    Gradient g;

    Both(const Problem& problem, Array grad) : p(problem), g(problem, std::move(grad), false) {
        for (int64_t i = 0; i < p.tokens; ++i) {
            double least = HUGE_VAL;
            for (int64_t v = 0; v < p.words; ++v) least = std::min(least, p.logits[at2(i, p.words, v)]);
            for (int64_t v = 0; v < p.words; ++v) {
                const auto k = static_cast<size_t>(i);
                const double d = p.max[k] - p.logits[at2(i, p.words, v)];
                const double step = std::min(p.max[k] - least, 104.0) * 0x1p-17;
                const double factor =
                    std::expm1(step + 0x1p-22 * (1 + std::fabs(p.max[k])) + p.max_slack[k] + p.sum_slack[k] / p.sum[k]);
                const double more = 1.01 * std::exp(-d) / p.sum[k] * factor * std::fabs(g.grad.at(i));
                for (int64_t h = 0; h < p.hidden; ++h) {
                    g.dx_slack[at2(i, p.hidden, h)] += more * std::fabs(p.weight.at(v * p.hidden + h));
                    g.dw_slack[at2(v, p.hidden, h)] += more * std::fabs(p.input.at(i * p.hidden + h));
                }
            }
        }
    }
    Call call() const { return both_call(g.grad, p.input, p.weight, p.target); }
    void expect(const Call::Results& got) const {
        ASSERT_TRUE(got.count("inputGradOut"));
        EXPECT_EQ(judge(got.at("logitsMaxOut"), p.max, p.max_slack, Promise::summed), "") << "max";
        EXPECT_EQ(judge(got.at("sumExpLogitsOut"), p.sum, p.sum_slack, Promise::summed), "") << "sum";
        EXPECT_EQ(judge(got.at("predictedLogitsOut"), p.predicted, p.predicted_slack, Promise::summed), "");
        EXPECT_EQ(judge(got.at("inputGradOut"), g.dx, g.dx_slack, Promise::summed), "") << "inputGrad";
        EXPECT_EQ(judge(got.at("weightGradOut"), g.dw, g.dw_slack, Promise::summed), "") << "weightGrad";
    }
};

// One block and many, panels of words, chunks of tokens, more tokens than words, than hidden units, any view.
TEST(LinearCrossEntropyWithGrad, Values) {
    Random random("both");
    for (const std::string& isa : instruction_sets())
        for (const char* precision : {"fast", "golden"})
            for (const aclDataType type : kTypes)
                for (const auto& [tokens, words, hidden] : std::vector<std::array<int64_t, 3>>{
                         {1, 1, 1}, {9, 130, 20}, {37, 700, 50}, {5, 6500, 7}, {5, 6500, 3}, {1100, 40, 9}}) {
                    const Option cap("max_isa", isa), way("precision", precision);
                    const Problem p = whole_problem(random, type, tokens, words, hidden);
                    const Both both(p, random.normals(ACL_FLOAT, {tokens}));
                    Call call = both.call();
                    if (tokens == 37)
                        for (Call::Tensor& t : call.tensors) t.layout = random.layout(t.values.shape);
                    const Option limits("limits", "off");
                    SCOPED_TRACE(isa + " " + precision + " " + type_name(type) + " " + random.repeat());
                    both.expect(call.run());
                }
}

// Words have one of seven weights, and only the first hidden unit is not 0, so that sums are seven terms.
void expect_by_kinds(int64_t tokens, int64_t words, int64_t hidden) {
    SCOPED_TRACE(std::to_string(tokens) + " tokens");
    constexpr int64_t kKinds = 7;
    Array input(ACL_BF16, {tokens, hidden}), weight(ACL_BF16, {words, hidden}), target(ACL_INT64, {tokens});
    Array grad(ACL_FLOAT, {tokens});
    for (int64_t i = 0; i < tokens; ++i) {
        input.set(i * hidden, static_cast<double>(i % 9 - 4) / 2);
        target.set(i, static_cast<double>(i * 16 % (words + 100)));  // some behind the last word
        grad.set(i, static_cast<double>(i % 5 + 1) / 4);
    }
    const auto weight_of = [](int64_t kind) { return static_cast<double>(kind - 2); };
    // other maxima in other blocks
    const auto kind_of = [&](int64_t v) { return v < words / 2 ? v % kKinds : 2 + v % 3; };
    Doubles count(kKinds);
    for (int64_t v = 0; v < words; ++v) {
        weight.set(v * hidden, weight_of(kind_of(v)));
        ++count[static_cast<size_t>(kind_of(v))];
    }
    Doubles dx(static_cast<size_t>(input.size())), dw(static_cast<size_t>(weight.size()));
    Doubles dx_slack = dx, dw_slack = dw, by_kind(kKinds), by_kind_slack(kKinds);
    for (int64_t i = 0; i < tokens; ++i) {
        const double x = input.at(i * hidden), top = std::max(x * weight_of(0), x * weight_of(kKinds - 1));
        const auto word = static_cast<int64_t>(target.at(i));
        double sum = 0, slope = 0, slack = 0;
        for (int64_t kind = 0; kind < kKinds; ++kind)
            sum += count[static_cast<size_t>(kind)] * std::exp(x * weight_of(kind) - top);
        for (int64_t kind = 0; kind < kKinds; ++kind) {
            const double w = weight_of(kind), d = top - x * w, g = grad.at(i) * std::exp(-d) / sum;
            const double error = g * (half_relative(ACL_BF16) + 12 * 0x1p-17 + 0x1p-18);  // logits are from -4 to 8
            const auto k = static_cast<size_t>(kind);
            slope += count[k] * g * w, slack += count[k] * error * std::fabs(w);
            by_kind[k] += g * x, by_kind_slack[k] += error * std::fabs(x);
        }
        if (word < words) {
            const double w = weight.at(word * hidden), one = grad.at(i) * half_relative(ACL_BF16);
            slope -= grad.at(i) * w, slack += one * std::fabs(w);
            const size_t v = at2(word, hidden, 0);
            dw[v] -= grad.at(i) * x, dw_slack[v] += one * std::fabs(x);
        }
        dx[at2(i, hidden, 0)] = slope, dx_slack[at2(i, hidden, 0)] = slack;
    }
    for (int64_t v = 0; v < words; ++v) {
        const auto kind = static_cast<size_t>(kind_of(v));
        dw[at2(v, hidden, 0)] += by_kind[kind], dw_slack[at2(v, hidden, 0)] += by_kind_slack[kind];
    }
    const Call::Results got = both_call(grad, input, weight, target).run();
    EXPECT_EQ(judge(got.at("inputGradOut"), dx, dx_slack, Promise::summed), "");
    EXPECT_EQ(judge(got.at("weightGradOut"), dw, dw_slack, Promise::summed), "");
    for (const Fault fault : {Fault::sign, Fault::one_off})
        EXPECT_NE(judge(plant(fault, ACL_BF16, weight.shape, dw), dw, dw_slack, Promise::summed), "");
}

TEST(LinearCrossEntropyWithGrad, RealVocabularies) {
    const Option limits("limits", "off");
    expect_by_kinds(2100, 33000, 1);    // the logits of the first panels alone are kept
    expect_by_kinds(1030, 3500, 1030);  // in weightGrad; panels outside, chunks inside
    expect_by_kinds(1030, 900, 1030);   // chunks outside
    expect_by_kinds(3, 700, 24000);     // panels of less than a block
}

// Steps are those of the logits' range, not of how far they are from 0; 45 words are no whole vectors.
TEST(LinearCrossEntropyWithGrad, FarFromZero) {
    const Option limits("limits", "off");
    for (const std::string& isa : instruction_sets())
        for (const aclDataType type : kTypes)
            for (const double x : {16.0, -16.0, 15.0, 14.0, 13.0, 12.5, 11.75}) {
                const Option cap("max_isa", isa);
                Array weight(type, {45, 1});
                for (int64_t v = 0; v < 45; ++v) weight.set(v, 6 + static_cast<double>(v * 7 % 11) / 64);
                const Problem p(of(type, {1, 1}, {x}), weight, of(ACL_INT32, {1}, {-1}), 0, 45);
                const Both both(p, of(ACL_FLOAT, {1}, {0.7}));
                SCOPED_TRACE(isa + " " + type_name(type) + " " + std::to_string(x));
                both.expect(both.call().run());
            }
}

TEST(LinearCrossEntropyWithGrad, SameBits) {
    const Option limits("limits", "off");
    Random random("bits");
    for (const aclDataType type : kTypes) {
        const Problem p = whole_problem(random, type, 300, 4000, 65);
        const Array grad = random.normals(ACL_FLOAT, {300});
        Call::Results want;
        for (const char* threads : {"1", "2", "7"}) {
            const Option team("num_threads", threads);
            const Call::Results got = both_call(grad, p.input, p.weight, p.target).run();
            if (want.empty()) want = got;
            for (const char* name : kResults) EXPECT_EQ(first_difference(got.at(name), want.at(name)), -1) << name;
        }
    }
}

// A word without a finite logit, whole blocks of them, and NaN, which stays with its token.
TEST(LinearCrossEntropyWithGrad, SpecialValues) {
    const Option limits("limits", "off");
    for (const std::string& isa : instruction_sets())
        for (const aclDataType type : kTypes) {
            const Option cap("max_isa", isa);
            SCOPED_TRACE(isa + " " + type_name(type));
            Array x = of(type, {3, 1}, {1, 1, 1}), w = of(type, {1500, 1}, Doubles(1500, 0.5));
            for (int64_t v = 0; v < 1000; ++v) w.set(v, v < 500 ? -HUGE_VAL : -3e4);
            x.set(1, std::nan(""));
            const Call::Results got =
                both_call(of(ACL_FLOAT, {3}, {1, 1, 1}), x, w, of(ACL_INT32, {3}, {1, 2, -1})).run();
            for (const int64_t i : {0, 2}) {
                EXPECT_EQ(got.at("logitsMaxOut").at(i), 0.5);
                EXPECT_EQ(got.at("sumExpLogitsOut").at(i), 500);
            }
            EXPECT_TRUE(std::isnan(got.at("sumExpLogitsOut").at(1)));
            EXPECT_TRUE(std::isnan(got.at("inputGradOut").at(1)));
            // 0·−inf in the product with weight, as the formula has it
            EXPECT_TRUE(std::isnan(got.at("inputGradOut").at(2)));
            x.set(1, 1);
            const Call::Results none =
                both_call(of(ACL_FLOAT, {3}, {1, 1, 1}), x, w, of(ACL_INT32, {3}, {1100, 2, -1})).run();
            for (int64_t v = 0; v < 1000; ++v) EXPECT_EQ(none.at("weightGradOut").at(v), v == 2 ? -1 : 0) << v;
            for (int64_t v = 0; v < 1000; ++v) w.set(v, -3e4);
            const Call::Results finite =
                both_call(of(ACL_FLOAT, {3}, {1, 1, 1}), x, w, of(ACL_INT32, {3}, {1100, 2, -1})).run();
            for (int64_t i = 0; i < 3; ++i) {
                const double hit = i == 2 ? 0 : i == 0 ? 0.5 : rounded(-3e4, type);
                EXPECT_NEAR(finite.at("inputGradOut").at(i), 0.5 - hit, (0.5 + std::fabs(hit)) * 0x1p-8) << i;
            }
            for (int64_t v = 0; v < 1000; ++v) EXPECT_EQ(finite.at("weightGradOut").at(v), v == 2 ? -1 : 0) << v;
        }
}

TEST(LinearCrossEntropyWithGrad, Empty) {
    const Option limits("limits", "off");
    const Array none(ACL_BF16, {0, 4});
    const Call::Results zeros =
        both_call(Array(ACL_FLOAT, {0}), none, of(ACL_BF16, {3, 4}, Doubles(12, 1)), Array(ACL_INT32, {0})).run();
    for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(zeros.at("weightGradOut").at(i), 0);
    const Call::Results flat = both_call(of(ACL_FLOAT, {2}, {1, 1}), Array(ACL_BF16, {2, 0}), Array(ACL_BF16, {3, 0}),
                                         of(ACL_INT32, {2}, {0, 1}))
                                   .run();
    EXPECT_EQ(flat.at("logitsMaxOut").at(1), 0);
    EXPECT_EQ(flat.at("sumExpLogitsOut").at(1), 3);
}

TEST(LinearCrossEntropyWithGrad, Refusals) {
    const auto good = [] {
        Random random("refused");
        const Problem p = whole_problem(random, ACL_BF16, 9, 130, 20);
        return both_call(random.normals(ACL_FLOAT, {9}), p.input, p.weight, p.target);
    };
    const auto shaped = [](const char* name, const Shape& shape) {
        return [=](Call& c) {
            c.tensor(name).values = Array(c.tensor(name).values.type, shape);
            c.tensor(name).layout = dense(shape);
        };
    };
    expect_refusals(
        good, {{"no words", shaped("weight", {0, 20}), "weight: shape [0, 20], expected at least one row"},
               {"weight of another H", shaped("weight", {130, 21}), "weight: shape [130, 21], expected [130, 20]"},
               {"grad too long", shaped("grad", {10}), "grad: shape [10], expected [9]"},
               {"target too long", shaped("target", {10}), "target: shape [10], expected [9]"},
               {"max too short", shaped("logitsMaxOut", {8}), "logitsMaxOut: shape [8], expected [9]"},
               {"sum too short", shaped("sumExpLogitsOut", {8}), "sumExpLogitsOut: shape [8], expected [9]"},
               {"predicted too short", shaped("predictedLogitsOut", {8}), "predictedLogitsOut: shape [8]"},
               {"input's gradient", shaped("inputGradOut", {9, 21}), "inputGradOut: shape [9, 21]"},
               {"weight's gradient", shaped("weightGradOut", {9, 20}), "weightGradOut: shape [9, 20]"},
               {"input's gradient of another dtype", [](Call& c) { c.tensor("inputGradOut").type = ACL_FLOAT16; },
                "inputGradOut: dtype f16, expected bf16 as input"},
               {"weight's gradient of another dtype", [](Call& c) { c.tensor("weightGradOut").type = ACL_FLOAT16; },
                "weightGradOut: dtype f16"}});
    const Option magnitude("precision", "magnitude");
    Call call = good();
    const Call::Answer answer = call.ask();
    EXPECT_EQ(answer.code, ACLNN_ERR_PARAM_INVALID);
    EXPECT_NE(answer.message.find("precision: magnitude, expected fast or golden"), std::string::npos)
        << answer.message;
    EXPECT_EQ(std::strstr(gradusCatalogue(), "LinearCrossEntropyWithGrad\""), nullptr) << "no document describes it";
}

}  // namespace
}  // namespace gradus::testing
