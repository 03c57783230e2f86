// Attention over selected blocks and its gradient in golden with f64, and their magnitudes.
#include <gtest/gtest.h>

#include "ops/nsa_selected_attention/test_problem.h"
#include "testing/golden.h"

namespace gradus::testing {
namespace {

Sizes small(aclDataType type, int64_t mode = 2) {
    Sizes s;
    s.type = type, s.mode = mode, s.query_lengths = {9, 5}, s.key_lengths = {40, 33};
    s.key_heads = 2, s.group = 3, s.depth = 20, s.value_depth = 12, s.count = 3;
    return s;
}

// Statistics and output in f64, as golden's forward hands them over.
Problem in_double(const Sizes& sizes, Random& random) {
    Problem p(sizes, random);
    p.take(run_as("golden", widened(p.forward())));
    return p;
}

TEST(NsaSelectedAttention, GoldenRules) {
    const Option off("limits", "off");
    Random random("golden rules");
    for (const aclDataType type : {ACL_FLOAT16, ACL_BF16})
        for (const bool with_out : {true, false}) {
            Sizes s = small(type);
            s.with_out = with_out;
            Problem p(s, random);
            const auto keys = static_cast<double>(s.count * s.size), d = static_cast<double>(s.depth),
                       dv = static_cast<double>(s.value_depth),
                       rows = static_cast<double>(s.rows() * s.group * s.count);
            expect_golden_rules([&] { return p.forward(); }, {{"softmaxMaxOut", {d}},
                                                              {"softmaxSumOut", {d * keys}},
                                                              {"attentionOut", {d * keys, 1}}});  // P in 16 bits
            p.take(p.forward().run());
            expect_golden_rules([&] { return p.grad(); }, {{"dqOut", {keys * keys * d * dv, 1}},  // dS and P in 16 bits
                                                           {"dkOut", {rows * keys * d * dv, 1}},
                                                           {"dvOut", {rows * d, 1}}});
        }
}

TEST(NsaSelectedAttention, GoldenInDouble) {
    const Option off("limits", "off");
    Random random("double");
    for (const int64_t mode : {0, 2})
        for (const bool with_out : {true, false}) {
            Sizes s = small(ACL_DOUBLE, mode);
            s.with_out = with_out;
            Problem p(s, random);
            const Call forward = widened(p.forward());
            const Call::Results got = run_as("golden", forward), m = run_as("magnitude", forward);
            const Answer answer(p);
            for (int64_t row = 0; row < s.rows(); ++row)
                for (int64_t head = 0; head < s.heads(); ++head) {
                    const int64_t at = row * s.heads() + head, kh = head / s.group;
                    const Ints keys = p.keys_of(row, kh, mode == 2);
                    double max = keys.empty() ? 0 : -HUGE_VAL, sum = 0;
                    for (const int64_t key : keys) max = std::max(max, answer.score(at, key * s.key_heads + kh).value);
                    Doubles out(static_cast<size_t>(s.value_depth));
                    for (const int64_t key : keys) {
                        const double e = std::exp(answer.score(at, key * s.key_heads + kh).value - max);
                        sum += e;
                        for (int64_t c = 0; c < s.value_depth; ++c)
                            out[static_cast<size_t>(c)] += e * p.value.at((key * s.key_heads + kh) * s.value_depth + c);
                    }
                    for (int64_t copy = at * 8; copy < at * 8 + 8; ++copy) {
                        EXPECT_NEAR(got.at("softmaxMaxOut").at(copy), max, 1e-14 * m.at("softmaxMaxOut").at(copy));
                        EXPECT_NEAR(got.at("softmaxSumOut").at(copy), sum, 1e-14 * m.at("softmaxSumOut").at(copy));
                    }
                    for (int64_t c = 0; c < s.value_depth; ++c) {
                        const int64_t i = at * s.value_depth + c;
                        EXPECT_NEAR(got.at("attentionOut").at(i), sum == 0 ? 0 : out[static_cast<size_t>(c)] / sum,
                                    1e-14 * m.at("attentionOut").at(i));
                    }
                }
            p.take(got);
            const Answer::Gradients want = Answer(p).gradients();
            const Call::Results grads = run_as("golden", widened(p.grad())),
                                ms = run_as("magnitude", widened(p.grad()));
            EXPECT_EQ(judge_f64(grads.at("dqOut"), want.dq.want, ms.at("dqOut"), 200), "");
            EXPECT_EQ(judge_f64(grads.at("dkOut"), want.dk.want, ms.at("dkOut"), 200), "");
            EXPECT_EQ(judge_f64(grads.at("dvOut"), want.dv.want, ms.at("dvOut"), 200), "");
        }
}

// One row and head: M(S), M(P) and what follows from them.
struct Magnitudes {
    Doubles dq, dk, dv, max, sum, out;

    explicit Magnitudes(const Problem& p)
        : dq(static_cast<size_t>(p.query.size())),
          dk(static_cast<size_t>(p.key.size())),
          dv(static_cast<size_t>(p.value.size())),
          out(static_cast<size_t>(p.out.size())) {
        const Answer answer(p);
        const Sizes& s = p.s;
        const auto absolute = [](const Array& a, int64_t i, const Array& b, int64_t j, int64_t n) {
            double all = 0;
            for (int64_t d = 0; d < n; ++d) all += std::fabs(a.at(i * n + d) * b.at(j * n + d));
            return all;
        };
        for (int64_t row = 0; row < s.rows(); ++row)
            for (int64_t head = 0; head < s.heads(); ++head) {
                const int64_t at = row * s.heads() + head, kh = head / s.group;
                const Ints keys = p.keys_of(row, kh, s.mode == 2);
                Doubles score, of_score, of_p, of_dp;
                size_t top = 0;
                for (size_t i = 0; i < keys.size(); ++i) {
                    const int64_t key = keys[i] * s.key_heads + kh;
                    score.push_back(answer.score(at, key).value);
                    of_score.push_back(p.scale * absolute(p.query, at, p.key, key, s.depth));
                    if (score[i] > score[top]) top = i;
                }
                double total = 0, common = 0, of_delta = 0;
                const double of_max = keys.empty() ? 0 : of_score[top];
                for (size_t i = 0; i < keys.size(); ++i) {
                    const double e = std::exp(score[i] - score[top]);
                    total += e, common += e * (of_score[i] + of_max);
                }
                for (int c = 0; c < 8; ++c) max.push_back(of_max), sum.push_back(total + common);
                for (size_t i = 0; i < keys.size(); ++i) {
                    const int64_t key = keys[i] * s.key_heads + kh;
                    const double prob = std::exp(score[i] - score[top]) / total;
                    for (int64_t c = 0; c < s.value_depth; ++c)
                        out[static_cast<size_t>(at * s.value_depth + c)] +=
                            prob * (1 + of_score[i] + of_max + common / total) *
                            std::fabs(p.value.at(key * s.value_depth + c));
                    of_p.push_back(prob * (1 + of_score[i] + std::fabs(score[top])));  // max and sum as given
                    of_dp.push_back(absolute(p.out_grad, at, p.value, key, s.value_depth));
                    of_delta += of_p[i] * of_dp[i];
                }
                if (s.with_out) of_delta = absolute(p.out_grad, at, p.out, at, s.value_depth);
                for (size_t i = 0; i < keys.size(); ++i) {
                    const int64_t key = keys[i] * s.key_heads + kh;
                    const double of_ds = p.scale * of_p[i] * (of_dp[i] + of_delta);
                    for (int64_t c = 0; c < s.depth; ++c) {
                        dq[static_cast<size_t>(at * s.depth + c)] += of_ds * std::fabs(p.key.at(key * s.depth + c));
                        dk[static_cast<size_t>(key * s.depth + c)] += of_ds * std::fabs(p.query.at(at * s.depth + c));
                    }
                    for (int64_t c = 0; c < s.value_depth; ++c)
                        dv[static_cast<size_t>(key * s.value_depth + c)] +=
                            of_p[i] * std::fabs(p.out_grad.at(at * s.value_depth + c));
                }
            }
    }
};

TEST(NsaSelectedAttention, Magnitude) {
    const Option off("limits", "off");
    Random random("magnitude");
    for (const bool with_out : {true, false}) {
        Sizes s = small(ACL_DOUBLE);
        s.with_out = with_out;
        const Problem p = in_double(s, random);
        const Magnitudes want(p);
        const Call::Results forward = run_as("magnitude", widened(p.forward())),
                            grad = run_as("magnitude", widened(p.grad()));
        EXPECT_EQ(judge_magnitude(forward.at("softmaxMaxOut"), want.max, 1000), "");
        EXPECT_EQ(judge_magnitude(forward.at("softmaxSumOut"), want.sum, 1000), "");
        EXPECT_EQ(judge_magnitude(forward.at("attentionOut"), want.out, 1000), "");
        EXPECT_EQ(judge_magnitude(grad.at("dqOut"), want.dq, 1000), "");
        EXPECT_EQ(judge_magnitude(grad.at("dkOut"), want.dk, 1000), "");
        EXPECT_EQ(judge_magnitude(grad.at("dvOut"), want.dv, 1000), "");
    }
}

TEST(NsaSelectedAttention, DifferencesInDouble) {
    const Option off("limits", "off");
    Random random("differences in double");
    for (const bool with_out : {true, false}) {
        Sizes s = small(ACL_DOUBLE);
        s.query_lengths = {20}, s.key_lengths = {40}, s.depth = 5, s.value_depth = 3, s.with_out = with_out;
        const Problem p = in_double(s, random);
        const Call::Results got = run_as("golden", widened(p.grad()));
        const auto compare = [&](Array Problem::*which, const Array& gradient) {
            expect_derivative(p.*which, gradient, gradient.size() / 12, [&, moved = p](const Array& at) mutable {
                moved.*which = at;
                return weighted(moved.forward(), "attentionOut", p.out_grad);
            });
        };
        compare(&Problem::query, got.at("dqOut"));
        compare(&Problem::key, got.at("dkOut"));
        compare(&Problem::value, got.at("dvOut"));
    }
}

// More rows than golden keeps scores of at a time.
TEST(NsaSelectedAttentionGrad, GoldenInStages) {
    const Option off("limits", "off");
    Random random("stages");
    Sizes s;
    s.type = ACL_BF16, s.query_lengths = {700}, s.key_lengths = {512}, s.key_heads = 1, s.group = 2;
    s.depth = 4, s.value_depth = 4, s.size = 128, s.count = 4;
    Problem p(s, random);
    p.take(run_as("golden", p.forward()));
    const Call::Results got = run_as("golden", with_wide_results(p.grad())),
                        m = run_as("magnitude", with_wide_results(p.grad()));
    const Answer::Gradients want = Answer(p).gradients();
    EXPECT_EQ(judge_f64(got.at("dqOut"), want.dq.want, m.at("dqOut"), 1000), "");
    EXPECT_EQ(judge_f64(got.at("dkOut"), want.dk.want, m.at("dkOut"), 1000), "");
    EXPECT_EQ(judge_f64(got.at("dvOut"), want.dv.want, m.at("dvOut"), 1000), "");
}

TEST(NsaSelectedAttention, EmptyInDouble) {
    const Option off("limits", "off");
    Random random("empty in double");
    Sizes s = small(ACL_DOUBLE);
    s.query_lengths = {0}, s.key_lengths = {33};
    const Problem p(s, random);
    for (const char* precision : {"golden", "magnitude"}) {
        EXPECT_EQ(run_as(precision, widened(p.forward())).size(), 3u);
        for (const auto& [name, array] : run_as(precision, widened(p.grad())))
            for (int64_t i = 0; i < array.size(); ++i) EXPECT_EQ(array.at(i), 0) << name;
    }
}

}  // namespace
}  // namespace gradus::testing
