// The arguments of a call as the library sees them: placed in memory, with handles, and phase one's answer.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "testing/call.h"

namespace gradus::testing {

inline constexpr std::byte kPoison{0xFF};  // NaN in every float type, −1 in every integer
inline constexpr int64_t kGuard = 64;

// Visits every element, neighbours in one go: dense index, position in the storage, how many.
template <typename F>
void each_run(const Shape& shape, const Layout& layout, const F& f) {
    const int64_t count = numel(shape);
    const bool rows = !shape.empty() && layout.stride.back() == 1;
    const int64_t length = rows ? shape.back() : 1;
    const size_t outer = shape.size() - (rows ? 1 : 0);
    std::vector<int64_t> index(shape.size());
    for (int64_t i = 0; i < count; i += length) {
        int64_t at = layout.offset;
        for (size_t d = 0; d < outer; ++d) at += index[d] * layout.stride[d];
        f(i, at, length);
        for (size_t d = outer; d-- > 0;) {
            if (++index[d] < shape[d]) break;
            index[d] = 0;
        }
    }
}

// A tensor as the library sees it.
class Placed {
  public:
    Placed(const Call::Tensor& from, Memory memory, int64_t shift) : tensor_(from) {
        const int64_t item = from.values.item();
        front_ = memory == Memory::device     ? kGuard + shift * item
                 : memory == Memory::page_end ? kGuard + shift * item
                                              : 0;
        const int64_t back = memory == Memory::page_end ? 0 : kGuard;
        image_.assign(static_cast<size_t>(front_ + from.layout.storage * item + back), kPoison);
        each_run(from.values.shape, from.layout, [&](int64_t i, int64_t at, int64_t n) {
            if (from.output || at < 0 || at >= from.layout.storage) return;  // a lie about strides may lead anywhere
            std::memcpy(image_.data() + front_ + at * item, from.values.bytes.data() + i * item,
                        static_cast<size_t>(std::min(n, from.layout.storage - at) * item));
        });
        if (memory == Memory::device) {
            EXPECT_EQ(aclrtMalloc(&device_, image_.size(), ACL_MEM_MALLOC_HUGE_FIRST), 0) << take_message();
            base_ = static_cast<std::byte*>(device_);
        } else {
            pages_ = std::make_unique<GuardedPages>(image_.size(), memory == Memory::page_end);
            base_ = pages_->data();
        }
        EXPECT_EQ(aclrtMemcpy(base_, image_.size(), image_.data(), image_.size(), ACL_MEMCPY_HOST_TO_DEVICE), 0)
            << take_message();
        const std::vector<int64_t> storage = from.storage_dims.value_or(std::vector<int64_t>{from.layout.storage});
        handle = aclCreateTensor(from.values.shape.data(), from.values.shape.size(),
                                 from.type.value_or(from.values.type), from.layout.stride.data(), from.layout.offset,
                                 from.format, storage.data(), storage.size(), base_ + front_);
    }
    ~Placed() {
        destroy();
        free();
    }
    Placed(const Placed&) = delete;
    Placed& operator=(const Placed&) = delete;

    void destroy() {
        if (handle != nullptr) EXPECT_EQ(aclDestroyTensor(handle), 0);
        handle = nullptr;
    }

    void free() {
        if (device_ != nullptr) EXPECT_EQ(aclrtFree(device_), 0);
        device_ = nullptr;
    }
    // Looked at without the library, which would wait for the streams.
    bool untouched() const { return std::memcmp(base_, image_.data(), image_.size()) == 0; }

    // Reads the storage back and judges what is not the operator's: everything for an input, the padding for an output.
    Array collect(const std::string& op) {
        std::vector<std::byte> now(image_.size());
        EXPECT_EQ(aclrtMemcpy(now.data(), now.size(), base_, now.size(), ACL_MEMCPY_DEVICE_TO_HOST), 0)
            << take_message();
        const int64_t item = tensor_.values.item();
        Array result(tensor_.values.type, tensor_.values.shape);
        std::vector<std::byte> expected = image_;
        each_run(result.shape, tensor_.layout, [&](int64_t i, int64_t at, int64_t n) {
            const std::byte* from = now.data() + front_ + at * item;
            const auto bytes = static_cast<size_t>(n * item);
            std::memcpy(result.bytes.data() + i * item, from, bytes);
            if (tensor_.output) std::memcpy(expected.data() + front_ + at * item, from, bytes);
        });
        const auto [at, other] = std::mismatch(now.begin(), now.end(), expected.begin());
        EXPECT_TRUE(at == now.end()) << op << (tensor_.output ? ": wrote outside the view of " : ": changed the input ")
                                     << tensor_.name << ", byte " << (at - now.begin()) - front_ << " of its storage";
        return result;
    }

    std::byte* address() const { return base_ + front_; }
    void poison() {
        EXPECT_EQ(aclrtMemcpy(base_, image_.size(), image_.data(), image_.size(), ACL_MEMCPY_HOST_TO_DEVICE), 0);
    }

    aclTensor* handle = nullptr;

  private:
    const Call::Tensor& tensor_;
    int64_t front_ = 0;
    std::vector<std::byte> image_;
    void* device_ = nullptr;
    std::byte* base_ = nullptr;
    std::unique_ptr<GuardedPages> pages_;
};

inline gradusArg named(const std::string& name, gradusKind kind) {
    gradusArg arg{};
    arg.name = name.c_str();
    arg.kind = kind;
    return arg;
}

// The arguments, placed and named, for one phase one.
class Prepared {
  public:
    explicit Prepared(Call& call) {
        stream();
        for (const Call::Tensor& tensor : call.tensors) {
            placed.push_back(tensor.null ? nullptr : std::make_unique<Placed>(tensor, call.memory, call.shift));
            args_.push_back(named(tensor.name, GRADUS_TENSOR));
            args_.back().value.tensor = placed.back() ? placed.back()->handle : nullptr;
        }
        for (const Call::Attribute& attribute : call.attributes_) {
            gradusArg arg = attribute.value;
            arg.name = attribute.name.c_str();
            if (arg.kind == GRADUS_STRING) arg.value.s = attribute.words.c_str();
            if (arg.kind == GRADUS_INT_ARRAY) {
                arrays_.push_back(aclCreateIntArray(attribute.integers.data(), attribute.integers.size()));
                arg.value.array = arrays_.back();
            }
            // the last one given counts, so that a test can change an attribute of a good call
            const auto same =
                std::find_if(args_.begin(), args_.end(), [&](const gradusArg& a) { return attribute.name == a.name; });
            if (same != args_.end())
                *same = arg;
            else
                args_.push_back(arg);
        }
        if (call.change) call.change(args_);
        take_message();
        code = gradusPrepare(call.op.c_str(), args_.data(), args_.size(), &size, &executor);
    }
    ~Prepared() {
        for (const aclIntArray* array : arrays_) aclDestroyIntArray(array);
    }
    Prepared(const Prepared&) = delete;
    Prepared& operator=(const Prepared&) = delete;

    static constexpr uint64_t kUntouched = 0xDEADBEEF;
    std::vector<std::unique_ptr<Placed>> placed;
    uint64_t size = kUntouched;
    aclOpExecutor* executor = reinterpret_cast<aclOpExecutor*>(kUntouched);
    int code = 0;

  private:
    std::vector<gradusArg> args_;
    std::vector<aclIntArray*> arrays_;
};

}  // namespace gradus::testing
