// SwiGlu and SwiGluGrad against the formula in f64, through the public C interface.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "ops/swi_glu/test_problem.h"
#include "testing/battery.h"

namespace gradus::testing {
namespace {

TEST(SwiGlu, KnownAnswer) {
    for (const aclDataType type : kTypes) {
        Array x(type, {2}), g(type, {1});
        x.set(0, -2), x.set(1, 14), g.set(0, -2);
        const Array out = Problem(x, g, 0).grad().run().at("out");
        EXPECT_NEAR(out.at(0), 2.541959, type == ACL_FLOAT ? 1e-6 : 2.541959 * 0x1p-8) << type_name(type);
    }
}

TEST(SwiGlu, Lengths) {
    for (const std::string& isa : instruction_sets()) {
        const Option cap("max_isa", isa);
        for (const aclDataType type : kTypes) {
            Random random("lengths");
            for (const int64_t n :
                 {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 255, 257, 1023, 1024, 1025, 2049}) {
                SCOPED_TRACE(isa + " " + type_name(type) + " n " + std::to_string(n) + " " + random.repeat());
                random_problem(random, type, {3, n}, 1).expect();
            }
        }
    }
}

TEST(SwiGlu, EveryRankAndDim) {
    Random random("ranks");
    for (const Shape& half : std::vector<Shape>{
             {40}, {3, 50}, {4, 5, 6}, {2, 3, 4, 5}, {2, 1, 3, 2, 4}, {2, 2, 2, 2, 2, 2}, {2, 1, 2, 2, 1, 2, 3, 2}})
        for (int64_t dim = -static_cast<int64_t>(half.size()); dim < static_cast<int64_t>(half.size()); ++dim)
            for (const aclDataType type : kTypes) {
                SCOPED_TRACE(text(half) + " dim " + std::to_string(dim) + " " + type_name(type) + " " +
                             random.repeat());
                random_problem(random, type, half, dim).expect();
            }
}

TEST(SwiGlu, Views) {
    const Option off("limits", "off");
    Random random("views");
    for (int i = 0; i < 60 * rounds(); ++i) {
        const int64_t rank = random.between(1, 5), dim = random.between(-rank, rank - 1);
        Shape half;
        for (int64_t d = 0; d < rank; ++d)
            half.push_back(random.pick<int64_t>({1, 2, 3, 5, 8, 17, rank < 3 ? 300 : 7}));
        const Problem p = random_problem(random, random.pick<aclDataType>({ACL_FLOAT, ACL_FLOAT16, ACL_BF16}), half,
                                         dim, random.pick<double>({0.5, 3, 15}));
        Call forward = p.forward(), grad = p.grad();
        for (Call* call : {&forward, &grad})
            for (Call::Tensor& tensor : call->tensors) tensor.layout = random.layout(tensor.values.shape);
        SCOPED_TRACE("case " + std::to_string(i) + " " + text(half) + " dim " + std::to_string(dim) + " " +
                     random.repeat());
        p.expect(forward.run(), grad.run());
    }
}

TEST(SwiGlu, ParticularViews) {
    const Option off("limits", "off");
    Random random("particular");
    Array g(ACL_FLOAT, {70, 90});
    for (int64_t i = 0; i < g.size(); ++i) g.set(i, static_cast<double>(i % 90) * 0.01);
    const Problem constant(random.normals(ACL_FLOAT, {140, 90}), g, 0);
    Call grad = constant.grad();
    grad.layout("yGrad", broadcast({70, 90}, 0))
        .layout("x", transposed({140, 90}))
        .layout("out", stepped({140, 90}, 2));
    constant.expect(constant.forward().run(), grad.run());
    const Problem small = random_problem(random, ACL_FLOAT, {2, 3}, 0);
    Call forward = small.forward();
    forward.layout("out", {{3, 2}, 0, 8});
    small.expect(forward.run(), small.grad().run());
}

TEST(SwiGlu, ModelShapes) {
    Random random("models");
    for (const Shape& half : std::vector<Shape>{{9, 1, 11008}, {17, 1, 3584}, {5, 3904}, {3, 14336}})
        for (const aclDataType type : kTypes) {
            SCOPED_TRACE(text(half) + " " + type_name(type));
            random_problem(random, type, half, -1).expect();
        }
}

TEST(SwiGlu, HalfwayGoesToEven) {
    for (const std::string& isa : instruction_sets()) {
        const Option cap("max_isa", isa);
        for (const aclDataType type : {ACL_FLOAT16, ACL_BF16}) {
            const int64_t steps = 128, n = steps * steps;
            Array x(type, {2, n}), g(type, {1, n});
            for (int64_t i = 0; i < n; ++i) {
                x.set(i, 64 + 0.5 * static_cast<double>(i / steps));
                x.set(n + i, 1 + static_cast<double>(i % steps) / steps);
                g.set(i, -1 - static_cast<double>(i % steps) / steps);
            }
            const Problem p(x, g, 0);
            const Array y = p.forward().run().at("out"), dx = p.grad().run().at("out");
            int64_t halfway = 0;
            for (int64_t i = 0; i < n; ++i) {
                const double exact = x.at(i) * x.at(n + i), unit = ulp(exact, type);
                halfway += std::fabs(std::fabs(exact - rounded(exact, type)) - unit / 2) < unit * 1e-9;
                ASSERT_EQ(y.at(i), rounded(exact, type))
                    << isa << " " << type_name(type) << " " << x.at(i) << " * " << x.at(n + i);
                ASSERT_EQ(dx.at(n + i), rounded(g.at(i) * x.at(i), type));
            }
            EXPECT_GT(halfway, 50);
        }
    }
}

TEST(SwiGlu, Streaming) {
    Random random("streaming");
    Array x(ACL_BF16, {2111, 2 * 4099}), g(ACL_BF16, {2111, 4099});
    for (Array* array : {&x, &g})  // a period that no width divides keeps the test quick
        for (int64_t i = 0; i < array->size(); ++i) array->set(i, i < 10007 ? random.normal(2) : array->at(i - 10007));
    const Problem p(x, g, 1);
    p.expect(p.forward().run(), p.grad().run());
}

TEST(SwiGlu, SpecialValues) {
    const Option off("limits", "off");
    const double inf = HUGE_VAL, nan = std::nan("");
    for (const std::string& isa : instruction_sets()) {
        const Option cap("max_isa", isa);
        for (const aclDataType type : kTypes) {
            std::vector<double> as, bs, gs;
            for (const double a : {nan, -nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 30.0, 1e4, -200.0, -1e4, 1e-40, 3e38})
                for (const double b : {1.0, -2.0, 0.0, -0.0, inf, -inf, nan, -nan, 1e-40})
                    for (const double g : {1.0, -2.0, 0.0, inf, nan, -nan}) {
                        // σ of a far negative a is 0 in f32 and not in f64; times inf both are IEEE's answer
                        if (a < -100 && std::isfinite(a) && (std::isinf(b) || std::isinf(g))) continue;
                        as.push_back(a), bs.push_back(b), gs.push_back(g);
                    }
            const auto n = static_cast<int64_t>(as.size());
            Array x(type, {2, n}), g(type, {1, n});
            for (int64_t i = 0; i < n; ++i) {
                x.set(i, as[static_cast<size_t>(i)]), x.set(n + i, bs[static_cast<size_t>(i)]);
                g.set(i, gs[static_cast<size_t>(i)]);
            }
            SCOPED_TRACE(isa + " " + type_name(type));
            Problem(x, g, 0).expect(false);
        }
    }
}

TEST(SwiGlu, EveryA) {
    for (const aclDataType type : {ACL_FLOAT16, ACL_BF16}) {
        Array x(type, {2, 65536}), g(type, {1, 65536});
        for (int64_t i = 0; i < 65536; ++i) {
            const auto bits = static_cast<uint16_t>(i);
            std::memcpy(x.bytes.data() + 2 * i, &bits, 2);
            x.set(65536 + i, 1.5), g.set(i, -0.75);
        }
        SCOPED_TRACE(type_name(type));
        Problem(x, g, 0).expect(false);
    }
    const int64_t stride = stride_of_numbers(40009), chunk = 1 << 18;
    for (int64_t begin = 0; begin < int64_t{1} << 32; begin += stride * chunk) {
        const int64_t n = std::min(chunk, ((int64_t{1} << 32) - begin + stride - 1) / stride);
        Array x(ACL_FLOAT, {2, n}), g(ACL_FLOAT, {1, n});
        for (int64_t i = 0; i < n; ++i) {
            const auto bits = static_cast<uint32_t>(begin + stride * i);
            std::memcpy(x.bytes.data() + 4 * i, &bits, 4);
            x.set(n + i, 1.25), g.set(i, -0.875);
        }
        SCOPED_TRACE(begin);
        Problem(x, g, 0).expect(false);
        if (HasFailure()) return;
    }
}

TEST(SwiGlu, FarNegative) {
    for (const std::string& isa : instruction_sets()) {
        const Option cap("max_isa", isa);
        for (const aclDataType type : kTypes) {
            SCOPED_TRACE(isa + " " + type_name(type));
            Array x(type, {2, 400}), g(type, {1, 400});
            for (int64_t i = 0; i < 400; ++i)
                x.set(i, -120 + 0.1 * static_cast<double>(i)), x.set(400 + i, 1), g.set(i, i % 2 != 0 ? 1 : -2);
            const Problem p(x, g, 0);
            p.expect(false);
            const Array y = p.forward().run().at("out"), dx = p.grad().run().at("out");
            EXPECT_EQ(y.at(0), 0) << "far below the smallest number";
            EXPECT_TRUE(std::signbit(y.at(0)));
            EXPECT_FALSE(std::signbit(dx.at(400))) << "g = -2";
            EXPECT_TRUE(std::signbit(dx.at(401)));
            if (type != ACL_FLOAT16) EXPECT_NE(y.at(300), 0) << "a = -90";
        }
    }
}

// Where σ is subnormal, or 0, and its products are not.
TEST(SwiGlu, FarNegativeTimesLarge) {
    for (const std::string& isa : instruction_sets()) {
        const Option cap("max_isa", isa);
        for (const aclDataType type : {ACL_FLOAT, ACL_BF16}) {
            SCOPED_TRACE(isa + " " + type_name(type));
            Random random("far");
            const int64_t n = 20000;
            Array x(type, {2, n}), g(type, {1, n});
            for (int64_t i = 0; i < n; ++i) {
                x.set(i, random.uniform(-210, -55));
                // g·b is formed first: it must be a normal number
                const double b = random.uniform(-40, 120), gb = random.uniform(-100, 127.9);
                x.set(n + i, random.pick<double>({-1, 1}) * std::exp2(b));
                g.set(i, std::exp2(std::clamp(gb - b, -100.0, 127.0)));
            }
            x.set(0, -96), x.set(n, 150), g.set(0, 1);
            x.set(1, -100), x.set(n + 1, 1e38), g.set(1, 1e-37);
            const Problem p(x, g, 0);
            p.expect(false);
            if (type == ACL_FLOAT) EXPECT_NEAR(p.forward().run().at("out").at(0), -2.924773e-38, 1e-44);
        }
    }
}

TEST(SwiGlu, FiniteDifferences) {
    const Option golden("precision", "golden");
    Random random("differences");
    const int64_t n = 200;
    const Problem p(random.filled(ACL_FLOAT, {2, n}, [&] { return random.normal(2); }),
                    random.normals(ACL_FLOAT, {1, n}), 0);
    const Array dx = p.grad().run().at("out");
    const double h = 0x1p-4;
    for (const int64_t half : {0, 1}) {
        std::vector<double> slope(static_cast<size_t>(n));
        for (const auto& [step, weight] : std::vector<std::pair<double, double>>{{1, 8}, {-1, -8}, {2, -1}, {-2, 1}}) {
            Array moved = p.x;
            for (int64_t i = 0; i < n; ++i) moved.set(half * n + i, p.x.at(half * n + i) + step * h);
            // what was added exactly is what the divided difference needs: recover it from the rounded f32
            const Array y = Problem(moved, p.g, 0).forward().run().at("out");
            for (int64_t i = 0; i < n; ++i) slope[static_cast<size_t>(i)] += weight * y.at(i) / (12 * h);
        }
        for (int64_t i = 0; i < n; ++i) {
            const double want = slope[static_cast<size_t>(i)] * p.g.at(i);
            // truncation h⁴/30 · |f⁽⁵⁾| and the rounding of x and y to f32
            const double scale = std::fabs(p.g.at(i)) * (1 + std::fabs(p.x.at(n + i)));
            EXPECT_NEAR(dx.at(half * n + i), want,
                        scale * (h * h * h * h / 30 + 3 * kU * (2 + std::fabs(p.x.at(i))) / h))
                << i;
        }
    }
}

TEST(SwiGlu, Golden) {
    const Option golden("precision", "golden");
    Random random("golden");
    for (const aclDataType type : kTypes) {
        const Problem p = random_problem(random, type, {7, 501}, 1, 4);
        const Array y = p.forward().run().at("out"), dx = p.grad().run().at("out");
        int64_t differ = 0;
        for (int64_t i = 0; i < y.size(); ++i) differ += y.at(i) != rounded(p.y[static_cast<size_t>(i)], type);
        for (int64_t i = 0; i < dx.size(); ++i) differ += dx.at(i) != rounded(p.dx[static_cast<size_t>(i)], type);
        EXPECT_LE(differ, 2) << type_name(type) << ": f64 itself may straddle a boundary once in a great while";
        p.expect(p.forward().run(), p.grad().run());
    }
}

TEST(SwiGlu, PlantedFaultsAreSeen) {
    Random random("faults");
    for (const aclDataType type : kTypes) {
        const Problem p = random_problem(random, type, {50, 41}, 1);
        Array right(type, p.x.shape);
        for (int64_t i = 0; i < right.size(); ++i) right.set(i, p.dx[static_cast<size_t>(i)]);
        EXPECT_EQ(judge(right, p.dx, p.dx_slack, Promise::elementwise), "");
        EXPECT_EQ(judge_by_cann(right, p.dx, Promise::elementwise), "");
        for (const Fault fault : kFaults) {
            const Array wrong = plant(fault, type, p.x.shape, p.dx);
            EXPECT_NE(
                judge(wrong, p.dx, p.dx_slack, Promise::elementwise) + judge_by_cann(wrong, p.dx, Promise::elementwise),
                "")
                << fault_name(fault) << " in " << type_name(type);
        }
    }
}

}  // namespace
}  // namespace gradus::testing
