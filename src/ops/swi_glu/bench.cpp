#include "aclnnop/aclnn_swi_glu.h"
#include "aclnnop/aclnn_swi_glu_grad.h"
#include "testing/bench/stream.h"

namespace gradus::bench {
namespace {

// x of real models: LLaMA-2-7B; LLaMA-70B and others, one of eight parts.
const Shape kShapes[] = {{4096, 1, 22016}, {4096, 1, 7168}, {8192, 1, 7808}, {2048, 28672}};
const Shape kTiny = {2, 64};
constexpr aclDataType kDTypes[] = {ACL_BF16, ACL_FLOAT16, ACL_FLOAT};
constexpr double target_of(aclDataType dtype) { return dtype == ACL_FLOAT ? 0.90 : 0.80; }

Shape halved(Shape shape) {
    shape.back() /= 2;
    return shape;
}

// x, or whatever has its shape, is read and written as two strips: the halves of its rows.
Strip half(const Tensor& x, int64_t bytes, int which) { return {x.data() + which * bytes, 2 * bytes}; }

Trial forward(const Shape& shape, aclDataType dtype) {
    const Tensor x(shape, dtype), out(halved(shape), dtype);
    const int64_t row = shape.back() / 2 * static_cast<int64_t>(aclDataTypeSize(dtype));
    return {
        .prepare = [=](uint64_t* size,
                       aclOpExecutor** executor) { return aclnnSwiGluGetWorkspaceSize(x, -1, out, size, executor); },
        .launch = aclnnSwiGlu,
        .limit = stream_limit(out.bytes() / row, row, {half(x, row, 0), half(x, row, 1)}, {{out.data(), row}})};
}

Trial gradient(const Shape& shape, aclDataType dtype) {
    const Tensor y_grad(halved(shape), dtype), x(shape, dtype), out(shape, dtype);
    const int64_t row = shape.back() / 2 * static_cast<int64_t>(aclDataTypeSize(dtype));
    return {.prepare =
                [=](uint64_t* size, aclOpExecutor** executor) {
                    return aclnnSwiGluGradGetWorkspaceSize(y_grad, x, -1, out, size, executor);
                },
            .launch = aclnnSwiGluGrad,
            .limit = stream_limit(y_grad.bytes() / row, row, {{y_grad.data(), row}, half(x, row, 0), half(x, row, 1)},
                                  {half(out, row, 0), half(out, row, 1)})};
}

}  // namespace

void bench_swi_glu(Bench& bench) {
    const struct {
        const char* name;
        Trial (*make)(const Shape& shape, aclDataType dtype);
    } operators[] = {{"SwiGlu", forward}, {"SwiGluGrad", gradient}};
    for (const auto& op : operators) {
        for (const Shape& shape : kShapes)
            for (const aclDataType dtype : kDTypes)
                bench.add({op.name, shape, dtype, target_of(dtype), [=] { return op.make(shape, dtype); }});
        bench.add_tiny({op.name, kTiny, ACL_BF16, kTinyMicroseconds, [=] { return op.make(kTiny, ACL_BF16); }});
    }
}

}  // namespace gradus::bench
