// ScaledMaskedSoftmax and ScaledMaskedSoftmaxBackward against the formula in f64, through the public C interface.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "ops/scaled_masked_softmax/test_problem.h"
#include "testing/judge.h"

namespace gradus::testing {
namespace {

Call example(aclDataType type) {
    Array numbers(type, {2, 2, 2, 2});
    for (int64_t i = 0; i < 16; ++i) numbers.set(i, static_cast<double>(i + 1));
    return Call("ScaledMaskedSoftmaxBackward")
        .in("gradOutput", numbers)
        .in("y", numbers)
        .in("mask", filled(ACL_BOOL, {2, 2, 2, 2}, {1, 1, 0, 0}))
        .real("scale", 1)
        .boolean("fixTriuMask", false)
        .out("out", type, {2, 2, 2, 2});
}

TEST(ScaledMaskedSoftmax, KnownAnswer) {
    for (const aclDataType type : kTypes) {
        const Array out = example(type).run().at("out");
        for (int64_t i = 0; i < 16; ++i)
            EXPECT_EQ(out.at(i), rounded(kExample[static_cast<size_t>(i)], type)) << type_name(type) << " " << i;
        // softmax of (ln 1, ln 2, ln 5) and of a row without a choice
        Array x(ACL_FLOAT, {1, 1, 2, 3});
        for (int64_t i = 0; i < 6; ++i) x.set(i, std::log(std::vector<double>{1, 2, 5}[static_cast<size_t>(i % 3)]));
        const Problem p(x, filled(ACL_BOOL, {1, 1, 2, 3}, {0, 0, 0, 1, 1, 1}), x, 1);
        const Array y = p.forward().run().at("y");
        for (const auto& [i, want] : std::vector<std::pair<int64_t, double>>{
                 {0, 0.125}, {1, 0.25}, {2, 0.625}, {3, 1.0 / 3}, {4, 1.0 / 3}, {5, 1.0 / 3}})
            EXPECT_NEAR(y.at(i), want, 1e-6) << i;
    }
}

// Lengths around every SIMD width, block of a sum and piece of a row, on every instruction set.
TEST(ScaledMaskedSoftmax, Lengths) {
    const Option off("limits", "off");
    for (const std::string& isa : instruction_sets()) {
        const Option cap("max_isa", isa);
        for (const aclDataType type : kTypes) {
            Random random("lengths");
            for (const int64_t n : {1,   2,   3,   7,   8,   9,   15,  16,   17,   31,   32,   33,   63,   64,  65,
                                    127, 129, 255, 256, 257, 511, 513, 1023, 1025, 2049, 4095, 4096, 4097, 9001}) {
                SCOPED_TRACE(isa + " " + type_name(type) + " n " + std::to_string(n) + " " + random.repeat());
                random_problem(random, type, {1, 2, 2, n}).expect();
            }
        }
    }
}

// Every way a mask can be shared, by size 1 and by stride 0.
TEST(ScaledMaskedSoftmax, SharedMasks) {
    Random random("masks");
    const Shape shape = {3, 4, 5, 37};
    for (const Shape& mask : std::vector<Shape>{{3, 4, 5, 37}, {3, 1, 5, 37}, {1, 4, 5, 37}, {1, 1, 5, 37}})
        for (const aclDataType type : kTypes) {
            SCOPED_TRACE(text(mask) + " " + type_name(type));
            const Problem p = random_problem(random, type, shape, mask);
            p.expect();
            Call forward = p.forward(), backward = p.backward();
            for (Call* call : {&forward, &backward}) {  // the same mask as a view of full size
                Call::Tensor& m = call->tensor("mask");
                const Layout small = dense(mask);
                Array full(ACL_BOOL, shape);
                for (int64_t i = 0; i < full.size(); ++i) full.set(i, p.mask.at(mask_index(shape, mask, i)));
                m.values = full;
                m.layout = small;
                for (const size_t d : {size_t{0}, size_t{1}})
                    if (mask[d] == 1) m.layout.stride[d] = 0;
            }
            p.expect(forward.run(), backward.run());
        }
}

TEST(ScaledMaskedSoftmax, Views) {
    Random random("views");
    for (int i = 0; i < 80 * rounds(); ++i) {
        Shape shape;
        for (int d = 0; d < 3; ++d) shape.push_back(random.pick<int64_t>({1, 2, 3, 5, 8}));
        shape.push_back(random.pick<int64_t>({1, 2, 5, 17, 40, 300}));
        Shape mask = shape;
        for (const size_t d : {size_t{0}, size_t{1}})
            if (random.chance(0.4)) mask[d] = 1;
        const Problem p = random_problem(random, random.pick<aclDataType>({ACL_FLOAT, ACL_FLOAT16, ACL_BF16}), shape,
                                         mask, random.pick<double>({0.5, 3, 15}), random.pick<double>({0.125, 1, -2}));
        Call forward = p.forward(), backward = p.backward();
        for (Call* call : {&forward, &backward})
            for (Call::Tensor& tensor : call->tensors) tensor.layout = random.layout(tensor.values.shape);
        SCOPED_TRACE("case " + std::to_string(i) + " " + text(shape) + " mask " + text(mask) + " " + random.repeat());
        p.expect(forward.run(), backward.run());
    }
}

// Broadcast inputs, everything transposed, outputs that interleave without touching, and chunks of gathered rows.
TEST(ScaledMaskedSoftmax, ParticularViews) {
    Random random("particular");
    for (const aclDataType type : kTypes) {
        const Shape shape = {2, 3, 150, 301};
        const Problem p = random_problem(random, type, shape, {2, 1, 150, 301});
        Call forward = p.forward(), backward = p.backward();
        forward.layout("x", transposed(shape))
            .layout("mask", transposed({2, 1, 150, 301}))
            .layout("y", stepped(shape, 2));
        backward.layout("gradOutput", transposed(shape))
            .layout("y", stepped(shape, 3))
            .layout("mask", padded({2, 1, 150, 301}, 3))
            .layout("out", transposed(shape));
        p.expect(forward.run(), backward.run());
    }
    for (int d = 0; d < 4; ++d) {  // constant along d
        const Shape shape = {3, 2, 5, 20};
        Array x(ACL_FLOAT, shape), m(ACL_BOOL, shape);
        int64_t below = 1;
        for (size_t k = static_cast<size_t>(d) + 1; k < 4; ++k) below *= shape[k];
        for (int64_t i = 0; i < x.size(); ++i) {
            const int64_t key = i / below / shape[static_cast<size_t>(d)] * below + i % below;
            x.set(i, std::sin(static_cast<double>(key))), m.set(i, static_cast<double>(key % 3 == 0));
        }
        const Problem p(x, m, x, 1.5);
        Call forward = p.forward(), backward = p.backward();
        forward.layout("x", broadcast(shape, d)).layout("mask", broadcast(shape, d));
        backward.layout("gradOutput", broadcast(shape, d)).layout("mask", broadcast(shape, d));
        SCOPED_TRACE(d);
        p.expect(forward.run(), backward.run());
    }
    const Problem small = random_problem(random, ACL_FLOAT, {1, 1, 2, 3});
    Call forward = small.forward();
    forward.layout("y", {{1, 1, 3, 2}, 0, 8});
    small.expect(forward.run(), small.backward().run());
}

TEST(ScaledMaskedSoftmax, ModelShapes) {
    Random random("models");
    for (const auto& [shape, mask] : std::vector<std::pair<Shape, Shape>>{{{2, 8, 33, 1024}, {2, 1, 33, 1024}},
                                                                          {{1, 4, 40, 2048}, {1, 1, 40, 2048}},
                                                                          {{1, 2, 17, 4096}, {1, 1, 17, 4096}},
                                                                          {{3, 6, 64, 512}, {3, 1, 64, 512}}})
        for (const aclDataType type : kTypes) {
            SCOPED_TRACE(text(shape) + " " + type_name(type));
            Call forward = random_problem(random, type, shape, mask).forward();
            forward.max_workspace = 0;
            random_problem(random, type, shape, mask, 3, 0.125).expect();
            EXPECT_FALSE(forward.run().empty());
        }
}

// A sum of equal terms shows how long its chains are: every addition errs in the same direction.
TEST(ScaledMaskedSoftmax, LongSums) {
    const Option off("limits", "off");
    for (const std::string& isa : instruction_sets()) {
        const Option cap("max_isa", isa);
        for (const int64_t n : {100, 500, 4096, 4100, 70000, 300001})
            for (const double value : {0.1, 1.0 / 3, 0.7}) {
                SCOPED_TRACE(isa + " n " + std::to_string(n) + " value " + std::to_string(value));
                Array x = filled(ACL_FLOAT, {1, 1, 1, n}, {value}), none(ACL_BOOL, {1, 1, 1, n});
                x.set(n / 2, 2);
                const Problem p(x, none, x, 1);
                p.expect();
            }
    }
}

// Large enough to be written past the cache, with rows that start anywhere: the bits of the parts computed alone.
TEST(ScaledMaskedSoftmax, Streaming) {
    const Shape shape = {9, 1, 970, 2051};
    Array x(ACL_BF16, shape), g(ACL_BF16, shape), mask(ACL_BOOL, {1, 1, 970, 2051});
    Random random("streaming");
    for (Array* array : {&x, &g})  // a period that no width divides keeps the test quick
        for (int64_t i = 0; i < array->size(); ++i) array->set(i, i < 10007 ? random.normal(2) : array->at(i - 10007));
    for (int64_t i = 0; i < mask.size(); ++i) mask.set(i, static_cast<double>(i % 2051 > i / 2051));
    const auto calls = [&](const Array& values, const Array& grads) {
        return std::pair(Call("ScaledMaskedSoftmax")
                             .in("x", values)
                             .in("mask", mask)
                             .real("scale", 0.5)
                             .out("y", ACL_BF16, values.shape),
                         Call("ScaledMaskedSoftmaxBackward")
                             .in("gradOutput", grads)
                             .in("y", values)
                             .in("mask", mask)
                             .real("scale", 0.5)
                             .out("out", ACL_BF16, values.shape));
    };
    auto [forward, backward] = calls(x, g);
    const Array y = forward.run().at("y"), out = backward.run().at("out");
    for (const int64_t b : {0, 4, 8}) {
        auto [part_forward, part_backward] = calls(slice(x, b, b + 1), slice(g, b, b + 1));
        EXPECT_EQ(first_difference(part_forward.run().at("y"), slice(y, b, b + 1)), -1);
        EXPECT_EQ(first_difference(part_backward.run().at("out"), slice(out, b, b + 1)), -1);
    }
}

TEST(ScaledMaskedSoftmax, MaskedIsAbsent) {
    const double nan = std::nan(""), inf = HUGE_VAL;
    for (const std::string& isa : instruction_sets()) {
        const Option cap("max_isa", isa);
        for (const aclDataType type : kTypes)
            for (const int64_t n : {5, 40, 700}) {
                SCOPED_TRACE(isa + " " + type_name(type) + " n " + std::to_string(n));
                Random random("masked");
                const Problem p = random_problem(random, type, {1, 2, 6, n});
                Array dirty = p.x, all = filled(ACL_BOOL, p.mask.shape, {1});
                for (int64_t i = 0; i < dirty.size(); ++i)
                    if (p.mask.at(i) != 0) dirty.set(i, random.pick<double>({nan, inf, -inf}));
                Call forward = p.forward();
                const Array clean = forward.run().at("y");
                forward.tensor("x").values = dirty;
                EXPECT_EQ(first_difference(forward.run().at("y"), clean), -1)
                    << "what is masked is never read into a result";
                // a row without an unmasked element is uniform
                forward.tensor("mask").values = all;
                const Array uniform = forward.run().at("y");
                for (int64_t i = 0; i < uniform.size(); ++i)
                    ASSERT_EQ(uniform.at(i), rounded(static_cast<float>(1.0 / static_cast<double>(n)), type)) << i;
                // the gradient's sum takes the whole row: NaN where masked is NaN in the rest of its row, and 0 where
                // masked
                Call backward = p.backward();
                const Array good = backward.run().at("out");
                for (int64_t i = 2 * n; i < 3 * n; ++i)
                    if (p.mask.at(i) != 0) backward.tensor("gradOutput").values.set(i, nan);
                bool spoiled = false;
                for (int64_t i = 2 * n; i < 3 * n; ++i) spoiled |= p.mask.at(i) != 0;
                const Array out = backward.run().at("out");
                for (int64_t i = 0; i < out.size(); ++i) {
                    if (p.mask.at(i) != 0)
                        ASSERT_EQ(out.at(i), 0) << i;
                    else if (spoiled && i / n == 2)
                        ASSERT_TRUE(std::isnan(out.at(i))) << i;
                    else
                        ASSERT_EQ(out.at(i), good.at(i)) << i;
                }
            }
    }
}

// Rows with one or two special values among ordinary ones; the reference is IEEE's evaluation of the formula.
TEST(ScaledMaskedSoftmax, SpecialValues) {
    const double inf = HUGE_VAL, nan = std::nan("");
    const std::vector<double> specials = {nan, -nan, inf, -inf, 0.0, -0.0, 1e-40, -3e38, 60000, 1};
    for (const std::string& isa : instruction_sets()) {
        const Option cap("max_isa", isa);
        for (const aclDataType type : kTypes)
            for (const double scale : {1.0, -0.5, 0.0}) {
                const int64_t n = 21, count = static_cast<int64_t>(specials.size());
                Array x(type, {1, count, count, n}), g(type, x.shape), mask(ACL_BOOL, {1, 1, count, n});
                for (int64_t i = 0; i < x.size(); ++i)
                    x.set(i, std::sin(static_cast<double>(i))), g.set(i, std::cos(static_cast<double>(i)));
                for (int64_t i = 0; i < mask.size(); ++i) mask.set(i, static_cast<double>(i % n == 3));
                for (int64_t a = 0; a < count; ++a)
                    for (int64_t b = 0; b < count; ++b)
                        for (Array* array : {&x, &g}) {
                            array->set((a * count + b) * n + 7, specials[static_cast<size_t>(a)]);
                            array->set((a * count + b) * n + 20, specials[static_cast<size_t>(b)]);
                        }
                SCOPED_TRACE(isa + " " + type_name(type) + " scale " + std::to_string(scale));
                Problem p(x, mask, g, scale);
                p.expect(false);
                p.y = random_problem(*std::make_unique<Random>("y"), type, x.shape).y;  // a forward without NaN
                p.backward_answer = gradient(g, p.y, mask, scale);
                p.expect(false);
            }
    }
    // a scale whose bits are all set is a NaN in 16 bits, too
    for (const aclDataType type : kTypes) {
        const Array x = filled(type, {1, 1, 2, 70}, {1}), none(ACL_BOOL, x.shape);
        const Problem spoilt(x, none, x, std::bit_cast<double>(~uint64_t{0} >> 1));
        const Array y = spoilt.forward().run().at("y"), out = spoilt.backward().run().at("out");
        for (int64_t i = 0; i < x.size(); ++i) ASSERT_TRUE(is_the_nan(y, i) && is_the_nan(out, i)) << i;
    }
    // every score −inf is NaN, but for masked ones, which are larger
    const Problem p(filled(ACL_FLOAT, {1, 1, 2, 4}, {-inf}), filled(ACL_BOOL, {1, 1, 2, 4}, {0, 0, 0, 0, 0, 1, 1, 0}),
                    Array(ACL_FLOAT, {1, 1, 2, 4}), 1);
    const Array y = p.forward().run().at("y");
    for (int64_t i = 0; i < 4; ++i) EXPECT_TRUE(std::isnan(y.at(i)));
    for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(y.at(4 + i), i == 1 || i == 2 ? 0.5 : 0);
}

TEST(ScaledMaskedSoftmax, Scales) {
    Random random("scales");
    for (const aclDataType type : kTypes)
        for (const double scale :
             {0.0, -0.0, 1.0, -1.0, 0.08838834764831845, 1e-3, -3.0, 300.0, 1e4, 1e-30, 1e-300, 1e20})
            for (const double share : {0.0, 0.5}) {
                SCOPED_TRACE(std::string(type_name(type)) + " scale " + std::to_string(scale));
                const Shape shape = {1, 2, 4, 70};
                const Problem p(random.normals(type, shape), random_mask(random, shape, share),
                                random.normals(type, shape), scale);
                p.expect(false);
            }
    // masked scores are −10000, not −inf: a row of lower ones belongs to them
    const Problem low(filled(ACL_FLOAT, {1, 1, 1, 4}, {-1, -1.0001, -2, -0.9999}),
                      filled(ACL_BOOL, {1, 1, 1, 4}, {0, 0, 1, 0}), Array(ACL_FLOAT, {1, 1, 1, 4}), 1e4);
    low.expect(false);
    EXPECT_GT(low.forward().run().at("y").at(3), 0.4);
}

// The gradient is the derivative of the forward: central differences of fourth order through the C interface.
TEST(ScaledMaskedSoftmax, FiniteDifferences) {
    const Option golden("precision", "golden");
    Random random("differences");
    const Shape shape = {2, 3, 5, 12};
    const double scale = 0.75, h = 0x1p-4;
    // scores are multiples of 2^-8: a step of h is exact
    const Problem p(random.filled(ACL_FLOAT, shape, [&] { return std::round(random.normal(1.5) * 256) / 256; }),
                    random_mask(random, shape, 0.3), random.normals(ACL_FLOAT, shape), scale);
    Call backward = p.backward();
    backward.tensor("y").values = p.forward().run().at("y");
    const Array dx = backward.run().at("out");
    for (int64_t column = 0; column < shape[3]; ++column) {  // rows are independent: the same column of all at once
        std::vector<double> slope(static_cast<size_t>(dx.size() / shape[3]));
        for (const auto& [step, weight] : std::vector<std::pair<double, double>>{{1, 8}, {-1, -8}, {2, -1}, {-2, 1}}) {
            Call moved = p.forward();
            Array& x = moved.tensor("x").values;
            for (int64_t i = column; i < x.size(); i += shape[3]) x.set(i, x.at(i) + step * h);
            const Array y = moved.run().at("y");
            for (int64_t i = 0; i < y.size(); ++i)
                slope[static_cast<size_t>(i / shape[3])] += p.g.at(i) * weight * y.at(i) / (12 * h);
        }
        for (size_t row = 0; row < slope.size(); ++row) {
            double size = 0;
            for (int64_t i = 0; i < shape[3]; ++i) size += std::fabs(p.g.at(static_cast<int64_t>(row) * shape[3] + i));
            // truncation h⁴/30·|f⁽⁵⁾|, |f⁽⁵⁾| ≤ scale⁵·Σ|g|/4; y is rounded to f32 in four places
            EXPECT_NEAR(dx.at(static_cast<int64_t>(row) * shape[3] + column), slope[row],
                        size * (h * h * h * h / 120 + 3 * kU / h))
                << row << " " << column;
        }
    }
}

// Golden is the reference rounded once.
TEST(ScaledMaskedSoftmax, Golden) {
    const Option golden("precision", "golden");
    Random random("golden");
    for (const aclDataType type : kTypes) {
        const Problem p = random_problem(random, type, {2, 3, 7, 101}, {1, 3, 7, 101}, 4);
        const Array y = p.forward().run().at("y"), dx = p.backward().run().at("out");
        int64_t differ = 0;
        for (int64_t i = 0; i < y.size(); ++i)
            differ += y.at(i) != rounded(p.forward_answer.value[static_cast<size_t>(i)], type);
        for (int64_t i = 0; i < dx.size(); ++i)
            differ += dx.at(i) != rounded(p.backward_answer.value[static_cast<size_t>(i)], type);
        EXPECT_LE(differ, 2) << type_name(type) << ": f64 itself may straddle a boundary once in a great while";
        p.expect(p.forward().run(), p.backward().run());
    }
}

// The judge sees every planted fault in every dtype, so the tests above can fail.
TEST(ScaledMaskedSoftmax, PlantedFaultsAreSeen) {
    Random random("faults");
    for (const aclDataType type : kTypes) {
        const Shape shape = {1, 5, 10, 41};
        const Problem p(random.normals(type, shape, 2), random_mask(random, shape, 0.2), random.normals(type, shape),
                        0.7);
        for (const Answer* answer : {&p.forward_answer, &p.backward_answer}) {
            Array right(type, shape);
            for (int64_t i = 0; i < right.size(); ++i) right.set(i, answer->value[static_cast<size_t>(i)]);
            EXPECT_EQ(judge(right, answer->value, answer->slack, Promise::summed), "");
            for (const Fault fault : kFaults) {
                const Array wrong = plant(fault, type, shape, answer->value);
                EXPECT_NE(judge(wrong, answer->value, answer->slack, Promise::summed), "")
                    << fault_name(fault) << " in " << type_name(type);
            }
        }
        // faults of this family: a sum without masked elements, a mask forgotten
        const Array y = random.filled(type, shape, [&] { return random.uniform(0, 0.1); });
        const Answer right = gradient(p.g, y, p.mask, p.scale),
                     forgotten = gradient(p.g, y, Array(ACL_BOOL, shape), p.scale);
        Array visible = y;
        for (int64_t i = 0; i < y.size(); ++i)
            if (p.mask.at(i) != 0) visible.set(i, 0);
        for (const Answer& answer : {forgotten, gradient(p.g, visible, p.mask, p.scale)}) {
            Array wrong(type, shape);
            for (int64_t i = 0; i < wrong.size(); ++i) wrong.set(i, answer.value[static_cast<size_t>(i)]);
            EXPECT_NE(judge(wrong, right.value, right.slack, Promise::summed), "") << type_name(type);
        }
    }
}

}  // namespace
}  // namespace gradus::testing
