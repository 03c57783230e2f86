// The three operators of the head in golden with f64, and their magnitudes.
#include <gtest/gtest.h>

#include "ops/fused_linear_cross_entropy/test_problem.h"
#include "testing/golden.h"

namespace gradus::testing {
namespace {

constexpr const char *kMax = "logitsMaxLocalOut", *kSum = "sumExpLogitsLocalOut",
                     *kPredicted = "predictedLogitsLocalOut", *kLogits = "vocabParallelLogitsOutOptional";

// Σ|x·w| of every logit.
Doubles logit_magnitudes(const Problem& p) {
    Doubles m(p.logits.size());
    for (int64_t i = 0; i < p.tokens; ++i)
        for (int64_t v = 0; v < p.words; ++v)
            for (int64_t h = 0; h < p.hidden; ++h)
                m[at2(i, p.words, v)] += std::fabs(p.input.at(i * p.hidden + h) * p.weight.at(v * p.hidden + h));
    return m;
}

TEST(FusedLinearCrossEntropy, GoldenRules) {
    const Option off("limits", "off");
    Random random("golden rules");
    for (const aclDataType type : {ACL_FLOAT16, ACL_BF16}) {
        const Problem p = random_problem(random, type, 21, 150, 70);
        const double h = 70, v = 150, t = 21;
        expect_golden_rules([&] { return p.stats(true); },
                            {{kMax, {h}}, {kSum, {h * v}}, {kPredicted, {2 * h}}, {kLogits, {h}}});
        for (const bool given : {false, true}) {
            const Gradient g(p, random.normals(ACL_FLOAT, {p.tokens}), given);
            expect_golden_rules([&] { return g.call(); },
                                {{"inputGradOut", {v * h, 1}}, {"weightGradOut", {t * h, 1}}});  // g in 16 bits
        }
    }
    for (const aclDataType type : {ACL_FLOAT, ACL_FLOAT16, ACL_BF16}) {
        const Problem p = random_problem(random, ACL_DOUBLE, 21, 150, 20);
        const Array logits = of(type, {p.tokens, p.words}, p.logits);
        const auto stat = [&](const Doubles& values) { return of(ACL_FLOAT, {p.tokens}, values); };
        for (const Array* given : {&logits, static_cast<const Array*>(nullptr)})
            expect_golden_rules([&] { return loss_call(stat(p.max), stat(p.sum), stat(p.predicted), given); },
                                {{"lossOut", {2}}, {"softMaxOutOptional", {2}}});
    }
}

TEST(FusedLinearCrossEntropy, GoldenInDouble) {
    const Option off("limits", "off");
    Random random("double");
    for (const auto& [tokens, words, hidden] :
         std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {7, 5, 3}, {8, 16, 9}, {19, 130, 40}, {4, 9, 0}}) {
        const Problem p = random_problem(random, ACL_DOUBLE, tokens, words, hidden);
        const double terms = static_cast<double>(hidden + words + tokens + 8);
        const Call stats = widened(p.stats(true));
        const Call::Results got = run_as("golden", stats), m = run_as("magnitude", stats);
        EXPECT_EQ(judge_f64(got.at(kMax), p.max, m.at(kMax), terms), "");
        EXPECT_EQ(judge_f64(got.at(kSum), p.sum, m.at(kSum), terms), "");
        EXPECT_EQ(judge_f64(got.at(kPredicted), p.predicted, m.at(kPredicted), terms), "");
        EXPECT_EQ(judge_f64(got.at(kLogits), p.logits, m.at(kLogits), terms), "");
        EXPECT_EQ(first_difference(got.at("targetMaskOut"), p.mask), -1);
        EXPECT_EQ(first_difference(got.at("maskedTargetOut"), p.masked_target), -1);
        for (const bool given : {false, true}) {
            const Gradient g(p, random.normals(ACL_FLOAT, {p.tokens}), given);
            const Call::Results grads = run_as("golden", widened(g.call())),
                                ms = run_as("magnitude", widened(g.call()));
            EXPECT_EQ(judge_f64(grads.at("inputGradOut"), g.dx, ms.at("inputGradOut"), terms), "");
            EXPECT_EQ(judge_f64(grads.at("weightGradOut"), g.dw, ms.at("weightGradOut"), terms), "");
        }
        const Array max = got.at(kMax), sum = got.at(kSum), predicted = got.at(kPredicted), logits = got.at(kLogits);
        const Call::Results loss = run_as("golden", widened(loss_call(max, sum, predicted, &logits)));
        for (int64_t i = 0; i < tokens; ++i) {
            EXPECT_DOUBLE_EQ(loss.at("lossOut").at(i), std::log(sum.at(i)) - predicted.at(i));
            for (int64_t j = i * words; j < (i + 1) * words; ++j)
                EXPECT_DOUBLE_EQ(loss.at("softMaxOutOptional").at(j), std::exp(logits.at(j) - max.at(i)) / sum.at(i));
        }
    }
}

TEST(FusedLinearCrossEntropy, Magnitude) {
    const Option off("limits", "off");
    Random random("magnitude");
    const Problem p = random_problem(random, ACL_DOUBLE, 13, 40, 17);
    const Doubles m = logit_magnitudes(p);
    Doubles max, sum, predicted, loss, softmax;
    for (int64_t i = 0; i < p.tokens; ++i) {
        int64_t top = 0;
        for (int64_t v = 1; v < p.words; ++v)
            top = p.logits[at2(i, p.words, v)] > p.logits[at2(i, p.words, top)] ? v : top;
        max.push_back(m[at2(i, p.words, top)]);
        double total = 0;
        for (int64_t v = 0; v < p.words; ++v) {
            const double e = std::exp(p.logits[at2(i, p.words, v)] - p.max[static_cast<size_t>(i)]);
            total += e * (1 + m[at2(i, p.words, v)] + max.back());
            softmax.push_back(e / p.sum[static_cast<size_t>(i)] *
                              (1 + std::fabs(p.logits[at2(i, p.words, v)]) + std::fabs(p.max[static_cast<size_t>(i)])));
        }
        sum.push_back(total);
        const int64_t word = p.hit(i);
        predicted.push_back(word < 0 || word >= p.words ? 0 : m[at2(i, p.words, word)] + max.back());
        loss.push_back(std::fabs(std::log(p.sum[static_cast<size_t>(i)])) +
                       std::fabs(p.predicted[static_cast<size_t>(i)]));
    }
    const Call::Results got = run_as("magnitude", widened(p.stats(true)));
    EXPECT_EQ(judge_magnitude(got.at(kMax), max, 32), "");
    EXPECT_EQ(judge_magnitude(got.at(kSum), sum, 500), "");
    EXPECT_EQ(judge_magnitude(got.at(kPredicted), predicted, 32), "");
    EXPECT_EQ(judge_magnitude(got.at(kLogits), m, 32), "");
    const auto stat = [&](const Doubles& values) { return of(ACL_DOUBLE, {p.tokens}, values); };
    const Array logits = of(ACL_DOUBLE, {p.tokens, p.words}, p.logits);
    const Call::Results of_loss =
        run_as("magnitude", widened(loss_call(stat(p.max), stat(p.sum), stat(p.predicted), &logits)));
    EXPECT_EQ(judge_magnitude(of_loss.at("lossOut"), loss, 16), "");
    EXPECT_EQ(judge_magnitude(of_loss.at("softMaxOutOptional"), softmax, 64), "");
}

TEST(FusedLinearCrossEntropyLossGrad, Magnitude) {
    const Option off("limits", "off");
    Random random("magnitude");
    const Problem p = random_problem(random, ACL_DOUBLE, 13, 40, 17);
    const Doubles m = logit_magnitudes(p);
    for (const bool given : {false, true}) {
        const Gradient g(p, random.normals(ACL_FLOAT, {p.tokens}), given);
        Doubles dx(g.dx.size()), dw(g.dw.size());
        for (int64_t i = 0; i < p.tokens; ++i)
            for (int64_t v = 0; v < p.words; ++v) {
                const size_t iv = at2(i, p.words, v);
                const double softmax = std::exp(p.logits[iv] - g.max.at(i)) / g.sum.at(i);
                const double of_p =
                    given ? g.softmax.at(i * p.words + v) : softmax * (1 + m[iv] + std::fabs(g.max.at(i)));
                const double of_g = (of_p + (v == p.hit(i) ? 1 : 0)) * std::fabs(g.grad.at(i));
                for (int64_t h = 0; h < p.hidden; ++h) {
                    dx[at2(i, p.hidden, h)] += of_g * std::fabs(p.weight.at(v * p.hidden + h));
                    dw[at2(v, p.hidden, h)] += of_g * std::fabs(p.input.at(i * p.hidden + h));
                }
            }
        const Call::Results got = run_as("magnitude", widened(g.call()));
        EXPECT_EQ(judge_magnitude(got.at("inputGradOut"), dx, 1000), "");
        EXPECT_EQ(judge_magnitude(got.at("weightGradOut"), dw, 1000), "");
    }
}

// Σ grad·(log Σ e^l − l[target]), of what the operators hand from one to the next; a token without a target here has
// its max to add, since its p comes from another shard.
TEST(FusedLinearCrossEntropy, DifferencesInDouble) {
    const Option off("limits", "off");
    Random random("differences in double");
    const Problem p = random_problem(random, ACL_DOUBLE, 5, 11, 6);
    const Array grad = random.normals(ACL_DOUBLE, {p.tokens});
    const auto total = [&](const Array& input, const Array& weight) {
        const Problem moved(input, weight, p.target, p.start, p.end);
        const Call::Results stats = run_as("golden", widened(moved.stats()));
        const Array loss =
            run_as("golden", widened(loss_call(stats.at(kMax), stats.at(kSum), stats.at(kPredicted), nullptr)))
                .at("lossOut");
        double sum = 0;
        for (int64_t i = 0; i < p.tokens; ++i)
            sum += grad.at(i) * (loss.at(i) + (p.masked(i) ? stats.at(kMax).at(i) : 0));
        return sum;
    };
    Gradient g(p, grad, false);
    const Call::Results stats = run_as("golden", widened(p.stats()));
    g.max = stats.at(kMax), g.sum = stats.at(kSum);
    const Call::Results got = run_as("golden", widened(g.call()));
    expect_derivative(p.input, got.at("inputGradOut"), 2, [&](const Array& moved) { return total(moved, p.weight); });
    expect_derivative(p.weight, got.at("weightGradOut"), 2, [&](const Array& moved) { return total(p.input, moved); });
}

TEST(FusedLinearCrossEntropy, EmptyInDouble) {
    const Option off("limits", "off");
    Random random("empty in double");
    for (const char* precision : {"golden", "magnitude"})
        for (const auto& [tokens, words, hidden] :
             std::vector<std::array<int64_t, 3>>{{0, 9, 5}, {5, 9, 0}, {9, 0, 4}}) {
            const Problem p = random_problem(random, ACL_DOUBLE, tokens, words, hidden);
            if (words > 0) EXPECT_EQ(run_as(precision, widened(p.stats(true))).size(), 6u);
            const Gradient g(p, random.normals(ACL_FLOAT, {tokens}), false);
            for (const auto& [name, array] : run_as(precision, widened(g.call())))
                for (int64_t i = 0; i < array.size(); ++i) EXPECT_EQ(array.at(i), 0) << name;
        }
}

}  // namespace
}  // namespace gradus::testing
