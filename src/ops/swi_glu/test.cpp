// SwiGlu and SwiGluGrad against the formula in f64, through the public C interface.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "aclnnop/aclnn_swi_glu_grad.h"
#include "testing/battery.h"
#include "testing/judge.h"

namespace gradus::testing {
namespace {

constexpr aclDataType kTypes[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};

double sigmoid(double a) { return a < 0 ? std::exp(a) / (1 + std::exp(a)) : 1 / (1 + std::exp(-a)); }

// A problem: x cut along dim into a and b, and the answers with what f32 inside may cost.
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
            // within 4 ulp of the largest term; σ below the normal numbers is known to 2^-149 only
            const double tiny = 4 * 0x1p-149 * (1 + std::fabs(a));
            y_slack[k] = 4 * ulp32(y[k]) + tiny * std::fabs(b);
            dx_slack[ka] = 4 * ulp32(grad * b * s * std::max(1.0, std::fabs(t * a))) + tiny * std::fabs(grad * b);
            dx_slack[kb] = 4 * ulp32(dx[kb]) + tiny * std::fabs(grad);
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

Problem random_problem(Random& random, aclDataType type, const Shape& half, int64_t dim, double scale = 2) {
    Shape full = half;
    full[static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(half.size()) : dim)] *= 2;
    Array x = random.filled(type, full, [&] { return std::clamp(random.normal(scale), -60.0, 60.0); });
    return {std::move(x), random.normals(type, half), dim};
}

TEST(SwiGlu, KnownAnswer) {
    for (const aclDataType type : kTypes) {
        Array x(type, {2}), g(type, {1});
        x.set(0, -2), x.set(1, 14), g.set(0, -2);
        const Array out = Problem(x, g, 0).grad().run().at("out");
        EXPECT_NEAR(out.at(0), 2.541959, type == ACL_FLOAT ? 1e-6 : 2.541959 * 0x1p-8) << type_name(type);
    }
}

// The interface as a program calls it, not by name.
TEST(SwiGlu, CFunctions) {
    const float values[3] = {-2, 14, -2};
    void* memory = nullptr;
    stream();
    ASSERT_EQ(aclrtMalloc(&memory, 1024, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    ASSERT_EQ(aclrtMemcpy(memory, 1024, values, sizeof values, ACL_MEMCPY_HOST_TO_DEVICE), 0);
    auto* base = static_cast<std::byte*>(memory);
    const int64_t two = 2, one = 1;
    aclTensor* x = aclCreateTensor(&two, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &two, 1, base);
    aclTensor* g = aclCreateTensor(&one, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &one, 1, base + 8);
    aclTensor* out = aclCreateTensor(&two, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &two, 1, base + 512);
    uint64_t size = 1;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(aclnnSwiGluGradGetWorkspaceSize(g, x, -1, out, &size, &executor), 0) << take_message();
    EXPECT_EQ(size, 0u);
    ASSERT_EQ(aclnnSwiGluGrad(nullptr, 0, executor, stream()), 0) << take_message();
    for (aclTensor* tensor : {x, g, out}) EXPECT_EQ(aclDestroyTensor(tensor), 0);
    ASSERT_EQ(aclrtSynchronizeStream(stream()), 0);
    float result[2];
    ASSERT_EQ(aclrtMemcpy(result, sizeof result, base + 512, sizeof result, ACL_MEMCPY_DEVICE_TO_HOST), 0);
    EXPECT_NEAR(result[0], 2.541959, 1e-6);
    EXPECT_NEAR(result[1], 0.476812, 1e-6);
    EXPECT_EQ(aclrtFree(memory), 0);
}

// Lengths around every SIMD width, tile and stage, on every instruction set.
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

// Broadcast inputs, transposed operands, and outputs that interleave without touching.
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

// Where σ is exactly 1 the results are products of two 16-bit numbers, exact in f32, and many lie halfway between two
// 16-bit numbers: every one must be the even neighbour or the nearer one, to the bit.
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

// Large enough to be written past the cache, with rows that start anywhere.
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
            for (const double a : {nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 30.0, 1e4, -200.0, -1e4, 1e-40, 3e38})
                for (const double b : {1.0, -2.0, 0.0, -0.0, inf, -inf, nan, 1e-40})
                    for (const double g : {1.0, -2.0, 0.0, inf, nan}) {
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

// Every a of the 16-bit types; of f32 a comb over all exponents, and every 16th number with GRADUS_TEST_LONG.
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
    const uint64_t step = std::getenv("GRADUS_TEST_LONG") != nullptr ? 16 : 40009, chunk = 1 << 18;
    for (uint64_t begin = 0; begin < uint64_t{1} << 32; begin += step * chunk) {
        const auto n = static_cast<int64_t>(std::min(chunk, ((uint64_t{1} << 32) - begin + step - 1) / step));
        Array x(ACL_FLOAT, {2, n}), g(ACL_FLOAT, {1, n});
        for (int64_t i = 0; i < n; ++i) {
            const auto bits = static_cast<uint32_t>(begin + step * static_cast<uint64_t>(i));
            std::memcpy(x.bytes.data() + 4 * i, &bits, 4);
            x.set(n + i, 1.25), g.set(i, -0.875);
        }
        SCOPED_TRACE(begin);
        Problem(x, g, 0).expect(false);
        if (HasFailure()) return;
    }
}

// σ(a) below the normal f32 numbers: a·σ fades instead of dropping to 0, and keeps its sign after it has.
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

// The gradient is the derivative of the forward: central differences of fourth order through the C interface.
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

// Golden is the reference rounded once.
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

TEST(SwiGlu, SameBits) {
    Random random("bits");
    for (const aclDataType type : kTypes) {
        const Problem p = random_problem(random, type, {130, 521}, 1);
        expect_same_bits([&] { return p.grad(); });
        expect_same_bits([&] { return p.forward(); });
    }
}

TEST(SwiGlu, RowsAloneAreTheRowsOfTheWhole) {
    Random random("rows");
    for (const aclDataType type : kTypes) {
        const Problem whole = random_problem(random, type, {37, 129}, 1);
        const Array dx = whole.grad().run().at("out"), y = whole.forward().run().at("out");
        for (const auto& [begin, end] : std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {5, 6}, {11, 30}}) {
            const Problem part(slice(whole.x, begin, end), slice(whole.g, begin, end), 1);
            EXPECT_EQ(first_difference(part.grad().run().at("out"), slice(dx, begin, end)), -1);
            EXPECT_EQ(first_difference(part.forward().run().at("out"), slice(y, begin, end)), -1);
        }
    }
}

// out may be exactly x; one element further is refused (expect_executor_rules).
TEST(SwiGlu, InPlace) {
    const Option off("limits", "off");
    Random random("in place");
    for (const int64_t n : {5, 700}) {
        const Problem p = random_problem(random, ACL_FLOAT, {40, n}, 1);
        const Array want = p.grad().run().at("out");
        void *x = nullptr, *g = nullptr;
        ASSERT_EQ(aclrtMalloc(&x, p.x.bytes.size(), ACL_MEM_MALLOC_HUGE_FIRST), 0);
        ASSERT_EQ(aclrtMalloc(&g, p.g.bytes.size(), ACL_MEM_MALLOC_HUGE_FIRST), 0);
        ASSERT_EQ(aclrtMemcpy(x, p.x.bytes.size(), p.x.bytes.data(), p.x.bytes.size(), ACL_MEMCPY_HOST_TO_DEVICE), 0);
        ASSERT_EQ(aclrtMemcpy(g, p.g.bytes.size(), p.g.bytes.data(), p.g.bytes.size(), ACL_MEMCPY_HOST_TO_DEVICE), 0);
        const auto tensor = [](const Shape& shape, void* at) {
            return aclCreateTensor(shape.data(), shape.size(), ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape.data(),
                                   shape.size(), at);
        };
        aclTensor *tx = tensor(p.x.shape, x), *tg = tensor(p.g.shape, g);
        uint64_t size = 0;
        aclOpExecutor* executor = nullptr;
        ASSERT_EQ(aclnnSwiGluGradGetWorkspaceSize(tg, tx, 1, tx, &size, &executor), 0) << take_message();
        ASSERT_EQ(aclnnSwiGluGrad(nullptr, 0, executor, stream()), 0) << take_message();
        ASSERT_EQ(aclrtSynchronizeStream(stream()), 0);
        Array got(ACL_FLOAT, p.x.shape);
        ASSERT_EQ(aclrtMemcpy(got.bytes.data(), got.bytes.size(), x, got.bytes.size(), ACL_MEMCPY_DEVICE_TO_HOST), 0);
        EXPECT_EQ(first_difference(got, want), -1);
        for (aclTensor* t : {tx, tg}) EXPECT_EQ(aclDestroyTensor(t), 0);
        for (void* memory : {x, g}) EXPECT_EQ(aclrtFree(memory), 0);
    }
}

TEST(SwiGlu, Empty) {
    const auto make = [](const Shape& x, const Shape& half) {
        return Call("SwiGluGrad")
            .in("yGrad", Array(ACL_FLOAT16, half))
            .in("x", Array(ACL_FLOAT16, x))
            .integer("dim", 1)
            .out("out", ACL_FLOAT16, x);
    };
    for (const auto& [x, half] : std::vector<std::pair<Shape, Shape>>{{{0, 4}, {0, 2}}, {{3, 0}, {3, 0}}}) {
        const Call::Answer answer = make(x, half).ask();
        EXPECT_EQ(answer.code, 161002) << "a limit of the device";
        EXPECT_NE(answer.message.find("GRADUS_LIMITS=off"), std::string::npos) << answer.message;
        const Option off("limits", "off");
        Call call = make(x, half);
        call.max_workspace = 0;
        EXPECT_EQ(call.run().size(), 1u);
    }
}

TEST(SwiGlu, Refusals) {
    const Array x(ACL_FLOAT16, {4, 6}), g(ACL_FLOAT16, {4, 3});
    const auto forward = [&] { return Call("SwiGlu").in("x", x).integer("dim", -1).out("out", ACL_FLOAT16, {4, 3}); };
    const auto grad = [&] {
        return Call("SwiGluGrad").in("yGrad", g).in("x", x).integer("dim", -1).out("out", ACL_FLOAT16, {4, 6});
    };
    const auto shape = [](const char* name, const Shape& s) {
        return [=](Call& c) {
            c.tensor(name).values = Array(c.tensor(name).values.type, s);
            c.tensor(name).layout = dense(s);
        };
    };
    const auto type = [](const char* name, aclDataType t) { return [=](Call& c) { c.tensor(name).type = t; }; };
    const auto dim = [](int64_t d) { return [=](Call& c) { c.integer("dim", d); }; };
    const std::vector<Refusal> both = {
        {"dim too large", dim(2), "dim: 2, expected -2 to 1"},
        {"dim too small", dim(-3), "dim: -3, expected -2 to 1"},
        {"odd size", shape("x", {4, 7}), "x: size 7 of dim 1 of shape [4, 7], expected an even size"},
        {"x of another dtype", type("x", ACL_BF16), "dtype f16, expected bf16 as x"},
        {"x integer", type("x", ACL_INT32), "x: dtype int32, expected f32, f16 or bf16"},
        {"out of another dtype", type("out", ACL_BF16), "out: dtype bf16, expected f16 as x"},
        {"x not contiguous",
         [](Call& c) {
             c.layout("x", padded({4, 6}, 2));
         },
         "x: not contiguous"},
        {"out not contiguous", [](Call& c) { c.layout("out", padded(c.tensor("out").values.shape, 2)); },
         "out: not contiguous"},
        {"rank 9", shape("x", {1, 1, 1, 1, 1, 1, 1, 1, 2}), "x: rank 9"},
        {"rank 0", shape("x", {}), "x: rank 0"},
    };
    expect_refusals(forward, both);
    expect_refusals(grad, both);
    expect_refusals(forward, {{"out full size", shape("out", {4, 6}), "out: shape [4, 6], expected [4, 3]"}});
    expect_refusals(grad, {{"yGrad integer", type("yGrad", ACL_INT32), "yGrad: dtype int32, expected f32, f16 or bf16"},
                           {"yGrad full size", shape("yGrad", {4, 6}), "yGrad: shape [4, 6], expected [4, 3]"},
                           {"yGrad other rows", shape("yGrad", {5, 3}), "yGrad: shape [5, 3], expected [4, 3]"},
                           {"yGrad not contiguous",
                            [](Call& c) {
                                c.layout("yGrad", padded({4, 3}, 2));
                            },
                            "yGrad: not contiguous"},
                           {"out half size", shape("out", {4, 3}), "out: shape [4, 3], expected [4, 6]"}});
    expect_common_refusals(forward);
    expect_common_refusals(grad);
}

TEST(SwiGlu, Products) {
    const auto make = [](aclDataType type, const Shape& half) {
        Shape full = half;
        full.back() *= 2;
        return Call("SwiGlu").in("x", Array(type, full)).integer("dim", -1).out("out", type, half);
    };
    expect_products([&] { return make(ACL_FLOAT16, {4, 32}); }, {"Ascend910B", "Ascend310P"});
    const Option inference("soc_name", "Ascend310P3");
    EXPECT_EQ(make(ACL_BF16, {4, 32}).ask().code, 161002) << "no bf16";
    EXPECT_EQ(make(ACL_FLOAT16, {4, 33}).ask().code, 161002) << "66 bytes";
    EXPECT_EQ(make(ACL_FLOAT, {4, 16}).ask().code, 0) << "64 bytes";
    const Option off("limits", "off");
    EXPECT_EQ(make(ACL_BF16, {4, 33}).ask().code, 0);
}

TEST(SwiGlu, Executors) {
    expect_executor_rules([random = std::make_shared<Random>("executors")] {
        return random_problem(*random, ACL_FLOAT, {33, 65}, 1).grad();
    });
    expect_executor_rules([random = std::make_shared<Random>("executors")] {
        return random_problem(*random, ACL_BF16, {33, 65}, 1).forward();
    });
}

// The judge sees every planted fault in every dtype, so the tests above can fail.
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
