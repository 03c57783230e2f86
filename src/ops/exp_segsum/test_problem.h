// Problems of exp_segsum with their answers in f64, shared by the tests of values and of the contract.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "testing/call.h"
#include "testing/judge.h"

namespace gradus::testing {

inline constexpr aclDataType kTypes[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};
inline const double kInf = HUGE_VAL, kNan = std::nan("");

inline Shape with(Shape shape, int64_t size) {
    shape.push_back(size);
    return shape;
}

// exp of the segment sums of x: [.., T], and what f32 inside may cost.
struct Forward {
    Array x;
    Shape shape;
    std::vector<double> want, slack;

    explicit Forward(Array x_) : x(std::move(x_)), shape(with(x.shape, x.shape.back())) {
        const int64_t size = x.shape.back(), matrices = size == 0 ? 0 : x.size() / size;
        for (int64_t m = 0; m < matrices; ++m) {
            std::vector<double> sum(static_cast<size_t>(size));
            for (int64_t i = 0; i < size; ++i)
                for (int64_t j = 0; j < size; ++j) {
                    double& s = sum[static_cast<size_t>(j)];
                    if (j < i) s += x.at(m * size + i);
                    const double value = j < i ? std::exp(s) : j == i ? 1 : 0;
                    want.push_back(value);
                    slack.push_back(j < i && std::isfinite(s) ? (std::fabs(s) + 2) * kU * value + 0x1p-149 : 0);
                }
        }
    }

    Call call() const { return Call("ExpSegsum").in("self", x).out("out", x.type, shape); }
    void expect(const Call::Results& results, bool rules = true) const {
        ASSERT_TRUE(results.count("out"));
        EXPECT_EQ(judge(results.at("out"), want, slack, Promise::summed), "");
        if (rules) EXPECT_EQ(judge_by_cann(results.at("out"), want, Promise::elementwise), "");
    }
    void expect(bool rules = true) const { expect(call().run(), rules); }
};

// gradInput[k] = Σ_{i ≥ k} Σ_{j < k} g·y; nothing else of the matrices counts.
struct Backward {
    Array g, y;
    Shape shape;
    std::vector<double> want, slack;

    Backward(Array g_, Array y_) : g(std::move(g_)), y(std::move(y_)), shape(g.shape.begin(), g.shape.end() - 1) {
        const int64_t size = shape.back(), matrices = size == 0 ? 0 : g.size() / (size * size);
        want.resize(static_cast<size_t>(matrices * size)), slack = want;
        for (int64_t m = 0; m < matrices; ++m) {
            std::vector<double> column(static_cast<size_t>(size)), absolute = column;
            for (int64_t k = size - 1; k >= 0; --k) {
                double sum = 0, sum_absolute = 0;
                for (int64_t j = 0; j < k; ++j) {
                    const int64_t at = (m * size + k) * size + j;
                    const double p = g.at(at) * y.at(at);
                    sum += column[static_cast<size_t>(j)] += p;
                    sum_absolute += absolute[static_cast<size_t>(j)] += std::fabs(p);
                }
                const auto to = static_cast<size_t>(m * size + k);
                want[to] = sum;
                // a product below the normal numbers is known to 2^-149 only
                const double terms = static_cast<double>(k * (size - k));
                slack[to] = std::isfinite(sum_absolute) ? sum_factor(terms) * sum_absolute + terms * 0x1p-149 : 0;
            }
        }
    }

    Call call() const {
        return Call("ExpSegsumBackward").in("gradOutput", g).in("gradSelf", y).out("gradInput", g.type, shape);
    }
    void expect(const Call::Results& results, bool rules = true) const {
        ASSERT_TRUE(results.count("gradInput"));
        EXPECT_EQ(judge(results.at("gradInput"), want, slack, Promise::summed), "");
        if (rules) EXPECT_EQ(judge_by_cann(results.at("gradInput"), want, Promise::summed), "");
    }
    void expect(bool rules = true) const { expect(call().run(), rules); }
};

// Decays as a model has them: mostly negative, so that the matrix fades below the diagonal.
inline Forward random_forward(Random& random, aclDataType type, const Shape& shape, double scale = 0.3,
                              double shift = -0.1) {
    return Forward(random.filled(type, shape, [&] { return random.normal(scale) + shift; }));
}

// NaN, inf and large numbers on and above the diagonal.
inline void spoil(Random& random, Array& matrices) {
    const int64_t size = matrices.shape.back();
    for (int64_t at = 0; at < matrices.size(); ++at)
        if (at % size >= at / size % size) matrices.set(at, random.pick<double>({kNan, kInf, -kInf, 6e4, 0}));
}

inline Backward random_backward(Random& random, aclDataType type, const Shape& vectors, bool spoiled = true) {
    const Shape shape = with(vectors, vectors.back());
    Array g = random.normals(type, shape);
    Array y = random.filled(type, shape, [&] { return std::exp(-std::fabs(random.normal())); });
    if (spoiled) spoil(random, g), spoil(random, y);
    return {std::move(g), std::move(y)};
}

}  // namespace gradus::testing
