// What ExpSegsum and ExpSegsumBackward take, refuse and promise besides their values.
#include <gtest/gtest.h>

#include <memory>

#include "aclnnop/aclnn_exp_segsum_backward.h"
#include "aclnnop/aclnn_segsum.h"
#include "ops/exp_segsum/test_problem.h"
#include "testing/battery.h"

namespace gradus::testing {
namespace {

// The interface as a program calls it, not by name.
TEST(ExpSegsum, CFunctions) {
    const float values[2] = {5, -1};
    void* memory = nullptr;
    stream();
    ASSERT_EQ(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    ASSERT_EQ(aclrtMemcpy(memory, 4096, values, sizeof values, ACL_MEMCPY_HOST_TO_DEVICE), 0);
    auto* base = static_cast<std::byte*>(memory);
    const int64_t vector[] = {1, 1, 2}, matrix[] = {1, 1, 2, 2};
    aclTensor* x = aclCreateTensor(vector, 3, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, vector, 3, base);
    aclTensor* y = aclCreateTensor(matrix, 4, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, matrix, 4, base + 512);
    aclTensor* dx = aclCreateTensor(vector, 3, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, vector, 3, base + 1024);
    uint64_t size = 1;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(aclnnExpSegsumGetWorkspaceSize(x, y, &size, &executor), 0) << take_message();
    EXPECT_EQ(size, 0u);
    ASSERT_EQ(aclnnExpSegsum(nullptr, 0, executor, stream()), 0) << take_message();
    size = 1;
    ASSERT_EQ(aclnnExpSegsumBackwardGetWorkspaceSize(y, y, dx, &size, &executor), 0) << take_message();
    EXPECT_EQ(size, 0u);
    ASSERT_EQ(aclnnExpSegsumBackward(nullptr, 0, executor, stream()), 0) << take_message();
    for (aclTensor* tensor : {x, y, dx}) EXPECT_EQ(aclDestroyTensor(tensor), 0);
    ASSERT_EQ(aclrtSynchronizeStream(stream()), 0);
    float out[4], grad[2];
    ASSERT_EQ(aclrtMemcpy(out, sizeof out, base + 512, sizeof out, ACL_MEMCPY_DEVICE_TO_HOST), 0);
    ASSERT_EQ(aclrtMemcpy(grad, sizeof grad, base + 1024, sizeof grad, ACL_MEMCPY_DEVICE_TO_HOST), 0);
    EXPECT_NEAR(out[2], 0.367879, 1e-6);
    EXPECT_EQ(grad[0], 0);
    EXPECT_NEAR(grad[1], 0.135335, 1e-6);
    EXPECT_EQ(aclrtFree(memory), 0);
}

TEST(ExpSegsum, SameBits) {
    Random random("bits");
    for (const aclDataType type : kTypes)
        for (const int64_t size : {33, 130}) {
            const Forward f = random_forward(random, type, {3, 7, size});
            const Backward b = random_backward(random, type, {3, 7, size});
            expect_same_bits([&] { return f.call(); });
            expect_same_bits([&] { return b.call(); });
            expect_same_bits([&] { return b.call().layout("gradOutput", transposed(b.g.shape)); });
        }
}

// Rows that begin with a line, elsewhere, and rows that are no whole lines.
TEST(ExpSegsum, PastTheCache) {
    for (const std::string& isa : instruction_sets()) {
        if (isa == "scalar" || isa == "avx512_bf16" || isa == "amx") continue;  // no such stores; as avx512
        const Option cap("max_isa", isa);
        Random random("past");
        for (const auto& [type, size] :
             std::vector<std::pair<aclDataType, int64_t>>{{ACL_FLOAT, 64}, {ACL_BF16, 128}, {ACL_FLOAT16, 100}}) {
            SCOPED_TRACE(isa + " " + type_name(type) + " " + std::to_string(size));
            const Array x = random.filled(type, {3, 2, size}, [&] { return random.uniform(-0.6, 0.1); });
            const Forward f(x);
            expect_same_bits_past_cache([&f] { return f.call(); });
        }
    }
}

TEST(ExpSegsum, MatricesAloneAreThoseOfTheWhole) {
    Random random("alone");
    for (const aclDataType type : kTypes)
        for (const int64_t size : {17, 150}) {
            const Forward f = random_forward(random, type, {11, 2, size});
            const Backward b = random_backward(random, type, {11, 2, size});
            const Array y = f.call().run().at("out"), dx = b.call().run().at("gradInput");
            for (const auto& [begin, end] : std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {3, 4}, {4, 10}}) {
                const Forward f_part(slice(f.x, begin, end));
                const Backward b_part(slice(b.g, begin, end), slice(b.y, begin, end));
                EXPECT_EQ(first_difference(f_part.call().run().at("out"), slice(y, begin, end)), -1);
                EXPECT_EQ(first_difference(b_part.call().run().at("gradInput"), slice(dx, begin, end)), -1);
            }
        }
}

TEST(ExpSegsum, Empty) {
    for (const Shape& shape : std::vector<Shape>{{0, 3, 5}, {2, 0, 3, 4}, {2, 3, 0}, {1, 2, 3, 0}}) {
        SCOPED_TRACE(text(shape));
        Call forward = Forward(Array(ACL_FLOAT16, shape)).call();
        const Array matrices(ACL_FLOAT16, with(shape, shape.back()));
        Call backward = Backward(matrices, matrices).call();
        forward.max_workspace = backward.max_workspace = 0;
        EXPECT_EQ(forward.run().size(), 1u);
        EXPECT_EQ(backward.run().size(), 1u);
        for (Call::Tensor* t : {&forward.tensor("out"), &backward.tensor("gradInput")})
            std::fill(t->layout.stride.begin(), t->layout.stride.end(), 0);  // no two elements, whatever the strides
        EXPECT_EQ(forward.run().size(), 1u);
        EXPECT_EQ(backward.run().size(), 1u);
    }
}

TEST(ExpSegsum, Refusals) {
    const auto forward = [] {
        return Call("ExpSegsum").in("self", Array(ACL_FLOAT16, {2, 3, 4})).out("out", ACL_FLOAT16, {2, 3, 4, 4});
    };
    const auto backward = [] {
        const Array matrices(ACL_BF16, {2, 3, 4, 4});
        return Call("ExpSegsumBackward")
            .in("gradOutput", matrices)
            .in("gradSelf", matrices)
            .out("gradInput", ACL_BF16, {2, 3, 4});
    };
    const auto shape = [](const std::vector<std::pair<std::string, Shape>>& shapes) {
        return [=](Call& c) {
            for (const auto& [name, s] : shapes) {
                c.tensor(name).values = Array(c.tensor(name).values.type, s);
                c.tensor(name).layout = dense(s);
            }
        };
    };
    const auto type = [](const char* name, aclDataType t) { return [=](Call& c) { c.tensor(name).type = t; }; };
    expect_refusals(
        forward, {{"self INT32", type("self", ACL_INT32), "self: dtype int32, expected f32, f16 or bf16"},
                  {"dtypes differ", type("out", ACL_BF16), "out: dtype bf16, expected f16 as self"},
                  {"rank 2", shape({{"self", {3, 4}}, {"out", {3, 4, 4}}}),
                   "self: rank 2 of shape [3, 4], expected rank 3 to 4"},
                  {"rank 5", shape({{"self", {1, 1, 2, 3, 4}}, {"out", {1, 1, 2, 3, 4, 4}}}), "self: rank 5"},
                  {"rank 0", shape({{"self", {}}, {"out", {}}}), "self: rank 0"},
                  {"out of self's rank", shape({{"out", {2, 3, 4}}}), "out: shape [2, 3, 4], expected [2, 3, 4, 4]"},
                  {"out not square", shape({{"out", {2, 3, 4, 5}}}), "out: shape [2, 3, 4, 5], expected [2, 3, 4, 4]"},
                  {"other batch", shape({{"out", {2, 2, 4, 4}}}), "out: shape [2, 2, 4, 4], expected [2, 3, 4, 4]"}});
    expect_refusals(
        backward,
        {{"gradOutput INT32", type("gradOutput", ACL_INT32), "gradOutput: dtype int32, expected f32, f16 or bf16"},
         {"gradSelf dtype", type("gradSelf", ACL_FLOAT16), "gradSelf: dtype f16, expected bf16 as gradOutput"},
         {"gradInput dtype", type("gradInput", ACL_FLOAT16), "gradInput: dtype f16, expected bf16 as gradOutput"},
         {"rank 3", shape({{"gradOutput", {3, 4, 4}}, {"gradSelf", {3, 4, 4}}, {"gradInput", {3, 4}}}),
          "gradOutput: rank 3 of shape [3, 4, 4], expected rank 4 to 5"},
         {"rank 6",
          shape({{"gradOutput", {1, 1, 2, 3, 4, 4}}, {"gradSelf", {1, 1, 2, 3, 4, 4}}, {"gradInput", {1, 1, 2, 3, 4}}}),
          "gradOutput: rank 6"},
         {"not square", shape({{"gradOutput", {2, 3, 5, 4}}, {"gradSelf", {2, 3, 5, 4}}, {"gradInput", {2, 3, 5}}}),
          "gradOutput: shape [2, 3, 5, 4], expected the last two dims to be equal"},
         {"gradSelf shape", shape({{"gradSelf", {2, 3, 5, 5}}}), "gradSelf: shape [2, 3, 5, 5], expected [2, 3, 4, 4]"},
         {"gradSelf batch", shape({{"gradSelf", {1, 3, 4, 4}}}), "gradSelf: shape [1, 3, 4, 4], expected [2, 3, 4, 4]"},
         {"gradInput shape", shape({{"gradInput", {2, 3, 5}}}), "gradInput: shape [2, 3, 5], expected [2, 3, 4]"},
         {"gradInput rank", shape({{"gradInput", {2, 3, 4, 4}}}),
          "gradInput: shape [2, 3, 4, 4], expected [2, 3, 4]"}});
    expect_common_refusals(forward, {.strict_formats = true});
    expect_common_refusals(backward, {.strict_formats = true});
}

TEST(ExpSegsum, Products) {
    Random random("products");
    const Forward f = random_forward(random, ACL_FLOAT16, {1, 2, 5});
    const Backward b = random_backward(random, ACL_FLOAT16, {1, 2, 5});
    expect_products([&] { return f.call(); }, {"Ascend910B", "Ascend910_93"});
    expect_products([&] { return b.call(); }, {"Ascend910B", "Ascend910_93"});
}

TEST(ExpSegsum, Executors) {
    expect_executor_rules([random = std::make_shared<Random>("executors")] {
        return random_backward(*random, ACL_FLOAT, {3, 5, 33}, false).call();
    });
    expect_executor_rules([random = std::make_shared<Random>("executors")] {
        return random_forward(*random, ACL_BF16, {3, 5, 33}).call();
    });
    // with a workspace
    expect_executor_rules([random = std::make_shared<Random>("executors")] {
        const Backward b = random_backward(*random, ACL_FLOAT, {3, 5, 33}, false);
        return b.call().layout("gradSelf", transposed(b.y.shape));
    });
}

}  // namespace
}  // namespace gradus::testing
