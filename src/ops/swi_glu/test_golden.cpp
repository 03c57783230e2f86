// SwiGlu and SwiGluGrad in golden with f64, and their magnitudes.
#include <gtest/gtest.h>

#include "ops/swi_glu/test_problem.h"
#include "testing/golden.h"

namespace gradus::testing {
namespace {

// M(e^a) = e^a·(1 + |a|), and the same error once more in the sum below it where a < 0.
double sigmoid_magnitude(double a) {
    const double s = sigmoid(a);
    return s * (1 + std::fabs(a) * (a < 0 ? 1 + s : 1 - s));
}

TEST(SwiGlu, GoldenRules) {
    Random random("golden rules");
    for (const aclDataType type : kTypes) {
        const Problem p = random_problem(random, type, {3, 41, 67}, 1);
        expect_golden_rules([&] { return p.forward(); }, {{"out", {1}}});
        expect_golden_rules([&] { return p.grad(); }, {{"out", {2}}});
    }
}

TEST(SwiGlu, GoldenInDouble) {
    const Option off("limits", "off");
    Random random("double");
    for (const auto& [half, dim] : std::vector<std::pair<Shape, int64_t>>{{{1}, 0}, {{3, 50}, 1}, {{4, 5, 600}, 0}}) {
        const Problem p = random_problem(random, ACL_DOUBLE, half, dim, 5);
        const Array y = run_as("golden", p.forward()).at("out"), dx = run_as("golden", p.grad()).at("out");
        EXPECT_EQ(judge_f64(y, p.y, run_as("magnitude", p.forward()).at("out"), 8), "");
        EXPECT_EQ(judge_f64(dx, p.dx, run_as("magnitude", p.grad()).at("out"), 8), "");
    }
}

// Rows longer than a stage, which holds half as many f64 as f32.
TEST(SwiGlu, LongViewsInDouble) {
    const Option off("limits", "off");
    Random random("long views in double");
    const Problem p = random_problem(random, ACL_DOUBLE, {3, 2500}, 1);
    const Array want = run_as("golden", p.grad()).at("out");
    Call strided = p.grad();
    for (Call::Tensor& t : strided.tensors) t.layout = stepped(t.values.shape, 2);
    EXPECT_EQ(first_difference(run_as("golden", strided).at("out"), want), -1);
}

TEST(SwiGlu, Magnitude) {
    const Option off("limits", "off");
    Random random("magnitude");
    const int64_t n = 700;
    const Problem p = random_problem(random, ACL_DOUBLE, {1, n}, 1, 8);
    std::vector<double> y, dx(static_cast<size_t>(2 * n));
    for (int64_t i = 0; i < n; ++i) {
        const double a = p.x.at(i), b = std::fabs(p.x.at(n + i)), g = std::fabs(p.g.at(i)), s = sigmoid_magnitude(a);
        y.push_back(std::fabs(a) * s * b);
        dx[static_cast<size_t>(i)] = g * b * (s + s * sigmoid_magnitude(-a) * std::fabs(a));
        dx[static_cast<size_t>(n + i)] = g * std::fabs(a) * s;
    }
    EXPECT_EQ(judge_magnitude(run_as("magnitude", p.forward()).at("out"), y, 16), "");
    EXPECT_EQ(judge_magnitude(run_as("magnitude", p.grad()).at("out"), dx, 16), "");
}

TEST(SwiGlu, DifferencesInDouble) {
    const Option off("limits", "off");
    Random random("differences in double");
    const Problem p = random_problem(random, ACL_DOUBLE, {3, 20}, 1, 3);
    const Array dx = run_as("golden", p.grad()).at("out");
    expect_derivative(p.x, dx, 3, [moved = p](const Array& x) mutable {
        moved.x = x;
        return weighted(moved.forward(), "out", moved.g);
    });
}

TEST(SwiGlu, EmptyInDouble) {
    const Option off("limits", "off");
    for (const char* precision : {"golden", "magnitude"}) {
        const Problem p(Array(ACL_DOUBLE, {0, 4}), Array(ACL_DOUBLE, {0, 2}), 1);
        EXPECT_EQ(run_as(precision, p.forward()).size(), 1u);
        EXPECT_EQ(run_as(precision, p.grad()).size(), 1u);
    }
}

}  // namespace
}  // namespace gradus::testing
