// What ScaledMaskedSoftmax and ScaledMaskedSoftmaxBackward take, refuse and promise besides their values.
#include <gtest/gtest.h>

#include "aclnnop/aclnn_scaled_masked_softmax.h"
#include "aclnnop/aclnn_scaled_masked_softmax_backward.h"
#include "ops/scaled_masked_softmax/test_problem.h"
#include "testing/battery.h"

namespace gradus::testing {
namespace {

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

// Rows that begin with a line, elsewhere, and rows shorter than one.
TEST(ScaledMaskedSoftmax, PastTheCache) {
    for (const std::string& isa : instruction_sets()) {
        if (isa == "scalar" || isa == "avx512_bf16" || isa == "amx") continue;  // no such stores; as avx512
        const Option cap("max_isa", isa);
        Random random("past");
        for (const auto& [type, shape] : std::vector<std::pair<aclDataType, Shape>>{
                 {ACL_FLOAT, {1, 2, 20, 577}}, {ACL_BF16, {1, 2, 20, 640}}, {ACL_FLOAT16, {1, 2, 600, 23}}}) {
            SCOPED_TRACE(isa + " " + type_name(type) + " " + text(shape));
            const Problem p = random_problem(random, type, shape, {1, 1, shape[2], shape[3]});
            expect_same_bits_past_cache([&p] { return p.forward(); });
            expect_same_bits_past_cache([&p] { return p.backward(); });
        }
        const Problem odd = random_problem(random, ACL_BF16, {1, 2, 20, 577}, {1, 1, 20, 577});
        expect_same_bits_past_cache([&odd] { return odd.forward(); });
        const Problem longer = random_problem(random, ACL_BF16, {1, 2, 2, 4401}, {1, 1, 2, 4401});
        expect_same_bits_past_cache([&longer] { return longer.forward(); });
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

}  // namespace
}  // namespace gradus::testing
