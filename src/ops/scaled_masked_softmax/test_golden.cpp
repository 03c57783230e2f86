// ScaledMaskedSoftmax and its gradient in golden with f64, and their magnitudes.
#include <gtest/gtest.h>

#include "ops/scaled_masked_softmax/test_problem.h"
#include "testing/golden.h"

namespace gradus::testing {
namespace {

TEST(ScaledMaskedSoftmax, GoldenRules) {
    Random random("golden rules");
    for (const aclDataType type : kTypes) {
        const Problem p = random_problem(random, type, {2, 3, 17, 90}, {1, 3, 17, 90});
        expect_golden_rules([&] { return p.forward(); }, {{"y", {90}}});
        expect_golden_rules([&] { return p.backward(); }, {{"out", {91}}});
    }
}

TEST(ScaledMaskedSoftmax, GoldenInDouble) {
    Random random("double");
    for (const Shape& shape : std::vector<Shape>{{1, 1, 1, 1}, {2, 3, 5, 40}, {1, 1, 3, 700}}) {
        const Problem p = random_problem(random, ACL_DOUBLE, shape);
        const auto n = static_cast<double>(shape[3]);
        EXPECT_EQ(judge_f64(run_as("golden", p.forward()).at("y"), p.forward_answer.value,
                            run_as("magnitude", p.forward()).at("y"), n + 8),
                  "");
        EXPECT_EQ(judge_f64(run_as("golden", p.backward()).at("out"), p.backward_answer.value,
                            run_as("magnitude", p.backward()).at("out"), n + 8),
                  "");
    }
}

// y = e_i / Σ e: the relative error of e_i is 1 + M(z_i − max), that of the sum the mean of the others', weighted by y.
TEST(ScaledMaskedSoftmax, Magnitude) {
    Random random("magnitude");
    const int64_t n = 33, rows = 6;
    Problem p = random_problem(random, ACL_DOUBLE, {1, 1, rows, n}, {}, 3, -0.5);
    for (int64_t i = 0; i < n; ++i) p.mask.set(i, 1);  // the first row is masked, the second is not
    for (int64_t i = n; i < 2 * n; ++i) p.mask.set(i, 0);
    p = Problem(p.x, p.mask, p.g, p.scale);
    std::vector<double> y, dx;
    for (int64_t row = 0; row < rows * n; row += n) {
        const auto masked = [&](int64_t i) { return p.mask.at(row + i) != 0; };
        const auto z = [&](int64_t i) { return masked(i) ? -10000 : p.x.at(row + i) * p.scale; };
        int64_t top = 0;
        for (int64_t i = 1; i < n; ++i) top = z(i) > z(top) ? i : top;
        const auto argument = [&](int64_t i) {
            return (masked(i) ? 0 : std::fabs(z(i))) + (masked(top) ? 0 : std::fabs(z(top)));
        };
        double sum = 0, common = 0, products = 0;
        for (int64_t i = 0; i < n; ++i) {
            const double e = std::exp(z(i) - z(top));
            sum += e, common += e * argument(i), products += std::fabs(p.g.at(row + i) * p.y.at(row + i));
        }
        for (int64_t i = 0; i < n; ++i) {
            y.push_back(std::exp(z(i) - z(top)) / sum * (1 + argument(i) + common / sum));
            dx.push_back(masked(i) ? 0
                                   : std::fabs(p.scale * p.y.at(row + i)) * (std::fabs(p.g.at(row + i)) + products));
        }
    }
    EXPECT_EQ(judge_magnitude(run_as("magnitude", p.forward()).at("y"), y, 2 * n), "");
    EXPECT_EQ(judge_magnitude(run_as("magnitude", p.backward()).at("out"), dx, 2 * n), "");
    EXPECT_DOUBLE_EQ(y[0], 1.0 / n) << "all masked: nothing was rounded";
}

TEST(ScaledMaskedSoftmax, DifferencesInDouble) {
    Random random("differences in double");
    const Problem p = random_problem(random, ACL_DOUBLE, {1, 2, 3, 9}, {}, 2, 0.75);
    const Array dx = run_as("golden", p.backward()).at("out");
    expect_derivative(p.x, dx, 2, [moved = p](const Array& x) mutable {
        moved.x = x;
        return weighted(moved.forward(), "y", moved.g);
    });
}

TEST(ScaledMaskedSoftmax, EmptyInDouble) {
    const Option off("limits", "off");
    for (const Shape& shape : std::vector<Shape>{{0, 1, 2, 3}, {1, 1, 2, 0}})
        for (const char* precision : {"golden", "magnitude"}) {
            const Problem p(Array(ACL_DOUBLE, shape), Array(ACL_BOOL, shape), Array(ACL_DOUBLE, shape), 1);
            EXPECT_EQ(run_as(precision, p.forward()).size(), 1u);
            EXPECT_EQ(run_as(precision, p.backward()).size(), 1u);
        }
}

// What a mask hides and what is infinite does not spoil the magnitudes of the others.
TEST(ScaledMaskedSoftmax, MagnitudeOfSpecialValues) {
    const double inf = HUGE_VAL, nan = std::nan("");
    const Array x = filled(ACL_DOUBLE, {1, 1, 1, 4}, {nan, -inf, 2, 1}), mask = filled(ACL_BOOL, x.shape, {1, 0, 0, 0});
    const Array y = run_as("magnitude", Problem(x, mask, x, 1).forward()).at("y");
    EXPECT_EQ(y.at(0), 0);
    EXPECT_EQ(y.at(1), 0);
    const double first = 1 / (1 + std::exp(-1)), common = first * 4 + (1 - first) * 3;
    EXPECT_NEAR(y.at(2), first * (1 + 4 + common), 1e-14);
    EXPECT_NEAR(y.at(3), (1 - first) * (1 + 3 + common), 1e-14);
}

}  // namespace
}  // namespace gradus::testing
