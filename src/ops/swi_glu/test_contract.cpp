// What SwiGlu and SwiGluGrad take, refuse and promise besides their values.
#include <gtest/gtest.h>

#include "aclnnop/aclnn_swi_glu_grad.h"
#include "ops/swi_glu/test_problem.h"
#include "testing/battery.h"

namespace gradus::testing {
namespace {

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

TEST(SwiGlu, SameBits) {
    Random random("bits");
    for (const aclDataType type : kTypes) {
        const Problem p = random_problem(random, type, {130, 521}, 1);
        expect_same_bits([&] { return p.grad(); });
        expect_same_bits([&] { return p.forward(); });
    }
}

// Halves that share their lines and halves that do not, rows shorter than a line, far negative elements among others.
TEST(SwiGlu, PastTheCache) {
    for (const std::string& isa : instruction_sets()) {
        if (isa == "scalar" || isa == "avx512_bf16" || isa == "amx") continue;  // no such stores; as avx512
        const Option cap("max_isa", isa);
        Random random("past");
        const auto problem = [&](aclDataType type, int64_t n) {
            Array x = random.normals(type, {16384 / n + 1, 2 * n}, 30);
            return Problem(x, random.normals(type, {x.shape[0], n}), 1);
        };
        for (const auto& [type, n] :
             std::vector<std::pair<aclDataType, int64_t>>{{ACL_FLOAT, 577}, {ACL_BF16, 1600}, {ACL_FLOAT16, 7}}) {
            SCOPED_TRACE(isa + " " + type_name(type) + " " + std::to_string(n));
            const Problem p = problem(type, n);
            expect_same_bits_past_cache([&p] { return p.grad(); });
            if (type != ACL_FLOAT16) expect_same_bits_past_cache([&p] { return p.forward(); });
        }
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
    for (const auto& [inner, code] : {std::pair<int64_t, int>(8, 0), std::pair<int64_t, int>(6, 161002)})
        EXPECT_EQ(Call("SwiGlu")
                      .in("x", Array(ACL_FLOAT, {3, 4, inner}))
                      .integer("dim", 1)
                      .out("out", ACL_FLOAT, {3, 2, inner})
                      .ask()
                      .code,
                  code)
            << "two rows of " << inner;
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

}  // namespace
}  // namespace gradus::testing
