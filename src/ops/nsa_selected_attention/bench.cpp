#include <cstring>

#include "aclnnop/aclnn_nsa_selected_attention.h"
#include "aclnnop/aclnn_nsa_selected_attention_grad.h"
#include "gradus/gradus.h"
#include "testing/bench/matrix.h"

namespace gradus::bench {
namespace {

// T, N1, N2, D, Dv, size, count, batches.
const Shape kShapes[] = {{4096, 16, 1, 192, 128, 64, 16, 1},
                         {2048, 64, 4, 192, 128, 64, 16, 1},
                         {4096, 32, 8, 128, 128, 64, 16, 1},
                         {5120, 16, 1, 192, 128, 32, 32, 4}};
const Shape kTiny = {4, 4, 1, 128, 128, 16, 1, 1};
enum { kRows, kHeads, kKeyHeads, kDepth, kValueDepth, kSize, kCount, kBatches };

// With AMX 0.3 of its peak is wanted: at that rate everything around the tiles shows.
double target_of(aclDataType dtype) {
    if (std::strcmp(gradusGetOption("max_isa"), "amx") == 0) return 0.30;
    return dtype == ACL_BF16 ? 0.65 : 0.55;
}

// Cumulative lengths: three fifths of the rows in three batches, the rest in a fourth; each has room for the blocks.
std::vector<int64_t> ends_of(const Shape& s) {
    if (s[kBatches] == 1) return {s[kRows]};
    return {s[kRows] / 5, s[kRows] * 2 / 5, s[kRows] * 3 / 5, s[kRows]};
}

// The first block, the row's own, and others before it at random; where there are too few, whatever the batch has.
Tensor choices(const Shape& s) {
    const Tensor topk({s[kRows], s[kKeyHeads], s[kCount]}, ACL_INT32);
    auto* to = reinterpret_cast<int32_t*>(topk.data());
    uint32_t state = 1;
    int64_t begin = 0;
    for (const int64_t end : ends_of(s)) {
        const int64_t blocks = (end - begin) / s[kSize];
        for (int64_t row = 0; row < end - begin; ++row)
            for (int64_t h = 0; h < s[kKeyHeads]; ++h) {
                const int64_t own = row / s[kSize], range = own < s[kCount] ? blocks : own;
                for (int64_t c = 0; c < s[kCount]; ++c) {
                    state = state * 1664525 + 1013904223;
                    // one out of each of count stretches: no block twice
                    const int64_t low = range * c / s[kCount], high = range * (c + 1) / s[kCount];
                    *to++ = static_cast<int32_t>(c == 0   ? 0
                                                 : c == 1 ? std::min(own, blocks - 1)
                                                          : low + static_cast<int64_t>(state >> 8) %
                                                                      std::max<int64_t>(1, high - low));
                }
            }
        begin = end;
    }
    return topk;
}

// Products of rows·heads·count·size·D and Dv: 1 of each forward; 3 and 2 of the gradient. All keys are seen.
double flops_of(const Shape& s, double by_depth, double by_value_depth) {
    return 2.0 * static_cast<double>(s[kRows] * s[kHeads]) * static_cast<double>(s[kSize] * s[kCount]) *
           (by_depth * static_cast<double>(s[kDepth]) + by_value_depth * static_cast<double>(s[kValueDepth]));
}

struct Lengths {
    explicit Lengths(const std::vector<int64_t>& ends)
        : array(aclCreateIntArray(ends.data(), ends.size()), &aclDestroyIntArray) {}
    std::shared_ptr<aclIntArray> array;
};

char kTnd[] = "TND";

Trial forward(const Shape& s, aclDataType dtype) {
    const Tensor query({s[kRows], s[kHeads], s[kDepth]}, dtype), key({s[kRows], s[kKeyHeads], s[kDepth]}, dtype);
    const Tensor value({s[kRows], s[kKeyHeads], s[kValueDepth]}, dtype), topk = choices(s);
    const Tensor max({s[kRows], s[kHeads], 8}, ACL_FLOAT), sum({s[kRows], s[kHeads], 8}, ACL_FLOAT);
    const Tensor out({s[kRows], s[kHeads], s[kValueDepth]}, dtype);
    const Lengths ends(ends_of(s));
    return {.prepare =
                [=](uint64_t* size, aclOpExecutor** executor) {
                    return aclnnNsaSelectedAttentionGetWorkspaceSize(
                        query, key, value, topk, nullptr, ends.array.get(), ends.array.get(), 0.01, s[kHeads], kTnd, 0,
                        s[kSize], s[kCount], max, sum, out, size, executor);
                },
            .launch = aclnnNsaSelectedAttention,
            .limit = matrix_limit(flops_of(s, 1, 1), dtype)};
}

Trial gradient(const Shape& s, aclDataType dtype) {
    const Tensor query({s[kRows], s[kHeads], s[kDepth]}, dtype), key({s[kRows], s[kKeyHeads], s[kDepth]}, dtype);
    const Tensor value({s[kRows], s[kKeyHeads], s[kValueDepth]}, dtype), topk = choices(s);
    const Tensor max({s[kRows], s[kHeads], 8}, ACL_FLOAT), sum({s[kRows], s[kHeads], 8}, ACL_FLOAT);
    const Tensor out({s[kRows], s[kHeads], s[kValueDepth]}, dtype),
        out_grad({s[kRows], s[kHeads], s[kValueDepth]}, dtype);
    const Tensor query_grad({s[kRows], s[kHeads], s[kDepth]}, dtype),
        key_grad({s[kRows], s[kKeyHeads], s[kDepth]}, dtype);
    const Tensor value_grad({s[kRows], s[kKeyHeads], s[kValueDepth]}, dtype);
    for (int64_t i = 0; i < s[kRows] * s[kHeads] * 8; ++i) {  // about what the statistics of such scores are
        reinterpret_cast<float*>(max.data())[i] = 1;
        reinterpret_cast<float*>(sum.data())[i] = static_cast<float>(s[kSize] * s[kCount]) / 2;
    }
    const Lengths ends(ends_of(s));
    return {.prepare =
                [=](uint64_t* size, aclOpExecutor** executor) {
                    return aclnnNsaSelectedAttentionGradGetWorkspaceSize(
                        query, key, value, out, out_grad, max, sum, topk, ends.array.get(), ends.array.get(), nullptr,
                        0.01, s[kSize], s[kCount], s[kHeads], kTnd, 0, query_grad, key_grad, value_grad, size,
                        executor);
                },
            .launch = aclnnNsaSelectedAttentionGrad,
            .limit = matrix_limit(flops_of(s, 3, 2), dtype)};
}

}  // namespace

void bench_nsa_selected_attention(Bench& bench) {
    const struct {
        const char* name;
        Trial (*make)(const Shape& shape, aclDataType dtype);
    } operators[] = {{"NsaSelectedAttention", forward}, {"NsaSelectedAttentionGrad", gradient}};
    for (const auto& op : operators) {
        for (const Shape& shape : kShapes)
            for (const aclDataType dtype : {ACL_BF16, ACL_FLOAT16})
                bench.add({op.name, shape, dtype, target_of(dtype), [=] { return op.make(shape, dtype); }});
        bench.add_tiny({op.name, kTiny, ACL_BF16, kTinyMicroseconds, [=] { return op.make(kTiny, ACL_BF16); }});
    }
}

}  // namespace gradus::bench
