// Extents and overlap, seen through an operator that takes any view, against brute force.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "aclnn/aclnn_base.h"
#include "aclnnop/aclnn_fused_linear_online_max_sum.h"
#include "aclnnop/aclnn_swi_glu.h"
#include "testing/call.h"

namespace gradus::testing {
namespace {

std::vector<int64_t> addresses(const Shape& shape, const Layout& layout) {
    std::vector<int64_t> at = {layout.offset};
    for (size_t d = 0; d < shape.size(); ++d) {
        std::vector<int64_t> next;
        for (const int64_t base : at)
            for (int64_t i = 0; i < shape[d]; ++i) next.push_back(base + i * layout.stride[d]);
        at = std::move(next);
    }
    return at;
}

bool has_duplicates(std::vector<int64_t> at) {
    std::sort(at.begin(), at.end());
    return std::adjacent_find(at.begin(), at.end()) != at.end();
}

// A view without memory, given to SwiGlu as its output: what phase one answers, and how long that takes.
struct Verdict {
    int code;
    std::string message;
    double seconds;
};

Verdict as_output(const Shape& shape, const Layout& layout) {
    Shape full = shape;
    full[0] *= 2;
    const std::vector<int64_t> zeros(shape.size());
    const int64_t one = 1;
    aclTensor* x =
        aclCreateTensor(full.data(), full.size(), ACL_FLOAT, zeros.data(), 0, ACL_FORMAT_ND, &one, 1, nullptr);
    aclTensor* y = aclCreateTensor(shape.data(), shape.size(), ACL_FLOAT, layout.stride.data(), layout.offset,
                                   ACL_FORMAT_ND, &layout.storage, 1, nullptr);
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    const auto start = std::chrono::steady_clock::now();
    const int code = aclnnSwiGluGetWorkspaceSize(x, 0, y, &size, &executor);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (code == 0) EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);
    EXPECT_EQ(aclDestroyTensor(x), 0);
    EXPECT_EQ(aclDestroyTensor(y), 0);
    return {code, take_message(), took.count()};
}

// Phase one refuses exactly the outputs of which two elements share an address. Strides drawn from few numbers are
// often equal, those from many have all kinds of common divisors; a factor changes no answer.
TEST(Views, OverlapOfAnOutputWithItself) {
    const Option off("limits", "off");
    Random random("self overlap");
    int overlapping = 0, disjoint = 0;
    for (int i = 0; i < 10000 * rounds(); ++i) {
        Shape shape;
        Layout layout;
        const int64_t most = random.pick<int64_t>({3, 12, 60, 400});
        for (int64_t d = random.between(1, 5); d > 0; --d) {
            shape.push_back(random.between(1, 5));
            layout.stride.push_back(random.between(random.chance(0.1) ? 0 : 1, most));
        }
        const bool expected = has_duplicates(addresses(shape, layout));
        (expected ? overlapping : disjoint) += shape.size() > 2;
        const int64_t factor = random.pick<int64_t>({1, 1, 30, 1 << 20, (int64_t{1} << 47) + 15});
        for (int64_t& stride : layout.stride) stride *= factor;
        layout.storage = INT64_MAX;
        const Verdict verdict = as_output(shape, layout);
        ASSERT_EQ(verdict.code, expected ? 161002 : 0)
            << text(shape) << " strides " << text(layout.stride) << " " << random.repeat();
        if (expected) ASSERT_NE(verdict.message.find("share addresses"), std::string::npos) << verdict.message;
    }
    EXPECT_GT(overlapping, 1000);
    EXPECT_GT(disjoint, 1000);
}

// Strides p and q without a common divisor first meet after q steps of p and p steps of q.
TEST(Views, LargeOutputs) {
    const Option off("limits", "off");
    for (const auto& [p, q] : {std::pair{(1 << 24) + 1, 1 << 24}, std::pair{(1 << 29) + 11, (1 << 29) - 3}})
        for (const int64_t factor : {1, 3}) {
            const Layout layout{{p * factor, q * factor}, 0, INT64_MAX};
            for (const auto& [shape, code] :
                 std::vector<std::pair<Shape, int>>{{{q, p + 1}, 0}, {{q + 1, p}, 0}, {{q + 1, p + 1}, 161002}}) {
                const Verdict verdict = as_output(shape, layout);
                EXPECT_EQ(verdict.code, code) << text(shape) << " " << verdict.message;
                EXPECT_LT(verdict.seconds, 0.05) << text(shape);
            }
        }
}

// Sums of many strides without any order are a puzzle that nobody solves in time: given up soon, as overlapping.
TEST(Views, TangledOutputs) {
    const Option off("limits", "off");
    Random random("tangled");
    Layout layout;
    layout.storage = INT64_MAX;
    for (int d = 0; d < 18; ++d) layout.stride.push_back(random.between(int64_t{1} << 48, int64_t{1} << 49));
    const Verdict verdict = as_output(Shape(18, 2), layout);
    EXPECT_EQ(verdict.code, 161002);
    EXPECT_NE(verdict.message.find("share addresses"), std::string::npos) << verdict.message;
    EXPECT_LT(verdict.seconds, 0.05);
}

// Two views of one memory, whatever their types.
struct Pair {
    int64_t in_item, out_item;  // bytes
    Shape in_shape = {}, out_shape = {};
    Layout in = {}, out = {};
    int64_t shift = 0;  // bytes from the one address to the other

    std::set<int64_t> bytes(const Shape& shape, const Layout& layout, int64_t item, int64_t begin) const {
        std::set<int64_t> all;
        for (const int64_t at : addresses(shape, layout))
            for (int64_t b = 0; b < item; ++b) all.insert(begin + item * at + b);
        return all;
    }
    // whether they share a byte; whether they do not although their ranges overlap
    std::pair<bool, bool> overlap() const {
        const std::set<int64_t> a = bytes(in_shape, in, in_item, 0), b = bytes(out_shape, out, out_item, shift);
        const bool share = std::any_of(a.begin(), a.end(), [&](int64_t byte) { return b.count(byte) > 0; });
        return {share, !share && *a.begin() < *b.rbegin() && *b.begin() < *a.rbegin()};
    }
    std::string words() const {
        return text(in_shape) + " strides " + text(in.stride) + " offset " + std::to_string(in.offset) + " and " +
               text(out_shape) + " strides " + text(out.stride) + " offset " + std::to_string(out.offset) + " shift " +
               std::to_string(shift);
    }
};

Layout any_layout(Random& random, const Shape& shape, int64_t most) {
    Layout layout;
    layout.offset = random.between(0, 3);
    layout.storage = layout.offset + 1;
    for (const int64_t n : shape) {
        layout.stride.push_back(random.between(random.chance(0.1) ? 0 : 1, most));
        layout.storage += (n - 1) * layout.stride.back();
    }
    return layout;
}

aclTensor* tensor_at(std::byte* address, aclDataType type, const Shape& shape, const Layout& layout) {
    return aclCreateTensor(shape.data(), shape.size(), type, layout.stride.data(), layout.offset, ACL_FORMAT_ND,
                           &layout.storage, 1, address);
}

constexpr int64_t kMemory = 1 << 16;

// Phase two refuses exactly the pairs that share a byte; interleaved slices of one buffer are fine.
TEST(Views, OverlapOfInputAndOutput) {
    const Option off("limits", "off");
    Random random("overlap");
    stream();
    void* memory = nullptr;
    ASSERT_EQ(aclrtMalloc(&memory, kMemory, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    ASSERT_EQ(aclrtMemset(memory, kMemory, 0, kMemory), 0);
    auto* base = static_cast<std::byte*>(memory);
    int overlapping = 0, interleaved = 0;
    for (int i = 0; i < 6000 * rounds(); ++i) {
        Pair pair{4, 4};
        for (int64_t d = random.between(1, 3); d > 0; --d) pair.out_shape.push_back(random.between(1, 4));
        pair.in_shape = pair.out_shape;
        pair.in_shape[0] *= 2;
        const int64_t most = random.pick<int64_t>({4, 16, 48});
        pair.in = any_layout(random, pair.in_shape, most);
        pair.out = any_layout(random, pair.out_shape, most);
        if (random.chance(0.4)) pair.in.stride = pair.out.stride, pair.in.storage = kMemory;
        if (has_duplicates(addresses(pair.out_shape, pair.out))) continue;
        pair.shift = random.between(-90, 90) * random.pick<int64_t>({1, 4});
        const auto [expected, between] = pair.overlap();
        overlapping += expected;
        interleaved += between;
        aclTensor* x = tensor_at(base + 512, ACL_FLOAT, pair.in_shape, pair.in);
        aclTensor* y = tensor_at(base + 512 + pair.shift, ACL_FLOAT, pair.out_shape, pair.out);
        uint64_t size = 0;
        aclOpExecutor* executor = nullptr;
        ASSERT_EQ(aclnnSwiGluGetWorkspaceSize(x, 0, y, &size, &executor), 0) << take_message();
        ASSERT_EQ(aclnnSwiGlu(nullptr, 0, executor, stream()), expected ? 161002 : 0)
            << pair.words() << " " << random.repeat();
        EXPECT_EQ(aclDestroyTensor(x), 0);
        EXPECT_EQ(aclDestroyTensor(y), 0);
    }
    EXPECT_GT(overlapping, 1000);
    EXPECT_GT(interleaved, 200);
    EXPECT_EQ(aclrtSynchronizeStream(stream()), 0);
    EXPECT_EQ(aclrtFree(memory), 0);
}

// The same for elements of 8 bytes, the targets, and of 2, the logits. All else lies apart.
TEST(Views, OverlapOfTwoTypes) {
    const Option off("limits", "off");
    Random random("overlap of types");
    stream();
    void* memory = nullptr;
    ASSERT_EQ(aclrtMalloc(&memory, kMemory, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    ASSERT_EQ(aclrtMemset(memory, kMemory, 0, kMemory), 0);
    auto* base = static_cast<std::byte*>(memory);
    int overlapping = 0, interleaved = 0;
    for (int i = 0; i < 3000 * rounds(); ++i) {
        const int64_t tokens = random.between(1, 5), words = random.between(1, 5);
        Pair pair{8, 2, {tokens}, {tokens, words}};
        pair.in = any_layout(random, pair.in_shape, 6);
        pair.out = any_layout(random, pair.out_shape, random.pick<int64_t>({4, 24}));
        if (random.chance(0.3)) pair.out.stride[0] = 4 * pair.in.stride[0], pair.out.storage = kMemory / 4;
        if (has_duplicates(addresses(pair.out_shape, pair.out))) continue;
        pair.shift = 2 * random.between(-60, 60);
        const auto [expected, between] = pair.overlap();
        overlapping += expected;
        interleaved += between;
        int64_t next = kMemory / 2;  // address of the next tensor of its own
        const auto own = [&](aclDataType type, const Shape& shape) {
            next += 512;
            return tensor_at(base + next, type, shape, dense(shape));
        };
        aclTensor* tensors[] = {own(ACL_FLOAT16, {tokens, 1}),
                                own(ACL_FLOAT16, {words, 1}),
                                tensor_at(base + 512, ACL_INT64, pair.in_shape, pair.in),
                                own(ACL_FLOAT, {tokens}),
                                own(ACL_FLOAT, {tokens}),
                                own(ACL_FLOAT, {tokens}),
                                own(ACL_UINT8, {1}),
                                own(ACL_INT64, {tokens}),
                                tensor_at(base + 512 + pair.shift, ACL_FLOAT16, pair.out_shape, pair.out)};
        const auto& t = tensors;
        uint64_t size = 0;
        aclOpExecutor* executor = nullptr;
        ASSERT_EQ(aclnnFusedLinearOnlineMaxSumGetWorkspaceSize(t[0], t[1], t[2], 0, words, t[3], t[4], t[5], t[6], t[7],
                                                               t[8], &size, &executor),
                  0)
            << take_message();
        void* workspace = nullptr;
        if (size > 0) ASSERT_EQ(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST), 0);
        ASSERT_EQ(aclnnFusedLinearOnlineMaxSum(workspace, size, executor, stream()), expected ? 161002 : 0)
            << pair.words() << " " << random.repeat();
        EXPECT_EQ(aclrtSynchronizeStream(stream()), 0);
        EXPECT_EQ(aclrtFree(workspace), 0);
        for (aclTensor* tensor : tensors) EXPECT_EQ(aclDestroyTensor(tensor), 0);
    }
    EXPECT_GT(overlapping, 500);
    EXPECT_GT(interleaved, 100);
    EXPECT_EQ(aclrtFree(memory), 0);
}

constexpr int64_t kHuge = INT64_MAX, kBig = int64_t{1} << 40;

struct Strided {
    Shape shape;
    std::vector<int64_t> stride;  // none: row-major
    int64_t offset = 0;
};

// Phase one's answer to a view as input and output; SwiGlu halves dim 0.
int answer(const Strided& view, std::string& message) {
    Shape half = view.shape;
    half[0] /= 2;
    const auto make = [&](const Shape& shape) {
        return aclCreateTensor(shape.data(), shape.size(), ACL_FLOAT,
                               view.stride.empty() ? nullptr : view.stride.data(), view.offset, ACL_FORMAT_ND,
                               shape.data(), shape.size(), nullptr);
    };
    aclTensor *x = make(view.shape), *y = make(half);
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    const int code = aclnnSwiGluGetWorkspaceSize(x, 0, y, &size, &executor);
    message = take_message();
    if (code == 0) EXPECT_EQ(aclnnSwiGlu(nullptr, 0, executor, stream()), 0) << take_message();
    EXPECT_EQ(aclDestroyTensor(x), 0);
    EXPECT_EQ(aclDestroyTensor(y), 0);
    return code;
}

// Sizes and strides at the end of the numbers: refused, not wrapped, also where a size of 0 hides them.
TEST(Views, AbsurdSizes) {
    const Option off("limits", "off");
    std::string message;
    for (const Strided& view : std::vector<Strided>{{{kHuge}, {1}},
                                                    {{2}, {kHuge}},
                                                    {{kBig, kBig}, {1, 1}},
                                                    {{kBig, 2}, {kBig, kBig}},
                                                    {{4, 4}, {kHuge, kHuge}},
                                                    {{kBig, 1 << 22}, {0, 0}},
                                                    {{0, kBig, kBig}, {}},
                                                    {{kBig, 0, kBig}, {}},
                                                    {{kBig, kBig, 0}, {}},
                                                    {{kBig, kBig, 0}, {0, 0, 0}},
                                                    {{0, 4}, {1, kHuge}},
                                                    {{0, 4, 4}, {1, kHuge / 4, kHuge / 4}},
                                                    {{0, kHuge}, {1, 1}},
                                                    {{0, 4}, {4, 1}, kHuge},
                                                    {{0, 4}, {4, 1}, kHuge / 4}}) {
        EXPECT_EQ(answer(view, message), 161002) << text(view.shape) << text(view.stride);
        EXPECT_NE(message.find("aclnnSwiGlu: x: shape " + text(view.shape) + " with its strides exceeds 2^63 bytes"),
                  std::string::npos)
            << message;
    }
    for (const Strided& view : std::vector<Strided>{{{-4}, {1}}, {{4, 4}, {-4, 1}}, {{4}, {1}, -1}, {{0}, {1}, -1}}) {
        EXPECT_EQ(answer(view, message), 161002) << text(view.shape) << text(view.stride);
        EXPECT_NE(message.find("expected 0 or more"), std::string::npos) << message;
    }
}

// No element lies inside a storage of a negative size, and all lie inside one beyond counting.
TEST(Views, AbsurdStorage) {
    const int64_t eight = 8, four = 4;
    aclTensor* x = aclCreateTensor(&eight, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &eight, 1, nullptr);
    const auto answer_to = [&](const Shape& storage) {
        aclTensor* y =
            aclCreateTensor(&four, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, storage.data(), storage.size(), nullptr);
        uint64_t size = 0;
        aclOpExecutor* executor = nullptr;
        const int code = aclnnSwiGluGetWorkspaceSize(x, 0, y, &size, &executor);
        if (code == 0) EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);
        EXPECT_EQ(aclDestroyTensor(y), 0);
        return code;
    };
    for (const Shape& storage : std::vector<Shape>{{-4}, {-2, -2}, {4, -1}, {kBig, kBig, -1}, {0, 4}, {3}}) {
        EXPECT_EQ(answer_to(storage), 161002) << text(storage);
        EXPECT_NE(take_message().find(" elements of storageDims"), std::string::npos) << text(storage);
    }
    for (const Shape& storage : std::vector<Shape>{{4}, {2, 2}, {kBig, kBig}})
        EXPECT_EQ(answer_to(storage), 0) << text(storage) << take_message();
    EXPECT_EQ(aclDestroyTensor(x), 0);
}

// Nothing to read and nothing to write, whatever the strides of the dims that do not step.
TEST(Views, EmptyViews) {
    const Option off("limits", "off");
    std::string message;
    for (const Strided& view : std::vector<Strided>{{{0, 128}, {}},
                                                    {{0, 128}, {0, 0}},
                                                    {{0, 128}, {kHuge, 1}},
                                                    {{0, 128}, {128, 1}, 7},
                                                    {{128, 0}, {}},
                                                    {{4, 0, 1}, {0, kHuge, kHuge}},
                                                    {{0, kBig}, {kBig, 1}},
                                                    {{0}, {}},
                                                    {{0, 0, 0}, {}}})
        EXPECT_EQ(answer(view, message), 0) << text(view.shape) << text(view.stride) << message;
}

// A dim of size 1 never steps: its stride may be anything, in phase two as well.
TEST(Views, StridesOfSingleElements) {
    const Option off("limits", "off");
    stream();
    void* memory = nullptr;
    ASSERT_EQ(aclrtMalloc(&memory, kMemory, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    ASSERT_EQ(aclrtMemset(memory, kMemory, 0, kMemory), 0);
    auto* base = static_cast<std::byte*>(memory);
    for (const int64_t shift : {0, 16, 28, 32, 64}) {
        aclTensor* x = tensor_at(base, ACL_FLOAT, {8, 1}, {{1, kHuge}, 0, 8});
        aclTensor* y = tensor_at(base + shift, ACL_FLOAT, {4, 1}, {{1, kHuge / 2}, 0, 4});
        uint64_t size = 0;
        aclOpExecutor* executor = nullptr;
        ASSERT_EQ(aclnnSwiGluGetWorkspaceSize(x, 0, y, &size, &executor), 0) << take_message();
        EXPECT_EQ(aclnnSwiGlu(nullptr, 0, executor, stream()), shift < 32 ? 161002 : 0) << shift;
        EXPECT_EQ(aclDestroyTensor(x), 0);
        EXPECT_EQ(aclDestroyTensor(y), 0);
    }
    EXPECT_EQ(aclrtSynchronizeStream(stream()), 0);
    EXPECT_EQ(aclrtFree(memory), 0);
}

// ... of operators that multiply them into bytes, in either precision.
TEST(Views, StridesOfSingleElementsAreNotMultiplied) {
    const Option off("limits", "off");
    Random random("Views.StridesOfSingleElements");
    for (const Shape& shape : std::vector<Shape>{{1, 1, 1, 1}, {1, 3, 1, 1}, {3, 1, 5, 5}, {1, 1, 4, 4}}) {
        const Shape rows(shape.begin(), shape.end() - 1);
        const Array a = random.normals(ACL_FLOAT16, shape), b = random.normals(ACL_FLOAT16, shape);
        const Call calls[] = {
            Call("ExpSegsum").in("self", random.normals(ACL_FLOAT16, rows)).out("out", ACL_FLOAT16, shape),
            Call("ExpSegsumBackward").in("gradOutput", a).in("gradSelf", b).out("gradInput", ACL_FLOAT16, rows),
            Call("ScaledMaskedSoftmax")
                .in("x", a)
                .in("mask", Array(ACL_BOOL, shape))
                .real("scale", 0.5)
                .boolean("fixTriuMask", false)
                .out("y", ACL_FLOAT16, shape),
            Call("ScaledMaskedSoftmaxBackward")
                .in("gradOutput", a)
                .in("y", b)
                .in("mask", Array(ACL_BOOL, shape))
                .real("scale", 0.5)
                .boolean("fixTriuMask", false)
                .out("out", ACL_FLOAT16, shape)};
        for (const char* precision : {"fast", "golden"}) {
            const Option chosen("precision", precision);
            for (const Call& call : calls) {
                SCOPED_TRACE(call.op + text(shape) + precision);
                Call usual = call, huge = call;
                for (Call::Tensor& tensor : huge.tensors)
                    for (size_t d = 0; d < tensor.values.shape.size(); ++d)
                        if (tensor.values.shape[d] == 1) tensor.layout.stride[d] = kHuge;
                EXPECT_EQ(huge.run(), usual.run());
            }
        }
    }
}

}  // namespace
}  // namespace gradus::testing
