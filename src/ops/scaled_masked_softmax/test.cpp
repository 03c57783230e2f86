// ScaledMaskedSoftmax and ScaledMaskedSoftmaxBackward against the formula in f64, through the public C interface.
#include <gtest/gtest.h>

#include <cmath>

#include "aclnnop/aclnn_scaled_masked_softmax.h"
#include "aclnnop/aclnn_scaled_masked_softmax_backward.h"
#include "testing/battery.h"
#include "testing/judge.h"

namespace gradus::testing {
namespace {

constexpr aclDataType kTypes[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};
constexpr double kTiny = 0x1p-149;

struct Answer {
    std::vector<double> value, slack;
};

// Element i of an array of `shape` in a mask whose first two dims may be 1.
int64_t mask_index(const Shape& shape, const Shape& mask, int64_t i) {
    const int64_t matrix = shape[2] * shape[3], b = i / matrix / shape[1], h = i / matrix % shape[1];
    return ((mask[0] == 1 ? 0 : b) * mask[1] + (mask[1] == 1 ? 0 : h)) * matrix + i % matrix;
}

// y = softmax(z). Roundings that meet in e_i = exp(z_i − max z): the product z_i (U·|z_i|; none where masked), the
// difference (U·|z_i − max z|), exp itself (1 ulp = 2 U). An error of max z is common to all e and cancels. The sum of
// all e carries theirs, weighted by y, and its own (8 + log2 n)·U; the division is a reciprocal and a product (2 U).
Answer softmax(const Array& x, const Array& mask, double scale_) {
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
Answer gradient(const Array& g, const Array& y, const Array& mask, double scale_) {
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
Array random_mask(Random& random, const Shape& shape, double share) {
    return random.filled(ACL_BOOL, shape, [&] {
        return random.chance(share) ? random.pick<double>({1, 1, 2, 128, 255}) : 0;
    });
}

Problem random_problem(Random& random, aclDataType type, const Shape& shape, Shape mask = {}, double spread = 2,
                       double scale = 0.7) {
    if (mask.empty()) mask = shape;
    Array x = random.normals(type, shape, spread),
          m = random_mask(random, mask, random.pick<double>({0.0, 0.3, 0.5, 0.9}));
    return {std::move(x), std::move(m), random.normals(type, shape), scale};
}

Array filled(aclDataType type, const Shape& shape, const std::vector<double>& values) {
    Array array(type, shape);
    for (int64_t i = 0; i < array.size(); ++i) array.set(i, values[static_cast<size_t>(i) % values.size()]);
    return array;
}

const std::vector<double> kExample = {0, 0, -66, -84, 0, 0, -742, -840, 0, 0, -2794, -3036, 0, 0, -6990, -7440};

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

// The interface as a program calls it, not by name.
TEST(ScaledMaskedSoftmax, CFunctions) {
    stream();
    void* memory = nullptr;
    ASSERT_EQ(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    auto* base = static_cast<std::byte*>(memory);
    float numbers[16];
    char mask[16];
    for (int i = 0; i < 16; ++i) numbers[i] = static_cast<float>(i + 1), mask[i] = i % 4 < 2;
    ASSERT_EQ(aclrtMemcpy(base, 64, numbers, 64, ACL_MEMCPY_HOST_TO_DEVICE), 0);
    ASSERT_EQ(aclrtMemcpy(base + 512, 16, mask, 16, ACL_MEMCPY_HOST_TO_DEVICE), 0);
    const int64_t shape[4] = {2, 2, 2, 2};
    const auto tensor = [&](aclDataType type, int64_t at) {
        return aclCreateTensor(shape, 4, type, nullptr, 0, ACL_FORMAT_ND, shape, 4, base + at);
    };
    aclTensor *x = tensor(ACL_FLOAT, 0), *m = tensor(ACL_BOOL, 512), *y = tensor(ACL_FLOAT, 1024),
              *out = tensor(ACL_FLOAT, 2048);
    uint64_t size = 1;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(aclnnScaledMaskedSoftmaxGetWorkspaceSize(x, m, 2.0, false, y, &size, &executor), 0) << take_message();
    EXPECT_EQ(size, 0u);
    ASSERT_EQ(aclnnScaledMaskedSoftmax(nullptr, 0, executor, stream()), 0) << take_message();
    ASSERT_EQ(aclnnScaledMaskedSoftmaxBackwardGetWorkspaceSize(x, x, m, 1.0, false, out, &size, &executor), 0)
        << take_message();
    EXPECT_EQ(size, 0u);
    ASSERT_EQ(aclnnScaledMaskedSoftmaxBackward(nullptr, 0, executor, stream()), 0) << take_message();
    for (aclTensor* t : {x, m, y, out}) EXPECT_EQ(aclDestroyTensor(t), 0);
    ASSERT_EQ(aclrtSynchronizeStream(stream()), 0);
    float result[16];
    ASSERT_EQ(aclrtMemcpy(result, 64, base + 2048, 64, ACL_MEMCPY_DEVICE_TO_HOST), 0);
    for (size_t i = 0; i < 16; ++i) EXPECT_EQ(result[i], kExample[i]) << i;
    ASSERT_EQ(aclrtMemcpy(result, 64, base + 1024, 64, ACL_MEMCPY_DEVICE_TO_HOST), 0);
    for (size_t i = 0; i < 16; ++i)
        EXPECT_NEAR(result[i], i % 4 < 2 ? 0.5 : i % 4 == 2 ? 0.119203 : 0.880797, 1e-6) << i;
    EXPECT_EQ(aclrtFree(memory), 0);
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
    const std::vector<double> specials = {nan, inf, -inf, 0.0, -0.0, 1e-40, -3e38, 60000, 1};
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

TEST(ScaledMaskedSoftmax, SameBits) {
    Random random("bits");
    for (const aclDataType type : kTypes) {
        const Shape shape = {2, 5, 130, 263};
        const Problem p = random_problem(random, type, shape, {2, 1, 130, 263});
        expect_same_bits([&] { return p.backward(); });
        expect_same_bits([&] { return p.forward(); });
        // gathered and scattered
        const auto against_the_grain = [&](Call call) {
            for (Call::Tensor& tensor : call.tensors) tensor.layout = transposed(tensor.values.shape);
            return call;
        };
        expect_same_bits([&] { return against_the_grain(p.backward()); });
        expect_same_bits([&] { return against_the_grain(p.forward()); });
        EXPECT_EQ(first_difference(against_the_grain(p.backward()).run().at("out"), p.backward().run().at("out")), -1);
        EXPECT_EQ(first_difference(against_the_grain(p.forward()).run().at("y"), p.forward().run().at("y")), -1);
    }
}

TEST(ScaledMaskedSoftmax, RowsAloneAreTheRowsOfTheWhole) {
    Random random("rows");
    for (const aclDataType type : kTypes) {
        const Problem whole = random_problem(random, type, {4, 6, 11, 129});
        const Array out = whole.backward().run().at("out"), y = whole.forward().run().at("y");
        const auto part = [](Array a, const Shape& shape, int64_t begin, int64_t end) {  // of dim 0 of the given shape
            a.shape = shape;
            Array cut = slice(a, begin, end);
            while (cut.shape.size() < 4) cut.shape.insert(cut.shape.begin(), 1);
            return cut;
        };
        for (const Shape& shape : std::vector<Shape>{{4, 6, 11, 129}, {24, 11, 129}, {264, 129}})
            for (const auto& [begin, end] : std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {1, 4}, {3, 4}}) {
                const auto cut = [&](const Array& a) { return part(a, shape, begin, end); };
                Call forward = whole.forward(), backward = whole.backward();
                for (Call* call : {&forward, &backward})
                    for (Call::Tensor& tensor : call->tensors)
                        tensor.values = cut(tensor.values), tensor.layout = dense(tensor.values.shape);
                EXPECT_EQ(first_difference(backward.run().at("out"), cut(out)), -1);
                EXPECT_EQ(first_difference(forward.run().at("y"), cut(y)), -1);
            }
    }
}

// y may be exactly x, out may be exactly gradOutput or y; one element further is refused (expect_executor_rules).
TEST(ScaledMaskedSoftmax, InPlace) {
    Random random("in place");
    for (const bool turned : {false, true}) {
        const Shape shape = {2, 3, 40, 70};
        const Layout layout = turned ? transposed(shape) : dense(shape);
        const Problem p = random_problem(random, ACL_FLOAT, shape, {2, 1, 40, 70});
        const Array y = p.forward().run().at("y"), out = p.backward().run().at("out");
        const auto bytes = p.x.bytes.size();
        std::vector<void*> memory(3);
        for (void*& m : memory) ASSERT_EQ(aclrtMalloc(&m, bytes, ACL_MEM_MALLOC_HUGE_FIRST), 0);
        // dense values through the layout and back
        const auto place = [&](const Array& a, bool from) {
            Array to = a;
            int64_t i = 0;
            for (int64_t b = 0; b < 2; ++b)
                for (int64_t h = 0; h < 3; ++h)
                    for (int64_t s = 0; s < 40; ++s)
                        for (int64_t k = 0; k < 70; ++k, ++i) {
                            const int64_t at = b * layout.stride[0] + h * layout.stride[1] + s * layout.stride[2] +
                                               k * layout.stride[3];
                            if (from)
                                to.set(i, a.at(at));
                            else
                                to.set(at, a.at(i));
                        }
            return to;
        };
        const auto tensor = [&](aclDataType type, const Shape& sizes, const std::vector<int64_t>& stride, void* at) {
            const int64_t storage = numel(sizes);
            return aclCreateTensor(sizes.data(), 4, type, stride.data(), 0, ACL_FORMAT_ND, &storage, 1, at);
        };
        aclTensor *a = tensor(ACL_FLOAT, shape, layout.stride, memory[0]),
                  *b = tensor(ACL_FLOAT, shape, layout.stride, memory[1]);
        aclTensor* mask = tensor(ACL_BOOL, p.mask.shape, dense(p.mask.shape).stride, memory[2]);
        const auto upload = [&](void* to, const Array& values) {
            ASSERT_EQ(aclrtMemcpy(to, bytes, values.bytes.data(), values.bytes.size(), ACL_MEMCPY_HOST_TO_DEVICE), 0);
        };
        upload(memory[2], p.mask);
        const auto run = [&](bool forward, aclTensor* result, void* at, const Array& want) {
            uint64_t size = 0;
            aclOpExecutor* executor = nullptr;
            void* workspace = nullptr;
            upload(memory[0], place(forward ? p.x : p.g, false));
            upload(memory[1], place(p.y, false));
            ASSERT_EQ(forward
                          ? aclnnScaledMaskedSoftmaxGetWorkspaceSize(a, mask, p.scale, false, result, &size, &executor)
                          : aclnnScaledMaskedSoftmaxBackwardGetWorkspaceSize(a, b, mask, p.scale, false, result, &size,
                                                                             &executor),
                      0)
                << take_message();
            if (size > 0) ASSERT_EQ(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST), 0);
            ASSERT_EQ(forward ? aclnnScaledMaskedSoftmax(workspace, size, executor, stream())
                              : aclnnScaledMaskedSoftmaxBackward(workspace, size, executor, stream()),
                      0)
                << take_message();
            ASSERT_EQ(aclrtSynchronizeStream(stream()), 0);
            Array got(ACL_FLOAT, shape);
            ASSERT_EQ(aclrtMemcpy(got.bytes.data(), bytes, at, bytes, ACL_MEMCPY_DEVICE_TO_HOST), 0);
            EXPECT_EQ(first_difference(place(got, true), want), -1) << (turned ? "transposed" : "dense");
            if (workspace != nullptr) EXPECT_EQ(aclrtFree(workspace), 0);
        };
        run(true, a, memory[0], y);
        run(false, a, memory[0], out);
        run(false, b, memory[1], out);
        for (aclTensor* t : {a, b, mask}) EXPECT_EQ(aclDestroyTensor(t), 0);
        for (void* m : memory) EXPECT_EQ(aclrtFree(m), 0);
    }
}

TEST(ScaledMaskedSoftmax, Empty) {
    const auto calls = [](const Shape& shape, const Shape& mask) {
        return std::vector<Call>{Call("ScaledMaskedSoftmax")
                                     .in("x", Array(ACL_FLOAT16, shape))
                                     .in("mask", Array(ACL_BOOL, mask))
                                     .real("scale", 1)
                                     .out("y", ACL_FLOAT16, shape),
                                 Call("ScaledMaskedSoftmaxBackward")
                                     .in("gradOutput", Array(ACL_FLOAT16, shape))
                                     .in("y", Array(ACL_FLOAT16, shape))
                                     .in("mask", Array(ACL_BOOL, mask))
                                     .real("scale", 1)
                                     .out("out", ACL_FLOAT16, shape)};
    };
    for (const auto& [shape, mask] : std::vector<std::pair<Shape, Shape>>{{{0, 2, 3, 4}, {1, 1, 3, 4}},
                                                                          {{2, 0, 3, 4}, {2, 0, 3, 4}},
                                                                          {{2, 3, 0, 4}, {2, 1, 0, 4}},
                                                                          {{2, 3, 4, 0}, {1, 1, 4, 0}}})
        for (Call& call : calls(shape, mask)) {
            const bool limited = shape[3] == 0;
            const Call::Answer answer = call.ask();
            EXPECT_EQ(answer.code, limited ? 161002 : 0) << answer.message;
            if (limited) EXPECT_NE(answer.message.find("GRADUS_LIMITS=off"), std::string::npos) << answer.message;
            const Option off("limits", "off");
            call.max_workspace = 0;
            EXPECT_EQ(call.run().size(), 1u);
        }
}

TEST(ScaledMaskedSoftmax, Refusals) {
    const Shape shape = {2, 3, 4, 6};
    const auto forward = [&] {
        return Call("ScaledMaskedSoftmax")
            .in("x", Array(ACL_FLOAT16, shape))
            .in("mask", Array(ACL_BOOL, {2, 1, 4, 6}))
            .real("scale", 1)
            .boolean("fixTriuMask", false)
            .out("y", ACL_FLOAT16, shape);
    };
    const auto backward = [&] {
        return Call("ScaledMaskedSoftmaxBackward")
            .in("gradOutput", Array(ACL_FLOAT16, shape))
            .in("y", Array(ACL_FLOAT16, shape))
            .in("mask", Array(ACL_BOOL, {2, 1, 4, 6}))
            .real("scale", 1)
            .boolean("fixTriuMask", false)
            .out("out", ACL_FLOAT16, shape);
    };
    const auto reshape = [](const std::vector<std::string>& names, const Shape& s) {
        return [=](Call& c) {
            for (const std::string& name : names) {
                c.tensor(name).values = Array(c.tensor(name).values.type, s);
                c.tensor(name).layout = dense(s);
            }
        };
    };
    const auto type = [](const char* name, aclDataType t) { return [=](Call& c) { c.tensor(name).type = t; }; };
    const auto triangle = [](Call& c) { c.boolean("fixTriuMask", true); };
    const auto rows = [&](const std::string& first, const std::vector<std::string>& like, const std::string& result) {
        std::vector<std::string> all = like;
        all.push_back(first), all.push_back("mask");
        const std::string wanted = ", expected that of " + first + ", [2, 3, 4, 6], or 1 in its first two dims";
        std::vector<Refusal> list = {
            {"fixTriuMask", triangle, "fixTriuMask: true, expected false"},
            {"rank 3", reshape(all, {3, 4, 6}), first + ": rank 3 of shape [3, 4, 6], expected rank 4"},
            {"rank 5", reshape(all, {1, 2, 3, 4, 6}), first + ": rank 5"},
            {"rank 0", reshape(all, {}), first + ": rank 0"},
            {"mask of rank 2", reshape({"mask"}, {4, 6}), "mask: rank 2 of shape [4, 6], expected rank 4"},
            {"mask of uint8", type("mask", ACL_UINT8), "mask: dtype uint8, expected bool"},
            {"mask of float", type("mask", ACL_FLOAT), "mask: dtype f32, expected bool"},
            {"mask without queries", reshape({"mask"}, {2, 3, 1, 6}), "mask: shape [2, 3, 1, 6]" + wanted},
            {"mask without keys", reshape({"mask"}, {2, 3, 4, 1}), "mask: shape [2, 3, 4, 1]" + wanted},
            {"mask with other heads", reshape({"mask"}, {2, 2, 4, 6}), "mask: shape [2, 2, 4, 6]" + wanted},
            {"mask with other batches", reshape({"mask"}, {4, 1, 4, 6}), "mask: shape [4, 1, 4, 6]" + wanted},
            {"empty mask", reshape({"mask"}, {0, 1, 4, 6}), "mask: shape [0, 1, 4, 6]" + wanted},
            {"integers", type(first.c_str(), ACL_INT32), first + ": dtype int32, expected f32, f16 or bf16"},
            {"last dim too long", reshape(all, {1, 1, 1, 4097}),
             first + ": last dim 4097 of shape [1, 1, 1, 4097], expected 1 to 4096 (a limit"},
            {"last dim empty", reshape(all, {1, 1, 1, 0}),
             first + ": last dim 0 of shape [1, 1, 1, 0], expected 1 to 4096 (a limit"},
            {"mask larger than the data", reshape(like, {1, 3, 4, 6}), ""},
        };
        for (const std::string& name : like) {
            list.push_back({name + " of another dtype", type(name.c_str(), ACL_BF16),
                            name + ": dtype bf16, expected f16 as " + first});
            list.push_back({name + " of another shape", reshape({name}, {2, 3, 4, 5}),
                            name + ": shape [2, 3, 4, 5], expected [2, 3, 4, 6]"});
            list.push_back({name + " of rank 3", reshape({name}, {6, 4, 6}), name + ": rank 3"});
        }
        EXPECT_EQ(like.back(), result);
        return list;
    };
    expect_refusals(forward, rows("x", {"y"}, "y"));
    expect_refusals(backward, rows("gradOutput", {"y", "out"}, "out"));
    expect_common_refusals(forward);
    expect_common_refusals(backward, {.strict_formats = true});
    // any length with limits off
    const Option off("limits", "off");
    Call longer = forward();
    reshape({"x", "mask", "y"}, {1, 1, 1, 4097})(longer);
    EXPECT_EQ(longer.ask().code, 0);
    Call still = backward();
    triangle(still);
    EXPECT_EQ(still.ask().code, 161002) << "not a limit";
}

TEST(ScaledMaskedSoftmax, Products) {
    Random random("products");
    expect_products([&] { return random_problem(random, ACL_FLOAT16, {1, 2, 4, 6}).forward(); }, {"Ascend910B"});
    expect_products([&] { return random_problem(random, ACL_BF16, {1, 2, 4, 6}).backward(); }, {"Ascend910B"});
}

TEST(ScaledMaskedSoftmax, Executors) {
    const Shape shape = {2, 3, 17, 65};
    const auto calls = [&shape](aclDataType type) {
        return [random = std::make_shared<Random>("executors"), type, shape] {
            return random_problem(*random, type, shape, {2, 1, 17, 65});
        };
    };
    const auto turned = [](Call call) {  // with a workspace
        for (Call::Tensor& tensor : call.tensors) tensor.layout = transposed(tensor.values.shape);
        return call;
    };
    expect_executor_rules([make = calls(ACL_FLOAT)] { return make().backward(); });
    expect_executor_rules([make = calls(ACL_BF16)] { return make().forward(); });
    expect_executor_rules([make = calls(ACL_FLOAT16), turned] { return turned(make().backward()); });
    expect_executor_rules([make = calls(ACL_FLOAT), turned] { return turned(make().forward()); });
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
                Array wrong = plant(fault, type, shape, answer->value);
                if (fault == Fault::sign)  // of an element that is not 0
                    for (int64_t i = right.size() / 2; i < right.size() / 2 + 41; ++i)
                        wrong.set(i, -answer->value[static_cast<size_t>(i)]);
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
