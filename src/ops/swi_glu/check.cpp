#include "base/check.h"

#include "ops/swi_glu/plan.h"

namespace gradus::swi_glu {
namespace {

constexpr int kLeastRank = 1, kMostRank = 8;

Status check_x(const TensorView& x, int64_t dim) {
    GRADUS_TRY(expect_rank("x", x, kLeastRank, kMostRank));
    if (dim < -x.rank || dim >= x.rank)
        return invalid("dim", dim, ", expected ", -x.rank, " to ", x.rank - 1, " for x of shape ", shape_text(x));
    const int axis = axis_of(dim, x.rank);
    if (x.of(axis) % 2 != 0)
        return invalid("x", "size ", x.of(axis), " of dim ", axis, " of shape ", shape_text(x),
                       ", expected an even size");
    return {};
}

Status expect_half(const char* argument, const TensorView& half, const TensorView& x, int axis) {
    TensorView wanted = x;
    wanted.size[static_cast<size_t>(axis)] /= 2;
    return expect_shape(argument, half, {wanted.size.data(), static_cast<size_t>(wanted.rank)});
}

Status expect_plain(const char* argument, const TensorView& view) {
    if (view.empty()) return beyond_limit(argument, "empty shape ", shape_text(view), ", expected elements");
    if (!view.contiguous()) return beyond_limit(argument, "not contiguous, expected a contiguous tensor");
    return {};
}

// The inference product knows no bf16, and its vector unit wants halves of whole 64-byte lines.
Status check_inference(const TensorView& x, int axis) {
    if (x.dtype == DType::bf16) return beyond_limit("x", "dtype bf16, expected f32 or f16 on this product");
    int64_t bytes = dtype_size(x.dtype) * (x.of(axis) / 2);
    for (int d = axis + 1; d < x.rank; ++d) bytes *= x.of(d);
    if (bytes % 64 != 0)
        return beyond_limit("x", "halves of ", bytes, " bytes, expected a multiple of 64 on this product");
    return {};
}

}  // namespace

Status check_forward(const Call& call) {
    using namespace forward;
    const TensorView &x = call.view(kX), &out = call.view(kOut);
    GRADUS_TRY(check_x(x, call.integer(kDim)));
    const int axis = axis_of(call.integer(kDim), x.rank);
    GRADUS_TRY(expect_result_dtype("out", out, "x", x));
    GRADUS_TRY(expect_half("out", out, x, axis));
    if (!call.config.limits) return {};
    GRADUS_TRY(expect_plain("x", x));
    GRADUS_TRY(expect_plain("out", out));
    return product_of(call.config.soc_name) == Product::inference ? check_inference(x, axis) : Status();
}

Status check_grad(const Call& call) {
    using namespace grad;
    const TensorView &y_grad = call.view(kYGrad), &x = call.view(kX), &out = call.view(kOut);
    GRADUS_TRY(check_x(x, call.integer(kDim)));
    const int axis = axis_of(call.integer(kDim), x.rank);
    GRADUS_TRY(expect_same_dtype("yGrad", y_grad, "x", x));
    GRADUS_TRY(expect_half("yGrad", y_grad, x, axis));
    GRADUS_TRY(expect_result_dtype("out", out, "x", x));
    GRADUS_TRY(expect_shape("out", out, {x.size.data(), static_cast<size_t>(x.rank)}));
    if (!call.config.limits) return {};
    GRADUS_TRY(expect_plain("yGrad", y_grad));
    GRADUS_TRY(expect_plain("x", x));
    GRADUS_TRY(expect_plain("out", out));
    return product_of(call.config.soc_name) == Product::inference ? check_inference(x, axis) : Status();
}

}  // namespace gradus::swi_glu
