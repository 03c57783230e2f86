// ExpSegsum and ExpSegsumBackward in golden with f64, and their magnitudes.
#include <gtest/gtest.h>

#include "ops/exp_segsum/test_problem.h"
#include "testing/golden.h"

namespace gradus::testing {
namespace {

TEST(ExpSegsum, GoldenRules) {
    Random random("golden rules");
    for (const aclDataType type : kTypes)
        for (const int64_t size : {7, 70}) {
            const auto terms = static_cast<double>(size);
            const Forward forward = random_forward(random, type, {2, 3, size});
            expect_golden_rules([&] { return forward.call(); }, {{"out", {terms}}});
            const Backward backward = random_backward(random, type, {2, 3, size});
            expect_golden_rules([&] { return backward.call(); }, {{"gradInput", {terms * terms}}});
        }
}

TEST(ExpSegsum, GoldenInDouble) {
    Random random("double");
    for (const Shape& shape : std::vector<Shape>{{1, 1, 1}, {2, 3, 2, 17}, {1, 5, 130}}) {
        const auto size = static_cast<double>(shape.back());
        const Forward forward = random_forward(random, ACL_DOUBLE, shape);
        EXPECT_EQ(judge_f64(run_as("golden", forward.call()).at("out"), forward.want,
                            run_as("magnitude", forward.call()).at("out"), size),
                  "");
        const Backward backward = random_backward(random, ACL_DOUBLE, shape);
        EXPECT_EQ(judge_f64(run_as("golden", backward.call()).at("gradInput"), backward.want,
                            run_as("magnitude", backward.call()).at("gradInput"), size * size),
                  "");
    }
}

TEST(ExpSegsum, Magnitude) {
    Random random("magnitude");
    const int64_t size = 37;
    const Forward forward = random_forward(random, ACL_DOUBLE, {1, 2, size}, 1);
    const Backward backward = random_backward(random, ACL_DOUBLE, {1, 2, size});
    std::vector<double> out, in;
    for (int64_t m = 0; m < 2; ++m)
        for (int64_t i = 0; i < size; ++i) {
            for (int64_t j = 0; j < size; ++j) {
                double sum = 0, terms = 0, products = 0;
                for (int64_t k = j + 1; k <= i; ++k)
                    sum += forward.x.at(m * size + k), terms += std::fabs(forward.x.at(m * size + k));
                out.push_back(j < i ? std::exp(sum) * (1 + terms) : j == i ? 1 : 0);
                if (j != 0) continue;
                for (int64_t r = i; r < size; ++r)
                    for (int64_t c = 0; c < i; ++c) {
                        const int64_t at = (m * size + r) * size + c;
                        products += std::fabs(backward.g.at(at) * backward.y.at(at));
                    }
                in.push_back(products);
            }
        }
    // the order of a sum counts in its exponential
    EXPECT_EQ(judge_magnitude(run_as("magnitude", forward.call()).at("out"), out, 30 * size), "");
    EXPECT_EQ(judge_magnitude(run_as("magnitude", backward.call()).at("gradInput"), in, size * size), "");
}

TEST(ExpSegsum, DifferencesInDouble) {
    Random random("differences in double");
    const Forward f = random_forward(random, ACL_DOUBLE, {1, 2, 11});
    const Array g = random.normals(ACL_DOUBLE, f.shape), y = run_as("golden", f.call()).at("out");
    const Array dx = run_as("golden", Backward(g, y).call()).at("gradInput");
    expect_derivative(f.x, dx, 1, [&](const Array& moved) { return weighted(Forward(moved).call(), "out", g); });
}

TEST(ExpSegsum, EmptyInDouble) {
    for (const Shape& shape : std::vector<Shape>{{0, 2, 3}, {2, 2, 0}})
        for (const char* precision : {"golden", "magnitude"}) {
            EXPECT_EQ(run_as(precision, Forward(Array(ACL_DOUBLE, shape)).call()).size(), 1u);
            const Array matrix(ACL_DOUBLE, with(shape, shape.back()));
            EXPECT_EQ(run_as(precision, Backward(matrix, matrix).call()).size(), 1u);
        }
}

}  // namespace
}  // namespace gradus::testing
