#include "base/check.h"

#include "ops/scaled_masked_softmax/plan.h"

namespace gradus::scaled_masked_softmax {
namespace {

constexpr int64_t kMostKeys = 4096;

using ExpectDtype = Status (*)(const char* argument, const TensorView& view, const char* other, const TensorView& as);

Status expect_like(const char* argument, const TensorView& view, const char* other, const TensorView& as,
                   ExpectDtype expect_dtype) {
    GRADUS_TRY(expect_rank(argument, view, kRank, kRank));
    GRADUS_TRY(expect_dtype(argument, view, other, as));
    return expect_shape(argument, view, {as.size.data(), size_t{kRank}});
}

Status check_mask(const TensorView& mask, const char* other, const TensorView& as) {
    GRADUS_TRY(expect_rank("mask", mask, kRank, kRank));
    bool fits = mask.of(2) == as.of(2) && mask.of(3) == as.of(3);
    for (const int d : {0, 1}) fits &= mask.of(d) == as.of(d) || mask.of(d) == 1;
    if (fits) return {};
    return invalid("mask", "shape ", shape_text(mask), ", expected that of ", other, ", ", shape_text(as),
                   ", or 1 in its first two dims");
}

Status check_rest(const Call& call, const char* argument, const TensorView& view, bool fix_triu_mask) {
    if (fix_triu_mask) return invalid("fixTriuMask", "true, expected false");
    if (call.config.limits && (view.of(3) < 1 || view.of(3) > kMostKeys))
        return beyond_limit(argument, "last dim ", view.of(3), " of shape ", shape_text(view), ", expected 1 to ",
                            kMostKeys);
    return {};
}

}  // namespace

Status check_forward(const Call& call) {
    using namespace forward;
    const TensorView& x = call.view(kX);
    GRADUS_TRY(expect_rank("x", x, kRank, kRank));
    GRADUS_TRY(check_mask(call.view(kMask), "x", x));
    GRADUS_TRY(expect_like("y", call.view(kY), "x", x, expect_result_dtype));
    return check_rest(call, "x", x, call.boolean(kFixTriuMask));
}

Status check_backward(const Call& call) {
    using namespace backward;
    const TensorView& grad = call.view(kGradOutput);
    GRADUS_TRY(expect_rank("gradOutput", grad, kRank, kRank));
    GRADUS_TRY(expect_like("y", call.view(kY), "gradOutput", grad, expect_same_dtype));
    GRADUS_TRY(check_mask(call.view(kMask), "gradOutput", grad));
    GRADUS_TRY(expect_like("out", call.view(kOut), "gradOutput", grad, expect_result_dtype));
    return check_rest(call, "gradOutput", grad, call.boolean(kFixTriuMask));
}

}  // namespace gradus::scaled_masked_softmax
