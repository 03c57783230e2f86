// exp_segsum on what is large: results past the cache, matrices that threads share, sums that do not fit the stack.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "ops/exp_segsum/test_problem.h"
#include "testing/battery.h"

namespace gradus::testing {
namespace {

// Large enough to be written past the cache, with matrices that start anywhere.
TEST(ExpSegsum, Streaming) {
    Random random("streaming");
    Array x(ACL_BF16, {19, 19, 217});
    for (int64_t i = 0; i < x.size(); ++i) x.set(i, i < 1009 ? random.normal(0.3) - 0.1 : x.at(i - 1009));
    const Forward f(x);
    const Call::Results results = f.call().run();
    f.expect(results);
    const Array apart = f.call().layout("out", padded(f.shape, 5)).run().at("out");
    EXPECT_EQ(first_difference(apart, results.at("out")), -1);
}

// The same with matrices so small that several are written at a time; each must be what it is alone.
TEST(ExpSegsum, StreamingSmall) {
    Random random("streaming small");
    const int64_t some = 97, all = 59000, size = 17;
    const Array x = random_forward(random, ACL_BF16, {1, some, size}).x;
    Array repeated(ACL_BF16, {1, all, size});
    for (int64_t i = 0; i < repeated.size(); ++i) repeated.set(i, x.at(i % x.size()));
    const Array want = Forward(x).call().run().at("out");
    const Array got = Call("ExpSegsum").in("self", repeated).out("out", ACL_BF16, {1, all, size, size}).run().at("out");
    const auto matrix = static_cast<size_t>(size * size * got.item());
    for (int64_t m = 0; m < all; ++m)
        ASSERT_EQ(std::memcmp(got.bytes.data() + static_cast<size_t>(m) * matrix,
                              want.bytes.data() + static_cast<size_t>(m % some) * matrix, matrix),
                  0)
            << "matrix " << m;
}

// Sums of columns that do not fit the stack. Broadcast inputs keep it small.
TEST(ExpSegsum, HugeMatrix) {
    const int64_t size = 4131;
    const Shape shape = {1, 1, size, size};
    Array ones(ACL_FLOAT16, shape);
    for (int64_t i = 0; i < ones.size(); ++i) ones.bytes[static_cast<size_t>(2 * i + 1)] = std::byte{0x3C};
    for (const std::vector<int64_t>& stride : {std::vector<int64_t>{0, 0, 0, 0}, {0, 0, 0, 1}}) {
        const Layout layout = {stride, 0, stride.back() * (size - 1) + 1};
        Call call = Call("ExpSegsumBackward")
                        .in("gradOutput", ones, layout)
                        .in("gradSelf", ones, layout)
                        .out("gradInput", ACL_FLOAT16, {1, 1, size});
        const Array out = call.run().at("gradInput");
        for (int64_t k = 0; k < size; ++k)
            ASSERT_EQ(out.at(k), rounded(static_cast<double>(k * (size - k)), ACL_FLOAT16)) << k;
    }
    Array x(ACL_FLOAT16, {1, 1, size});
    for (int64_t i = 0; i < size; ++i) x.set(i, i % 2 != 0 ? 0.5 : -0.5);
    const Array out = Call("ExpSegsum").in("self", x).out("out", ACL_FLOAT16, shape).run().at("out");
    const double up = rounded(std::exp(0.5), ACL_FLOAT16), down = rounded(std::exp(-0.5), ACL_FLOAT16);
    for (int64_t i = 0; i < size; ++i)
        for (int64_t j = 0; j < size; ++j)
            ASSERT_EQ(out.at(i * size + j), j > i ? 0 : (i - j) % 2 == 0 ? 1 : i % 2 != 0 ? up : down) << i << " " << j;
}

// One matrix on several threads: cut into panels, the last one short or not; products, and sums with a NaN among them.
TEST(ExpSegsum, Panels) {
    for (const std::string& isa : instruction_sets()) {
        if (isa == "avx512_bf16" || isa == "amx") continue;  // as avx512
        const Option cap("max_isa", isa);
        for (const aclDataType type : kTypes) {
            Random random("panels");
            SCOPED_TRACE(isa + " " + type_name(type));
            for (const int64_t size : {257, 700}) random_forward(random, type, {1, 1, size}).expect(false);
            Forward wide = random_forward(random, type, {1, 1, 600}, 30, 0);
            wide.x.set(400, kNan);
            Forward(wide.x).expect(false);
            for (const int64_t size : {1100, 1536}) random_backward(random, type, {1, 1, size}).expect(false);
        }
    }
}

TEST(ExpSegsum, PanelsSameBits) {
    Random random("panel bits");
    for (const aclDataType type : {ACL_FLOAT, ACL_BF16}) {
        const Forward f = random_forward(random, type, {1, 2, 530});
        const Backward b = random_backward(random, type, {1, 1, 1030});
        expect_same_bits([&] { return f.call(); });
        expect_same_bits([&] { return b.call(); });
        const Array want = b.call().run().at("gradInput");
        const Array gathered = b.call().layout("gradSelf", transposed(b.y.shape)).run().at("gradInput");
        EXPECT_EQ(first_difference(gathered, want), -1);
    }
    // more matrices than are under way at once
    const Backward once = random_backward(random, ACL_FLOAT16, {1, 1, 1030});
    const int64_t times = 30;
    Array g(ACL_FLOAT16, {times, 1, 1030, 1030}), y = g;
    for (int64_t m = 0; m < times; ++m) {
        std::memcpy(g.bytes.data() + m * static_cast<int64_t>(once.g.bytes.size()), once.g.bytes.data(),
                    once.g.bytes.size());
        std::memcpy(y.bytes.data() + m * static_cast<int64_t>(once.y.bytes.size()), once.y.bytes.data(),
                    once.y.bytes.size());
    }
    const Array want = once.call().run().at("gradInput");
    const Array all = Call("ExpSegsumBackward")
                          .in("gradOutput", g)
                          .in("gradSelf", y)
                          .out("gradInput", ACL_FLOAT16, {times, 1, 1030})
                          .run()
                          .at("gradInput");
    for (int64_t m = 0; m < times; ++m) EXPECT_EQ(first_difference(slice(all, m, m + 1), want), -1) << m;
}

}  // namespace
}  // namespace gradus::testing
