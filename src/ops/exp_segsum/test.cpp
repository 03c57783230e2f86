// ExpSegsum and ExpSegsumBackward against the formula in f64, through the public C interface.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "ops/exp_segsum/test_problem.h"
#include "testing/judge.h"

namespace gradus::testing {
namespace {

TEST(ExpSegsum, KnownAnswers) {
    for (const aclDataType type : kTypes) {
        SCOPED_TRACE(type_name(type));
        Array x(type, {1, 1, 4});
        for (int64_t i = 0; i < 4; ++i) x.set(i, static_cast<double>(i));
        const Array out = Forward(x).call().run().at("out");
        const double want[] = {1,         0,        0, 0, 2.718282,   1,          0,         0,
                               20.085537, 7.389056, 1, 0, 403.428793, 148.413159, 20.085537, 1};
        for (int64_t i = 0; i < 16; ++i)
            EXPECT_NEAR(out.at(i), want[i], want[i] * (type == ACL_FLOAT ? 1e-6 : 0x1p-8)) << i;

        Array ones(type, {1, 1, 4, 4});
        for (int64_t i = 0; i < 16; ++i) ones.set(i, 1);
        const Array grad = Backward(ones, ones).call().run().at("gradInput");
        const double sums[] = {0, 3, 4, 3};
        for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(grad.at(i), sums[i]) << i;
    }
}

// Sizes around every SIMD width, group of rows and chain, on every instruction set.
TEST(ExpSegsum, Sizes) {
    for (const std::string& isa : instruction_sets()) {
        const Option cap("max_isa", isa);
        for (const aclDataType type : kTypes) {
            Random random("sizes");
            for (const int64_t size : {1,  2,  3,  4,  5,  7,  8,  9,   12,  13,  15,  16,  17,  19,  31,  32,
                                       33, 47, 63, 64, 65, 67, 96, 127, 128, 129, 130, 160, 255, 256, 257, 300}) {
                SCOPED_TRACE(isa + " " + type_name(type) + " T " + std::to_string(size) + " " + random.repeat());
                random_forward(random, type, {2, 1, size}).expect();
                random_backward(random, type, {1, 2, size}).expect();
            }
        }
    }
}

TEST(ExpSegsum, ModelShapes) {
    Random random("models");
    for (const Shape& shape :
         std::vector<Shape>{{1, 3, 2, 256}, {2, 2, 2, 128}, {1, 5, 4, 64}, {1, 80, 17}, {1, 2, 16}, {1, 1, 1000}})
        for (const aclDataType type : kTypes) {
            SCOPED_TRACE(text(shape) + " " + type_name(type));
            const Forward f = random_forward(random, type, shape);
            Call forward = f.call();
            forward.max_workspace = 0;
            f.expect(forward.run());
            const Backward b = random_backward(random, type, shape);
            Call backward = b.call();
            backward.max_workspace = 0;
            b.expect(backward.run());
        }
}

// The gradient in use: of the forward's own output, as training has it.
TEST(ExpSegsum, ForwardThenBackward) {
    Random random("both");
    for (const aclDataType type : kTypes) {
        const Forward forward = random_forward(random, type, {2, 3, 2, 70});
        Array y = forward.call().run().at("out");
        Backward(random.normals(type, y.shape), y).expect();
    }
}

// Data on which long chains of f32 additions go wrong: constants, and one large term before many that it swallows.
TEST(ExpSegsum, LongSums) {
    for (const std::string& isa : instruction_sets()) {
        const Option cap("max_isa", isa);
        for (const int64_t size : {129, 257, 700}) {
            SCOPED_TRACE(isa + " T " + std::to_string(size));
            Array g(ACL_FLOAT, {1, 1, size, size}), y = g;
            for (int64_t i = 0; i < g.size(); ++i) g.set(i, 1.0 + 0x1p-18 - 0x1p-23), y.set(i, 1.0);
            Backward(g, y).expect();
            for (int64_t i = 0; i < g.size(); ++i) g.set(i, i / size == size - 1 ? 1.0 : 0x1.fp-25);
            Backward(g, y).expect();
            for (int64_t i = 0; i < g.size(); ++i) g.set(i, i % size == size / 2 ? 1.0 : 0x1.fp-25);
            Backward(g, y).expect();
            for (int64_t i = 0; i < g.size(); ++i) g.set(i, 0.1), y.set(i, 0.3);
            Backward(g, y).expect();
        }
    }
}

TEST(ExpSegsum, Views) {
    Random random("views");
    for (int i = 0; i < 60 * rounds(); ++i) {
        Shape shape;
        for (int64_t d = random.between(2, 3); d > 0; --d) shape.push_back(random.pick<int64_t>({1, 2, 3, 5}));
        shape.push_back(random.pick<int64_t>({1, 2, 5, 8, 16, 17, 23, 33, 64, 70}));
        const auto type = random.pick<aclDataType>({ACL_FLOAT, ACL_FLOAT16, ACL_BF16});
        SCOPED_TRACE("case " + std::to_string(i) + " " + text(shape) + " " + type_name(type) + " " + random.repeat());
        const Forward f = random_forward(random, type, shape);
        const Backward b = random_backward(random, type, shape);
        Call forward = f.call(), backward = b.call();
        const Array y = forward.run().at("out"), dx = backward.run().at("gradInput");
        for (Call* call : {&forward, &backward})
            for (Call::Tensor& tensor : call->tensors) tensor.layout = random.layout(tensor.values.shape);
        const Call::Results y_got = forward.run(), dx_got = backward.run();
        f.expect(y_got);
        b.expect(dx_got);
        EXPECT_EQ(first_difference(y_got.at("out"), y), -1) << "a view changes no bit";
        EXPECT_EQ(first_difference(dx_got.at("gradInput"), dx), -1) << "a view changes no bit";
    }
}

// Each layout of each tensor for itself, at sizes with and without a tail.
TEST(ExpSegsum, ParticularViews) {
    Random random("particular");
    for (const int64_t size : {32, 37}) {
        const Shape vector = {2, 3, size}, matrix = {2, 3, size, size};
        const Forward f = random_forward(random, ACL_BF16, vector);
        const Backward b = random_backward(random, ACL_BF16, vector);
        const auto vary = [&](const auto& problem, const std::string& name, const Shape& shape) {
            for (const Layout& layout : {padded(shape, 3), transposed(shape), stepped(shape, 2)}) {
                SCOPED_TRACE(name + " T " + std::to_string(size));
                problem.expect(problem.call().layout(name, layout).run());
            }
        };
        vary(f, "self", vector), vary(f, "out", matrix);
        vary(b, "gradOutput", matrix), vary(b, "gradSelf", matrix), vary(b, "gradInput", vector);
    }
    // broadcast along every dim in turn
    for (int dim = 0; dim < 4; ++dim) {
        const Shape shape = {2, 3, 20, 20};
        Array g(ACL_FLOAT, shape);
        for (int64_t i = 0; i < g.size(); ++i) {
            const int64_t index[] = {i / 1200, i / 400 % 3, i / 20 % 20, i % 20};
            double value = 1;
            for (int d = 0; d < 4; ++d) value += d == dim ? 0 : 0.1 * static_cast<double>(index[d] * (d + 1));
            g.set(i, value);
        }
        SCOPED_TRACE(dim);
        const Backward b(g, random.normals(ACL_FLOAT, shape));
        b.expect(b.call().layout("gradOutput", broadcast(shape, dim)).run());
        if (dim == 3) continue;
        Array x(ACL_FLOAT, {2, 3, 20});
        for (int64_t i = 0; i < x.size(); ++i) {
            const int64_t index[] = {i / 60, i / 20 % 3, i % 20};
            double value = 0.1;
            for (int d = 0; d < 3; ++d) value -= d == dim ? 0 : 0.05 * static_cast<double>(index[d]);
            x.set(i, value);
        }
        const Forward f(x);
        f.expect(f.call().layout("self", broadcast(x.shape, dim)).run());
    }
}

// Elements whose sum contains a special value, and no others.
TEST(ExpSegsum, SpecialValues) {
    for (const std::string& isa : instruction_sets()) {
        const Option cap("max_isa", isa);
        for (const aclDataType type : kTypes)
            for (const int64_t size : {3, 17, 40}) {
                SCOPED_TRACE(isa + " " + type_name(type) + " T " + std::to_string(size));
                const std::vector<double> specials = {kNan, kInf, -kInf, 200,  -200,  88.6,  -95,
                                                      -103, 6e4,  -6e4,  3e38, -3e38, 1e-40, -0.0};
                for (const double value : specials)
                    for (const int64_t at : {int64_t{0}, int64_t{1}, size / 2, size - 1}) {
                        Array x(type, {1, 1, size});
                        for (int64_t i = 0; i < size; ++i) x.set(i, 0.01 * static_cast<double>(i));
                        x.set(at, value);
                        Forward(x).expect(false);
                        // two in a row: inf − inf, up and down again
                        if (at + 1 < size) x.set(at + 1, -value);
                        Forward(x).expect(false);
                    }
                for (const double value : specials)
                    for (const double other : {0.0, 1.0, -kInf}) {
                        Random random("special");
                        const Shape shape = {1, 1, size, size};
                        Array g = random.normals(type, shape), y = random.normals(type, shape);
                        const int64_t row = random.between(1, size - 1), at = row * size + random.between(0, row - 1);
                        g.set(at, value), y.set(at, other);
                        Backward(g, y).expect(false);
                    }
            }
    }
}

// A NaN whose bits are all set is one after exp, too: the one that results have.
TEST(ExpSegsum, EveryNanIsOne) {
    for (const std::string& isa : instruction_sets()) {
        const Option cap("max_isa", isa);
        for (const uint32_t bits : {0xFFFFFFFFu, 0x7FFFFFFFu, 0x7F800001u, 0xFF8000FFu, 0x7FC00000u}) {
            Array x(ACL_FLOAT, {1, 1, 2});
            std::memcpy(x.bytes.data() + 4, &bits, 4);
            const Array out = Forward(x).call().run().at("out");
            EXPECT_TRUE(is_the_nan(out, 2)) << isa << " " << std::hex << bits;
            EXPECT_EQ(out.at(0), 1);
            EXPECT_EQ(out.at(1), 0);
            EXPECT_EQ(out.at(3), 1);
        }
    }
}

// exp over all of f32: in T = 3 with a NaN at the end, which leaves out[1][0] = exp(x[1]) alone but makes the kernel
// take exp of sums.
TEST(ExpSegsum, Exponential) {
    const int64_t stride = stride_of_numbers(65521), chunk = 1 << 16;
    for (const std::string& isa : instruction_sets()) {
        const Option cap("max_isa", isa);
        double worst = 0;
        for (int64_t begin = 0; begin < int64_t{1} << 32; begin += stride * chunk) {
            const int64_t count = std::min(chunk, ((int64_t{1} << 32) - begin + stride - 1) / stride);
            Array x(ACL_FLOAT, {1, count, 3});
            auto* bits = reinterpret_cast<uint32_t*>(x.bytes.data());
            for (int64_t k = 0; k < count; ++k) {
                bits[3 * k + 1] = static_cast<uint32_t>(begin + k * stride);
                bits[3 * k + 2] = 0x7FC00000;
            }
            const Array out = Call("ExpSegsum").in("self", x).out("out", ACL_FLOAT, {1, count, 3, 3}).run().at("out");
            const auto* got = reinterpret_cast<const float*>(out.bytes.data());
            for (int64_t k = 0; k < count; ++k) {
                const double argument = std::bit_cast<float>(bits[3 * k + 1]), want = std::exp(argument),
                             value = got[9 * k + 3];
                if (std::isnan(want)) {
                    ASSERT_TRUE(std::isnan(value)) << argument;
                } else if (want >= 0x1p128) {
                    ASSERT_EQ(value, kInf) << argument;
                } else {
                    const double error = std::fabs(std::min(value, 0x1p128) - want) / ulp(want, ACL_FLOAT);
                    ASSERT_LE(error, 1) << isa << " exp(" << argument << ") = " << value;
                    worst = std::max(worst, error);
                }
            }
        }
        RecordProperty("exp_ulp_" + isa, std::to_string(worst));
    }
}

// Both ways to the matrix, products and sums: segments of every length whose sums leave the range and come back.
TEST(ExpSegsum, WideRanges) {
    for (const std::string& isa : instruction_sets()) {
        const Option cap("max_isa", isa);
        for (const aclDataType type : kTypes)
            for (const double scale : {1.0, 10.0, 30.0, 60.0, 150.0}) {
                Random random("ranges");
                SCOPED_TRACE(isa + " " + type_name(type) + " scale " + std::to_string(scale));
                random_forward(random, type, {2, 2, 50}, scale, 0).expect(false);
                Array x(type, {1, 1, 40});  // there and back: the sums end where they began
                for (int64_t i = 0; i < 40; ++i) x.set(i, i < 20 ? -scale : scale);
                Forward(x).expect(false);
            }
    }
}

// 16-bit results from anchor to anchor: rates that f32 can follow and others in one matrix, results that fade through
// the subnormal numbers and come back, sizes around the anchors.
TEST(ExpSegsum, Anchors) {
    for (const std::string& isa : instruction_sets()) {
        const Option cap("max_isa", isa);
        for (const aclDataType type : {ACL_FLOAT16, ACL_BF16})
            for (const int64_t size : {96, 111, 129, 192, 257}) {
                Random random("anchors");
                SCOPED_TRACE(isa + " " + type_name(type) + " " + std::to_string(size));
                for (const double grown : {0.0, 15.0, 30.0}) {
                    Array x = random.filled(type, {2, 2, size}, [&] {
                        return random.chance(0.03) ? random.uniform(-70, 0) : random.uniform(-1, 0);
                    });
                    for (int64_t i = 0; i < x.size(); i += 7) x.set(i, grown * 7 / static_cast<double>(size));
                    Forward(x).expect(false);
                }
                Array constant(type, {1, 1, size});  // e^-0.5 to e^-128
                for (int64_t i = 0; i < size; ++i) constant.set(i, -0.5);
                Forward(constant).expect(false);
            }
    }
}

// The gradient is the derivative of the forward: central differences of fourth order through the C interface.
TEST(ExpSegsum, FiniteDifferences) {
    const Option golden("precision", "golden");
    Random random("differences");
    const int64_t size = 24;
    const Forward f(random.filled(ACL_FLOAT, {1, 1, size}, [&] { return std::round(random.normal(0.3) * 256) / 256; }));
    const Array y = f.call().run().at("out"), g = random.normals(ACL_FLOAT, y.shape);
    const Array dx = Backward(g, y).call().run().at("gradInput");
    const double h = 0x1p-5;  // x ± 2h is exact
    for (int64_t k = 0; k < size; ++k) {
        double slope = 0, scale = 0;
        for (const auto& [step, weight] : std::vector<std::pair<double, double>>{{1, 8}, {-1, -8}, {2, -1}, {-2, 1}}) {
            Array moved = f.x;
            moved.set(k, f.x.at(k) + step * h);
            const Array out = Forward(moved).call().run().at("out");
            for (int64_t i = 0; i < out.size(); ++i) slope += weight * g.at(i) * out.at(i) / (12 * h);
        }
        for (int64_t i = k; i < size; ++i)
            for (int64_t j = 0; j < k; ++j) scale += std::fabs(g.at(i * size + j) * y.at(i * size + j));
        // the fifth derivative of exp is exp; outputs are rounded to f32, also those that do not depend on x[k]
        double rounding = 0;
        for (int64_t i = 0; i < y.size(); ++i) rounding += std::fabs(g.at(i) * y.at(i));
        EXPECT_NEAR(dx.at(k), slope, scale * (h * h * h * h / 30 * 1.1 + kU) + 2 * kU * rounding / h) << k;
    }
}

// Golden is the reference rounded once.
TEST(ExpSegsum, Golden) {
    const Option golden("precision", "golden");
    Random random("golden");
    for (const aclDataType type : kTypes) {
        const Forward f = random_forward(random, type, {2, 2, 61});
        const Backward b = random_backward(random, type, {2, 2, 61});
        const Array y = f.call().run().at("out"), dx = b.call().run().at("gradInput");
        int64_t differ = 0;
        for (int64_t i = 0; i < y.size(); ++i) differ += y.at(i) != rounded(f.want[static_cast<size_t>(i)], type);
        for (int64_t i = 0; i < dx.size(); ++i) differ += dx.at(i) != rounded(b.want[static_cast<size_t>(i)], type);
        EXPECT_LE(differ, 2) << type_name(type) << ": f64 itself may straddle a boundary once in a great while";
        for (Call call : {f.call().layout("out", transposed(f.shape)), f.call().layout("self", stepped(f.x.shape, 3))})
            EXPECT_EQ(first_difference(call.run().at("out"), y), -1);
        Call strided = b.call().layout("gradSelf", transposed(b.y.shape)).layout("gradInput", stepped(b.shape, 2));
        EXPECT_EQ(first_difference(strided.run().at("gradInput"), dx), -1);
    }
}

// The judge sees every planted fault in every dtype, so the tests above can fail.
TEST(ExpSegsum, PlantedFaultsAreSeen) {
    Random random("faults");
    for (const aclDataType type : kTypes) {
        const Forward f = random_forward(random, type, {2, 2, 41});
        const Backward b = random_backward(random, type, {5, 9, 41});
        const auto see = [&](const char* what, const Array& wrong, const auto& p, Promise promise) {
            EXPECT_NE(judge(wrong, p.want, p.slack, Promise::summed) + judge_by_cann(wrong, p.want, promise), "")
                << what << " in " << type_name(type);
        };
        const auto rounded_array = [&](const Shape& shape, const auto& value) {
            Array array(type, shape);
            for (int64_t i = 0; i < array.size(); ++i) array.set(i, value(i));
            return array;
        };
        const Array y = rounded_array(f.shape, [&](int64_t i) { return f.want[static_cast<size_t>(i)]; });
        const Array dx = rounded_array(b.shape, [&](int64_t i) { return b.want[static_cast<size_t>(i)]; });
        EXPECT_EQ(judge(y, f.want, f.slack, Promise::summed) + judge_by_cann(y, f.want, Promise::elementwise), "");
        EXPECT_EQ(judge(dx, b.want, b.slack, Promise::summed) + judge_by_cann(dx, b.want, Promise::summed), "");
        for (const Fault fault : kFaults) {
            see(fault_name(fault), plant(fault, type, f.shape, f.want), f, Promise::elementwise);
            see(fault_name(fault), plant(fault, type, b.shape, b.want), b, Promise::summed);
        }
        // faults of this family: a diagonal that counts, the row of the other side, a segment one too long
        const auto sums = [&](int64_t shift_row, int64_t shift_column) {
            return rounded_array(b.shape, [&](int64_t at) {
                const int64_t size = 41, m = at / size, k = at % size;
                double sum = 0;
                for (int64_t i = std::min(k + shift_row, size); i < size; ++i)
                    for (int64_t j = 0; j < std::min(k + shift_column, i); ++j)
                        sum += b.g.at((m * size + i) * size + j) * b.y.at((m * size + i) * size + j);
                return sum;
            });
        };
        EXPECT_EQ(judge(sums(0, 0), b.want, b.slack, Promise::summed), "");
        see("rows from k + 1", sums(1, 0), b, Promise::summed);
        see("columns to k", sums(0, 1), b, Promise::summed);
        see("segments from j",
            rounded_array(f.shape,
                          [&](int64_t at) {
                              const int64_t size = 41, m = at / (size * size), i = at / size % size, j = at % size;
                              return f.want[static_cast<size_t>(at)] *
                                     (j < i ? std::exp(f.x.at(m * size + j) - f.x.at(m * size + i)) : 1);
                          }),
            f, Promise::elementwise);
    }
}

}  // namespace
}  // namespace gradus::testing
