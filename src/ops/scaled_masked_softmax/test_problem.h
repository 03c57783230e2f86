// A problem of scaled_masked_softmax with its answers in f64, shared by the tests of values and of the contract.
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
inline constexpr double kTiny = 0x1p-149;

struct Answer {
    std::vector<double> value, slack;
};

// Element i of an array of `shape` in a mask whose first two dims may be 1.
inline int64_t mask_index(const Shape& shape, const Shape& mask, int64_t i) {
    const int64_t matrix = shape[2] * shape[3], b = i / matrix / shape[1], h = i / matrix % shape[1];
    return ((mask[0] == 1 ? 0 : b) * mask[1] + (mask[1] == 1 ? 0 : h)) * matrix + i % matrix;
}

// y = softmax(z). Roundings that meet in e_i = exp(z_i − max z): the product z_i (U·|z_i|; none where masked), the
// difference (U·|z_i − max z|), exp itself (1 ulp = 2 U). An error of max z is common to all e and cancels. The sum of
// all e carries theirs, weighted by y, and its own (8 + log2 n)·U; the division is a reciprocal and a product (2 U).
inline Answer softmax(const Array& x, const Array& mask, double scale_) {
    const double scale = static_cast<float>(scale_);
    const int64_t n = x.shape[3];
    Answer answer{std::vector<double>(static_cast<size_t>(x.size())),
                  std::vector<double>(static_cast<size_t>(x.size()))};
    std::vector<double> z(static_cast<size_t>(n)), e(z), error(z);
    for (int64_t row = 0; row < x.size(); row += n) {
        double top = -HUGE_VAL, sum = 0, common = 0;
        for (int64_t i = 0; i < n; ++i) {
            const auto k = static_cast<size_t>(i);
            const bool masked = mask.at(mask_index(x.shape, mask.shape, row + i)) != 0;
            z[k] = masked ? -10000 : x.at(row + i) * scale;
            error[k] = masked ? 0 : std::fabs(z[k]);
            top = std::max(top, z[k]);
        }
        for (size_t k = 0; k < z.size(); ++k) {
            e[k] = std::exp(z[k] - top);
            error[k] = (error[k] + std::fabs(z[k] - top) + 2) * kU;
            if (std::isinf(error[k])) error[k] = 0;  // an infinite score is exact
            sum += e[k];
            common += e[k] * error[k];
        }
        for (size_t k = 0; k < z.size(); ++k) {
            const auto at = static_cast<size_t>(row) + k;
            answer.value[at] = e[k] / sum;
            answer.slack[at] =
                answer.value[at] * (error[k] + common / sum + sum_factor(static_cast<double>(n)) + 2 * kU) + 2 * kTiny;
        }
    }
    return answer;
}

// d = t − s·y; out = d·scale. The sum s errs by (8 + log2 n)·U·Σ|t|; t, s·y, d and the product with scale are rounded
// once.
inline Answer gradient(const Array& g, const Array& y, const Array& mask, double scale_) {
    const double scale = static_cast<float>(scale_);
    const int64_t n = g.shape[3];
    Answer answer{std::vector<double>(static_cast<size_t>(g.size())),
                  std::vector<double>(static_cast<size_t>(g.size()))};
    for (int64_t row = 0; row < g.size(); row += n) {
        double s = 0, magnitude = 0;
        for (int64_t i = row; i < row + n; ++i) s += g.at(i) * y.at(i), magnitude += std::fabs(g.at(i) * y.at(i));
        for (int64_t i = row; i < row + n; ++i) {
            if (mask.at(mask_index(g.shape, mask.shape, i)) != 0) continue;
            const double t = g.at(i) * y.at(i), d = t - s * y.at(i);
            const auto k = static_cast<size_t>(i);
            answer.value[k] = d * scale;
            answer.slack[k] =
                std::fabs(scale) * (std::fabs(y.at(i)) * sum_factor(static_cast<double>(n)) * magnitude +
                                    kU * (std::fabs(t) + std::fabs(s * y.at(i)) + 2 * std::fabs(d)) + 4 * kTiny);
            if (std::isnan(answer.slack[k])) answer.slack[k] = 0;
        }
    }
    return answer;
}

// A problem: scores x with their mask, the forward's answer y rounded to the type, and a gradient g.
struct Problem {
    Array x, mask, g, y;
    double scale;
    Answer forward_answer, backward_answer;

    Problem(Array x_, Array mask_, Array g_, double scale_)
        : x(std::move(x_)), mask(std::move(mask_)), g(std::move(g_)), y(x.type, x.shape), scale(scale_) {
        forward_answer = softmax(x, mask, scale);
        for (int64_t i = 0; i < y.size(); ++i) y.set(i, forward_answer.value[static_cast<size_t>(i)]);
        backward_answer = gradient(g, y, mask, scale);
    }

    Call forward() const {
        return Call("ScaledMaskedSoftmax")
            .in("x", x)
            .in("mask", mask)
            .real("scale", scale)
            .boolean("fixTriuMask", false)
            .out("y", x.type, x.shape);
    }
    Call backward() const {
        return Call("ScaledMaskedSoftmaxBackward")
            .in("gradOutput", g)
            .in("y", y)
            .in("mask", mask)
            .real("scale", scale)
            .boolean("fixTriuMask", false)
            .out("out", x.type, x.shape);
    }

    void expect(const Call::Results& forward_got, const Call::Results& backward_got, bool rules = true) const {
        ASSERT_TRUE(forward_got.count("y") && backward_got.count("out"));
        const Array &a = forward_got.at("y"), &b = backward_got.at("out");
        EXPECT_EQ(judge(a, forward_answer.value, forward_answer.slack, Promise::summed), "") << "forward";
        EXPECT_EQ(judge(b, backward_answer.value, backward_answer.slack, Promise::summed), "") << "backward";
        int64_t leaks = 0;
        for (int64_t i = 0; i < b.size(); ++i)
            leaks += mask.at(mask_index(x.shape, mask.shape, i)) != 0 && b.at(i) != 0;
        EXPECT_EQ(leaks, 0) << "a masked gradient is not exactly 0";
        if (!rules) return;
        EXPECT_EQ(judge_by_cann(a, forward_answer.value, Promise::elementwise), "") << "forward";
        // a row with one large y cancels: t − s·y is small beside the error that s may have
        EXPECT_EQ(judge_by_cann(b, backward_answer.value, Promise::summed), "") << "backward";
    }
    void expect(bool rules = true) const { expect(forward().run(), backward().run(), rules); }
};

// Any byte but 0 is true.
inline Array random_mask(Random& random, const Shape& shape, double share) {
    return random.filled(ACL_BOOL, shape, [&] {
        return random.chance(share) ? random.pick<double>({1, 1, 2, 128, 255}) : 0;
    });
}

inline Problem random_problem(Random& random, aclDataType type, const Shape& shape, Shape mask = {}, double spread = 2,
                              double scale = 0.7) {
    if (mask.empty()) mask = shape;
    Array x = random.normals(type, shape, spread),
          m = random_mask(random, mask, random.pick<double>({0.0, 0.3, 0.5, 0.9}));
    return {std::move(x), std::move(m), random.normals(type, shape), scale};
}

inline Array filled(aclDataType type, const Shape& shape, const std::vector<double>& values) {
    Array array(type, shape);
    for (int64_t i = 0; i < array.size(); ++i) array.set(i, values[static_cast<size_t>(i) % values.size()]);
    return array;
}

// The answer of the document's example.
inline const std::vector<double> kExample = {0, 0, -66, -84, 0, 0, -742, -840, 0, 0, -2794, -3036, 0, 0, -6990, -7440};

}  // namespace gradus::testing
