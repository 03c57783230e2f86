#include <cstring>

#include "aclnnop/aclnn_fused_cross_entropy_loss_with_max_sum.h"
#include "aclnnop/aclnn_fused_linear_cross_entropy_loss_grad.h"
#include "aclnnop/aclnn_fused_linear_online_max_sum.h"
#include "gradus/gradus.h"
#include "testing/bench/matrix.h"
#include "testing/bench/stream.h"

namespace gradus::bench {
namespace {

// BT, V, H of real models: Llama-3-8B, one of eight parts; Qwen2.5-0.5B; GPT-2; Gemma-2-2B, one of eight.
const Shape kShapes[] = {{1024, 16032, 4096}, {512, 151936, 896}, {1024, 50257, 768}, {1024, 32000, 2304}};
const Shape kTiny = {4, 128, 16};

// With AMX half of its peak is wanted: at that rate everything around the tiles shows.
double target_of(aclDataType dtype) {
    if (std::strcmp(gradusGetOption("max_isa"), "amx") == 0) return 0.50;
    return dtype == ACL_BF16 ? 0.88 : 0.80;
}

double flops_of(const Shape& s, int products) {
    return 2.0 * products * static_cast<double>(s[0]) * static_cast<double>(s[1]) * static_cast<double>(s[2]);
}

// Logits of a few units, as a model has them: random numbers of order 1, times 2^-6.
Tensor small_weight(const Shape& s, aclDataType dtype) {
    const Tensor weight({s[1], s[2]}, dtype);
    auto* bits = reinterpret_cast<uint16_t*>(weight.data());
    for (int64_t i = 0; i < s[1] * s[2]; ++i)
        bits[i] = static_cast<uint16_t>(bits[i] - (6 << (dtype == ACL_BF16 ? 7 : 10)));
    return weight;
}

Tensor targets(const Shape& s) {
    const Tensor target({s[0]}, ACL_INT32);
    for (int64_t i = 0; i < s[0]; ++i)
        reinterpret_cast<int32_t*>(target.data())[i] = static_cast<int32_t>(i * 7919 % s[1]);
    return target;
}

Trial max_sum(const Shape& s, aclDataType dtype) {
    const Tensor input({s[0], s[2]}, dtype), weight = small_weight(s, dtype), target = targets(s);
    const Tensor max({s[0]}, ACL_FLOAT), sum({s[0]}, ACL_FLOAT), predicted({s[0]}, ACL_FLOAT);
    const Tensor mask({(s[0] + 7) / 8}, ACL_UINT8), masked({s[0]}, ACL_INT32);
    return {.prepare =
                [=](uint64_t* size, aclOpExecutor** executor) {
                    return aclnnFusedLinearOnlineMaxSumGetWorkspaceSize(
                        input, weight, target, 0, s[1], writable(max), writable(sum), writable(predicted),
                        writable(mask), writable(masked), nullptr, size, executor);
                },
            .launch = aclnnFusedLinearOnlineMaxSum,
            .limit = matrix_limit(flops_of(s, 1), dtype)};
}

Trial gradient(const Shape& s, aclDataType dtype) {
    const Tensor input({s[0], s[2]}, dtype), weight = small_weight(s, dtype), target = targets(s);
    const Tensor max({s[0]}, ACL_FLOAT), sum({s[0]}, ACL_FLOAT), grad({s[0]}, ACL_FLOAT);
    const Tensor mask({(s[0] + 7) / 8}, ACL_UINT8), input_grad({s[0], s[2]}, dtype), weight_grad({s[1], s[2]}, dtype);
    for (int64_t i = 0; i < s[0]; ++i) {  // about what the statistics of such logits are
        reinterpret_cast<float*>(max.data())[i] = 5;
        reinterpret_cast<float*>(sum.data())[i] = static_cast<float>(s[1]) / 50;
    }
    return {.prepare =
                [=](uint64_t* size, aclOpExecutor** executor) {
                    return aclnnFusedLinearCrossEntropyLossGradGetWorkspaceSize(grad, input, weight, mask, target, 0,
                                                                                max, sum, nullptr, writable(input_grad),
                                                                                writable(weight_grad), size, executor);
                },
            .launch = aclnnFusedLinearCrossEntropyLossGrad,
            .limit = matrix_limit(flops_of(s, 3), dtype)};
}

Trial loss(const Shape& s, aclDataType dtype) {
    const Shape logits_shape = {s[0], s[1]};
    const Tensor max({s[0]}, ACL_FLOAT), sum({s[0]}, ACL_FLOAT), predicted({s[0]}, ACL_FLOAT), out({s[0]}, ACL_FLOAT);
    const Tensor logits(logits_shape, dtype), softmax(logits_shape, ACL_FLOAT);
    const int64_t row = s[1] * 4;
    return {.prepare =
                [=](uint64_t* size, aclOpExecutor** executor) {
                    return aclnnFusedCrossEntropyLossWithMaxSumGetWorkspaceSize(max, sum, predicted, 0, nullptr,
                                                                                nullptr, logits, writable(out),
                                                                                writable(softmax), size, executor);
                },
            .launch = aclnnFusedCrossEntropyLossWithMaxSum,
            .limit = stream_limit(s[0], row, {{logits.data(), row}}, {{softmax.data(), row}})};
}

}  // namespace

void bench_fused_linear_cross_entropy(Bench& bench) {
    const struct {
        const char* name;
        Trial (*make)(const Shape& shape, aclDataType dtype);
    } products[] = {{"FusedLinearOnlineMaxSum", max_sum}, {"FusedLinearCrossEntropyLossGrad", gradient}};
    for (const auto& op : products) {
        for (const Shape& shape : kShapes)
            for (const aclDataType dtype : {ACL_BF16, ACL_FLOAT16})
                bench.add({op.name, shape, dtype, target_of(dtype), [=] { return op.make(shape, dtype); }});
        bench.add_tiny({op.name, kTiny, ACL_BF16, kTinyMicroseconds, [=] { return op.make(kTiny, ACL_BF16); }});
    }
    for (const Shape& shape : {Shape{1024, 16032}, Shape{1024, 50257}})
        bench.add({"FusedCrossEntropyLossWithMaxSum", shape, ACL_FLOAT, 0.70, [=] { return loss(shape, ACL_FLOAT); }});
    bench.add_tiny({"FusedCrossEntropyLossWithMaxSum", {4, 128}, ACL_FLOAT, kTinyMicroseconds, [] {
                        return loss({4, 128}, ACL_FLOAT);
                    }});
}

}  // namespace gradus::bench
