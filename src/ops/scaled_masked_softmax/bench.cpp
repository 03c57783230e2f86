#include "aclnnop/aclnn_scaled_masked_softmax.h"
#include "aclnnop/aclnn_scaled_masked_softmax_backward.h"
#include "testing/bench/stream.h"

namespace gradus::bench {
namespace {

// Attention scores as Megatron makes them; the heads of a batch share a mask.
const Shape kShapes[] = {{4, 32, 1024, 1024}, {4, 4, 2048, 2048}, {1, 4, 4096, 4096}, {16, 6, 512, 512}};
const Shape kTiny = {1, 2, 4, 16};
constexpr aclDataType kDTypes[] = {ACL_BF16, ACL_FLOAT16, ACL_FLOAT};
constexpr double kScale = 0.125;

// A triangle above the diagonal is hidden. It is not counted as traffic: every head but the first finds it in the
// cache.
Tensor causal_mask(const Shape& shape) {
    const Tensor mask({shape[0], 1, shape[2], shape[3]}, ACL_BOOL);
    for (int64_t row = 0; row < shape[0] * shape[2]; ++row)
        for (int64_t i = 0; i < shape[3]; ++i) mask.data()[row * shape[3] + i] = std::byte(i > row % shape[2]);
    return mask;
}

Trial forward(const Shape& shape, aclDataType dtype) {
    const Tensor x(shape, dtype), mask = causal_mask(shape), y(shape, dtype);
    const int64_t row = shape.back() * static_cast<int64_t>(aclDataTypeSize(dtype));
    return {.prepare =
                [=](uint64_t* size, aclOpExecutor** executor) {
                    return aclnnScaledMaskedSoftmaxGetWorkspaceSize(x, mask, kScale, false, y, size, executor);
                },
            .launch = aclnnScaledMaskedSoftmax,
            .limit = stream_limit(y.bytes() / row, row, {{x.data(), row}}, {{y.data(), row}})};
}

Trial backward(const Shape& shape, aclDataType dtype) {
    const Tensor g(shape, dtype), y(shape, dtype), mask = causal_mask(shape), out(shape, dtype);
    const int64_t row = shape.back() * static_cast<int64_t>(aclDataTypeSize(dtype));
    return {.prepare =
                [=](uint64_t* size, aclOpExecutor** executor) {
                    return aclnnScaledMaskedSoftmaxBackwardGetWorkspaceSize(g, y, mask, kScale, false, out, size,
                                                                            executor);
                },
            .launch = aclnnScaledMaskedSoftmaxBackward,
            .limit = stream_limit(out.bytes() / row, row, {{g.data(), row}, {y.data(), row}}, {{out.data(), row}})};
}

}  // namespace

void bench_scaled_masked_softmax(Bench& bench) {
    const struct {
        const char* name;
        Trial (*make)(const Shape& shape, aclDataType dtype);
        double target, target_f32;
    } operators[] = {{"ScaledMaskedSoftmax", forward, 0.70, 0.85},
                     {"ScaledMaskedSoftmaxBackward", backward, 0.80, 0.90}};
    for (const auto& op : operators) {
        for (const Shape& shape : kShapes)
            for (const aclDataType dtype : kDTypes)
                bench.add({op.name, shape, dtype, dtype == ACL_FLOAT ? op.target_f32 : op.target,
                           [=] { return op.make(shape, dtype); }});
        bench.add_tiny({op.name, kTiny, ACL_BF16, kTinyMicroseconds, [=] { return op.make(kTiny, ACL_BF16); }});
    }
}

}  // namespace gradus::bench
