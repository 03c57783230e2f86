// One long sequence, as a model would have it: both operators within the memory they state, and right where one looks.
// GRADUS_TEST_LONG=1 runs it; it takes 3 GiB and some minutes on two cores.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

#include "aclnnop/aclnn_nsa_selected_attention.h"
#include "aclnnop/aclnn_nsa_selected_attention_grad.h"
#include "testing/call.h"
#include "testing/judge.h"

namespace gradus::testing {
namespace {

constexpr int64_t kRows = 65536, kHeads = 16, kDepth = 192, kValueDepth = 128, kSize = 64, kCount = 16;
const double kScale = 1 / std::sqrt(192.0);

// The most memory that the process has had, in bytes.
double peak_memory() {
    std::ifstream status("/proc/self/status");
    std::string word;
    double kilobytes = 0;
    while (status >> word)
        if (word == "VmHWM:") status >> kilobytes;
    return kilobytes * 1024;
}

uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

// Device memory with its tensor; bf16 and f32 elements are read as double.
class Device {
  public:
    Device(aclDataType dtype, int64_t heads, int64_t width) : dtype_(dtype), width_(heads * width) {
        bytes = kRows * width_ * static_cast<int64_t>(aclDataTypeSize(dtype));
        EXPECT_EQ(aclrtMalloc(&data, static_cast<size_t>(bytes), ACL_MEM_MALLOC_HUGE_FIRST), 0);
        const int64_t shape[] = {kRows, heads, width}, strides[] = {width_, width, 1};
        tensor = aclCreateTensor(shape, 3, dtype, strides, 0, ACL_FORMAT_ND, shape, 3, data);
    }
    ~Device() {
        aclDestroyTensor(tensor);
        aclrtFree(data);
    }
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    // Numbers of magnitude 1/4 to 2, of either sign.
    void fill(uint64_t seed) const {
        auto* words = static_cast<uint16_t*>(data);
        for (int64_t i = 0; i < kRows * width_; ++i) {
            const uint64_t x = mixed(seed * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(i));
            words[i] = static_cast<uint16_t>((x & 0x807F) | (125 + (x >> 32) % 3) << 7);
        }
    }
    double at(int64_t row, int64_t column) const {
        const int64_t i = row * width_ + column;
        if (dtype_ == ACL_FLOAT) return static_cast<const float*>(data)[i];
        const uint32_t bits = static_cast<uint32_t>(static_cast<const uint16_t*>(data)[i]) << 16;
        float value;
        std::memcpy(&value, &bits, sizeof value);
        return value;
    }

    void* data = nullptr;
    int64_t bytes = 0;
    aclTensor* tensor = nullptr;

  private:
    aclDataType dtype_;
    int64_t width_;
};

struct Long {
    Device query{ACL_BF16, kHeads, kDepth}, key{ACL_BF16, 1, kDepth}, value{ACL_BF16, 1, kValueDepth},
        topk{ACL_INT32, 1, kCount}, max{ACL_FLOAT, kHeads, 8}, sum{ACL_FLOAT, kHeads, 8},
        out{ACL_BF16, kHeads, kValueDepth}, out_grad{ACL_BF16, kHeads, kValueDepth}, dq{ACL_BF16, kHeads, kDepth},
        dk{ACL_BF16, 1, kDepth}, dv{ACL_BF16, 1, kValueDepth};

    // The first block, a row's own, and others of those before it.
    Long() {
        query.fill(1), key.fill(2), value.fill(3), out_grad.fill(4);
        for (int64_t row = 0; row < kRows; ++row)
            for (int64_t c = 0; c < kCount; ++c) {
                const int64_t own = row / kSize, any = static_cast<int64_t>(mixed(static_cast<uint64_t>(row * 16 + c)));
                static_cast<int32_t*>(topk.data)[row * kCount + c] =
                    static_cast<int32_t>(c == 0   ? 0
                                         : c == 1 ? own
                                                  : (any & 0xFFFFFF) % (own + 1));
            }
    }
    double tensor_bytes() const {
        int64_t bytes = 0;
        for (const Device* d : {&query, &key, &value, &topk, &max, &sum, &out, &out_grad, &dq, &dk, &dv})
            bytes += d->bytes;
        return static_cast<double>(bytes);
    }

    // S of head h of a row and a key, and whether it is seen.
    double score(int64_t row, int64_t h, int64_t key_row) const {
        double dot = 0;
        for (int64_t d = 0; d < kDepth; ++d) dot += query.at(row, h * kDepth + d) * key.at(key_row, d);
        return dot * kScale;
    }
    std::vector<int64_t> keys_of(int64_t row) const {
        std::vector<int64_t> keys;
        for (int64_t c = 0; c < kCount; ++c)
            for (int64_t r = 0; r < kSize; ++r) {
                const int64_t j = static_cast<const int32_t*>(topk.data)[row * kCount + c] * kSize + r;
                if (j <= row) keys.push_back(j);
            }
        return keys;
    }
};

uint64_t run(aclnnStatus (*launch)(void*, uint64_t, aclOpExecutor*, aclrtStream), uint64_t size,
             aclOpExecutor* executor) {
    void* workspace = nullptr;
    EXPECT_EQ(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    EXPECT_EQ(launch(workspace, size, executor, stream()), 0) << take_message();
    EXPECT_EQ(aclrtSynchronizeStream(stream()), 0);
    EXPECT_EQ(aclrtFree(workspace), 0);
    return size;
}

// Rounding of P and of the result: a few parts in 2^8 of what the terms are worth.
void expect_near(double got, double want, double terms, const char* name) {
    EXPECT_NEAR(got, want, 0x1p-8 * (terms + std::fabs(want))) << name;
}

TEST(NsaSelectedAttention, LongSequence) {
    if (std::getenv("GRADUS_TEST_LONG") == nullptr) GTEST_SKIP() << "GRADUS_TEST_LONG=1 runs it";
    stream();
    char layout[] = "TND";
    const Long p;
    const Device mask(ACL_UINT8, 1, 1);
    const int64_t shape[] = {2, 2}, strides[] = {2, 1};
    aclTensor* two = aclCreateTensor(shape, 2, ACL_UINT8, strides, 0, ACL_FORMAT_ND, shape, 2, mask.data);
    uint64_t size = 0, forward = 0, gradient = 0;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(aclnnNsaSelectedAttentionGetWorkspaceSize(p.query.tensor, p.key.tensor, p.value.tensor, p.topk.tensor,
                                                        two, nullptr, nullptr, kScale, kHeads, layout, 2, kSize, kCount,
                                                        p.max.tensor, p.sum.tensor, p.out.tensor, &size, &executor),
              0)
        << take_message();
    forward = run(aclnnNsaSelectedAttention, size, executor);
    ASSERT_EQ(aclnnNsaSelectedAttentionGradGetWorkspaceSize(
                  p.query.tensor, p.key.tensor, p.value.tensor, p.out.tensor, p.out_grad.tensor, p.max.tensor,
                  p.sum.tensor, p.topk.tensor, nullptr, nullptr, two, kScale, kSize, kCount, kHeads, layout, 2,
                  p.dq.tensor, p.dk.tensor, p.dv.tensor, &size, &executor),
              0)
        << take_message();
    gradient = run(aclnnNsaSelectedAttentionGrad, size, executor);
    aclDestroyTensor(two);
    const double peak = peak_memory(), stated = p.tensor_bytes() + static_cast<double>(std::max(forward, gradient));
    std::printf("peak %.0f MiB; tensors and workspace %.0f MiB, of these workspace %.0f and %.0f MiB\n", peak / 0x1p20,
                stated / 0x1p20, static_cast<double>(forward) / 0x1p20, static_cast<double>(gradient) / 0x1p20);
    EXPECT_LT(peak, stated + 0x1p26);

    for (const int64_t row : {int64_t{0}, int64_t{63}, int64_t{1000}, int64_t{40001}, kRows - 1})
        for (const int64_t h : {int64_t{0}, kHeads - 1}) {
            double sum = 0, delta = 0, out = 0, terms = 0, dq = 0, dq_terms = 0;
            const double max = p.max.at(row, h * 8), given = p.sum.at(row, h * 8);
            const std::vector<int64_t> keys = p.keys_of(row);
            for (int64_t d = 0; d < kValueDepth; ++d)
                delta += p.out.at(row, h * kValueDepth + d) * p.out_grad.at(row, h * kValueDepth + d);
            for (const int64_t key : keys) {
                const double e = std::exp(p.score(row, h, key) - max), prob = e / given;
                double dp = 0;
                for (int64_t d = 0; d < kValueDepth; ++d)
                    dp += p.out_grad.at(row, h * kValueDepth + d) * p.value.at(key, d);
                sum += e, out += prob * p.value.at(key, 5), terms += prob * std::fabs(p.value.at(key, 5));
                const double term = kScale * prob * (dp - delta) * p.key.at(key, 7);
                dq += term, dq_terms += std::fabs(term);
            }
            EXPECT_NEAR(given, sum, 1e-4 * sum) << row;
            expect_near(p.out.at(row, h * kValueDepth + 5), out, terms, "out");
            expect_near(p.dq.at(row, h * kDepth + 7), dq, dq_terms, "dq");
        }

    const int64_t key = 500 * kSize + 17;  // one that a few hundred rows chose
    double dv = 0, dv_terms = 0, dk = 0, dk_terms = 0;
    for (int64_t row = key; row < kRows; ++row)
        for (int64_t c = 0; c < kCount; ++c) {
            if (static_cast<const int32_t*>(p.topk.data)[row * kCount + c] != key / kSize) continue;
            for (int64_t h = 0; h < kHeads; ++h) {
                const double prob = std::exp(p.score(row, h, key) - p.max.at(row, h * 8)) / p.sum.at(row, h * 8);
                double dp = 0;
                for (int64_t d = 0; d < kValueDepth; ++d) {
                    const double g = p.out_grad.at(row, h * kValueDepth + d);
                    dp += g * (p.value.at(key, d) - p.out.at(row, h * kValueDepth + d));
                }
                const double to_value = prob * p.out_grad.at(row, h * kValueDepth + 3),
                             to_key = kScale * prob * dp * p.query.at(row, h * kDepth + 11);
                dv += to_value, dv_terms += std::fabs(to_value), dk += to_key, dk_terms += std::fabs(to_key);
            }
        }
    expect_near(p.dv.at(key, 3), dv, dv_terms, "dv");
    expect_near(p.dk.at(key, 11), dk, dk_terms, "dk");
}

}  // namespace
}  // namespace gradus::testing
