// Extents and overlap, seen through an operator that takes any view, against brute force.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

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

// Phase one refuses exactly the outputs of which two elements share an address.
TEST(Views, OverlapOfAnOutputWithItself) {
    const Option off("limits", "off");
    Random random("self overlap");
    int overlapping = 0;
    for (int i = 0; i < 3000 * rounds(); ++i) {
        Shape shape;
        Layout layout;
        layout.storage = 1;
        for (int64_t d = random.between(1, 4); d > 0; --d) {
            shape.push_back(random.between(1, 5));
            layout.stride.push_back(random.between(0, 12));
            layout.storage += (shape.back() - 1) * layout.stride.back();
        }
        Shape full = shape;
        full[0] *= 2;
        const bool expected = has_duplicates(addresses(shape, layout));
        overlapping += expected;
        Call call("SwiGlu");
        call.in("x", Array(ACL_FLOAT, full)).integer("dim", 0).out("out", ACL_FLOAT, shape, layout);
        const Call::Answer answer = call.ask();
        ASSERT_EQ(answer.code, expected ? 161002 : 0)
            << text(shape) << " strides " << text(layout.stride) << " " << random.repeat();
    }
    EXPECT_GT(overlapping, 300);
}

// Phase two refuses exactly the pairs that share a byte; interleaved slices of one buffer are fine.
TEST(Views, OverlapOfInputAndOutput) {
    const Option off("limits", "off");
    Random random("overlap");
    stream();
    void* memory = nullptr;
    ASSERT_EQ(aclrtMalloc(&memory, 1 << 16, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    int overlapping = 0, interleaved = 0;
    for (int i = 0; i < 3000 * rounds(); ++i) {
        const Shape half = {random.between(1, 3), random.between(1, 4)}, full = {2 * half[0], half[1]};
        const auto any = [&](const Shape& shape) {
            Layout layout{{random.between(1, 16), random.between(1, 4)}, random.between(0, 3), 64};
            layout.storage = layout.offset + 1 + (shape[0] - 1) * layout.stride[0] + (shape[1] - 1) * layout.stride[1];
            return layout;
        };
        const Layout in = any(full), out = any(half);
        if (has_duplicates(addresses(half, out))) continue;
        const int64_t shift = random.between(0, 60);  // bytes between the two addresses
        std::set<int64_t> bytes;
        for (const int64_t at : addresses(full, in))
            for (int64_t b = 0; b < 4; ++b) bytes.insert(4 * at + b);
        bool expected = false;
        for (const int64_t at : addresses(half, out))
            for (int64_t b = 0; b < 4; ++b) expected |= bytes.count(shift + 4 * at + b) > 0;
        overlapping += expected;
        interleaved += !expected && shift + 4 * out.offset < *bytes.rbegin();
        auto* base = static_cast<std::byte*>(memory);
        aclTensor* x = aclCreateTensor(full.data(), 2, ACL_FLOAT, in.stride.data(), in.offset, ACL_FORMAT_ND,
                                       &in.storage, 1, base);
        aclTensor* y = aclCreateTensor(half.data(), 2, ACL_FLOAT, out.stride.data(), out.offset, ACL_FORMAT_ND,
                                       &out.storage, 1, base + shift);
        uint64_t size = 0;
        aclOpExecutor* executor = nullptr;
        ASSERT_EQ(aclnnSwiGluGetWorkspaceSize(x, 0, y, &size, &executor), 0) << take_message();
        ASSERT_EQ(aclnnSwiGlu(nullptr, 0, executor, stream()), expected ? 161002 : 0)
            << text(full) << text(in.stride) << " and " << text(half) << text(out.stride) << " shift " << shift << " "
            << random.repeat();
        EXPECT_EQ(aclDestroyTensor(x), 0);
        EXPECT_EQ(aclDestroyTensor(y), 0);
    }
    EXPECT_GT(overlapping, 300);
    EXPECT_GT(interleaved, 30);
    EXPECT_EQ(aclrtSynchronizeStream(stream()), 0);
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

}  // namespace
}  // namespace gradus::testing
