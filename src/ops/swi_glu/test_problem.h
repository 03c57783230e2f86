// A problem of swi_glu with its answers in f64, shared by the tests of values and of the contract.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "testing/call.h"
#include "testing/judge.h"

namespace gradus::testing {

inline constexpr aclDataType kTypes[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};

inline double sigmoid(double a) { return a < 0 ? std::exp(a) / (1 + std::exp(a)) : 1 / (1 + std::exp(-a)); }

// A problem: x cut along dim into a and b, and the answers with what f32 inside may cost: 4 ulp of the largest term.
struct Problem {
    Array x, g;
    int64_t dim;
    std::vector<double> y, y_slack, dx, dx_slack;

    Problem(Array x_, Array g_, int64_t dim_) : x(std::move(x_)), g(std::move(g_)), dim(dim_) {
        const auto rank = static_cast<int64_t>(x.shape.size());
        const auto axis = static_cast<size_t>(dim < 0 ? dim + rank : dim);
        int64_t inner = 1;
        for (size_t d = axis; d < g.shape.size(); ++d) inner *= g.shape[d];
        y.resize(static_cast<size_t>(g.size())), y_slack = y;
        dx.resize(static_cast<size_t>(x.size())), dx_slack = dx;
        for (int64_t i = 0; i < g.size(); ++i) {
            const int64_t at_a = i / inner * 2 * inner + i % inner, at_b = at_a + inner;
            const double a = x.at(at_a), b = x.at(at_b), grad = g.at(i), s = sigmoid(a), t = sigmoid(-a);
            const auto k = static_cast<size_t>(i), ka = static_cast<size_t>(at_a), kb = static_cast<size_t>(at_b);
            y[k] = a * s * b;
            dx[ka] = grad * b * (s + s * t * a);
            dx[kb] = grad * a * s;
            y_slack[k] = 4 * ulp32(y[k]);
            dx_slack[ka] = 4 * ulp32(grad * b * s * std::max(1.0, std::fabs(t * a)));
            dx_slack[kb] = 4 * ulp32(dx[kb]);
        }
    }

    Call forward() const { return Call("SwiGlu").in("x", x).integer("dim", dim).out("out", x.type, g.shape); }
    Call grad() const {
        return Call("SwiGluGrad").in("yGrad", g).in("x", x).integer("dim", dim).out("out", x.type, x.shape);
    }

    void expect(const Call::Results& y_got, const Call::Results& dx_got, bool rules = true) const {
        ASSERT_TRUE(y_got.count("out") && dx_got.count("out"));
        const Array &a = y_got.at("out"), &b = dx_got.at("out");
        EXPECT_EQ(judge(a, y, y_slack, Promise::elementwise), "") << "SwiGlu";
        EXPECT_EQ(judge(b, dx, dx_slack, Promise::elementwise), "") << "SwiGluGrad";
        if (!rules) return;
        EXPECT_EQ(judge_by_cann(a, y, Promise::elementwise), "") << "SwiGlu";
        EXPECT_EQ(judge_by_cann(b, dx, Promise::elementwise), "") << "SwiGluGrad";
    }
    void expect(bool rules = true) const { expect(forward().run(), grad().run(), rules); }
};

inline Problem random_problem(Random& random, aclDataType type, const Shape& half, int64_t dim, double scale = 2) {
    Shape full = half;
    full[static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(half.size()) : dim)] *= 2;
    Array x = random.filled(type, full, [&] { return std::clamp(random.normal(scale), -60.0, 60.0); });
    return {std::move(x), random.normals(type, half), dim};
}

}  // namespace gradus::testing
