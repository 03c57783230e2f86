#include "aclnnop/aclnn_exp_segsum_backward.h"
#include "aclnnop/aclnn_segsum.h"
#include "testing/bench/stream.h"

namespace gradus::bench {
namespace {

// gradOutput of real models: Mamba2-2.7B; 8B, one of eight parts; chunks of 64; a short last chunk.
const Shape kShapes[] = {{1, 80, 16, 256, 256}, {2, 16, 32, 128, 128}, {1, 64, 32, 64, 64}, {1, 80, 17, 17}};
const Shape kTiny = {1, 1, 16, 16};
constexpr aclDataType kDTypes[] = {ACL_BF16, ACL_FLOAT16, ACL_FLOAT};

Shape vectors(Shape shape) {
    shape.pop_back();
    return shape;
}

int64_t row_bytes(const Shape& shape, aclDataType dtype) {
    return shape.back() * static_cast<int64_t>(aclDataTypeSize(dtype));
}

// All of the matrices is written; what is read is next to nothing.
Trial forward(const Shape& shape, aclDataType dtype) {
    const Tensor self(vectors(shape), dtype), out(shape, dtype);
    const int64_t row = row_bytes(shape, dtype);
    return {
        .prepare = [=](uint64_t* size,
                       aclOpExecutor** executor) { return aclnnExpSegsumGetWorkspaceSize(self, out, size, executor); },
        .launch = aclnnExpSegsum,
        .limit = stream_limit(out.bytes() / row, row, {}, {{out.data(), row}})};
}

// The bytes below the diagonal, as if they lay together.
Trial backward(const Shape& shape, aclDataType dtype) {
    const Tensor grad_output(shape, dtype), grad_self(shape, dtype), grad_input(vectors(shape), dtype);
    const int64_t row = row_bytes(shape, dtype), triangle = row * (shape.back() - 1) / 2;
    return {.prepare =
                [=](uint64_t* size, aclOpExecutor** executor) {
                    return aclnnExpSegsumBackwardGetWorkspaceSize(grad_output, grad_self, grad_input, size, executor);
                },
            .launch = aclnnExpSegsumBackward,
            .limit = stream_limit(grad_output.bytes() / (row * shape.back()), triangle,
                                  {{grad_output.data(), triangle}, {grad_self.data(), triangle}}, {})};
}

}  // namespace

void bench_exp_segsum(Bench& bench) {
    const struct {
        const char* name;
        double bf16, others;  // targets
        Trial (*make)(const Shape& shape, aclDataType dtype);
    } operators[] = {{"ExpSegsum", 0.75, 0.80, forward}, {"ExpSegsumBackward", 0.50, 0.55, backward}};
    for (const auto& op : operators) {
        for (const Shape& shape : kShapes)
            for (const aclDataType dtype : kDTypes) {
                // short rows: half of that
                const double target = (dtype == ACL_FLOAT ? op.others : op.bf16) * (shape.back() < 128 ? 0.5 : 1);
                bench.add({op.name, shape, dtype, target, [=] { return op.make(shape, dtype); }});
            }
        bench.add_tiny({op.name, kTiny, ACL_BF16, kTinyMicroseconds, [=] { return op.make(kTiny, ACL_BF16); }});
    }
}

}  // namespace gradus::bench
