#include "aclnn/phases.h"
#include "aclnnop/aclnn_scaled_masked_softmax.h"
#include "aclnnop/aclnn_scaled_masked_softmax_backward.h"
#include "ops/families.h"
#include "ops/scaled_masked_softmax/bench.h"
#include "ops/scaled_masked_softmax/plan.h"

namespace gradus {
namespace {

constexpr DType kMaskTypes[] = {DType::boolean};
constexpr char kShape[] = "B,H,S,N";
constexpr char kMaskShape[] = "B|1,H|1,S,N";
constexpr char kLimits[] = "N from 1 to 4096";
constexpr Products kProducts = {.a2 = true};

constexpr Argument kForwardArguments[] = {
    reading(Reads::in_part, input("x", kFloats, kShape, "randn,std=4", kLimits)),
    input("mask", kMaskTypes, kMaskShape, "attention_mask"),
    attribute("scale", GRADUS_DOUBLE, "narrowed to float", Value(1.0)),
    attribute("fixTriuMask", GRADUS_BOOL, "false", Value(false)),
    output("y", kFloats, kShape, Promise::summed, "N", kLimits, {"x"}),
};

constexpr Argument kBackwardArguments[] = {
    input("gradOutput", kFloats, kShape, "randn", kLimits),
    // Without the mask, which would leave zeros where it is true: a gradient that ignores it would be right.
    input("y", kFloats, kShape, "@ScaledMaskedSoftmax.y,mask=zeros", kLimits),
    input("mask", kMaskTypes, kMaskShape, "attention_mask"),
    attribute("scale", GRADUS_DOUBLE, "narrowed to float", Value(1.0)),
    attribute("fixTriuMask", GRADUS_BOOL, "false", Value(false)),
    output("out", kFloats, kShape, Promise::summed, "N+1", kLimits, {"gradOutput", "y"}),
};

constexpr Operator kOperators[] = {
    {.name = "ScaledMaskedSoftmax",
     .function = "aclnnScaledMaskedSoftmax",
     .family = "scaled_masked_softmax",
     .formula = "y = softmax(mask ? -10000 : x*scale) along the last dim",
     .document = "aclnnScaledMaskedSoftmax",
     .products = kProducts,
     .takes_labels = true,
     .arguments = kForwardArguments,
     .check = scaled_masked_softmax::check_forward,
     .plan = scaled_masked_softmax::plan_forward,
     .trials = &scaled_masked_softmax::kForwardTrials},
    {.name = "ScaledMaskedSoftmaxBackward",
     .function = "aclnnScaledMaskedSoftmaxBackward",
     .family = "scaled_masked_softmax",
     .formula = "t = gradOutput*y; out = mask ? 0 : (t - sum(t)*y)*scale, sums along the last dim",
     .document = "aclnnScaledMaskedSoftmaxBackward",
     .products = kProducts,
     .takes_labels = false,
     .arguments = kBackwardArguments,
     .check = scaled_masked_softmax::check_backward,
     .plan = scaled_masked_softmax::plan_backward,
     .trials = &scaled_masked_softmax::kBackwardTrials},
};
constexpr const Operator &kForward = kOperators[0], &kBackward = kOperators[1];

}  // namespace

std::span<const Operator> scaled_masked_softmax_operators() { return kOperators; }

}  // namespace gradus

using namespace gradus;  // NOLINT(google-build-using-namespace)

extern "C" {

aclnnStatus aclnnScaledMaskedSoftmaxGetWorkspaceSize(const aclTensor* x, const aclTensor* mask, double scale,
                                                     bool fixTriuMask, aclTensor* y, uint64_t* workspaceSize,
                                                     aclOpExecutor** executor) {
    return prepare(kForward, {x, mask, scale, fixTriuMask, y}, workspaceSize, executor);
}

aclnnStatus aclnnScaledMaskedSoftmax(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                     aclrtStream stream) {
    return launch(&kForward, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnScaledMaskedSoftmaxBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* y,
                                                             const aclTensor* mask, double scale, bool fixTriuMask,
                                                             aclTensor* out, uint64_t* workspaceSize,
                                                             aclOpExecutor** executor) {
    return prepare(kBackward, {gradOutput, y, mask, scale, fixTriuMask, out}, workspaceSize, executor);
}

aclnnStatus aclnnScaledMaskedSoftmaxBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                             aclrtStream stream) {
    return launch(&kBackward, workspace, workspaceSize, executor, stream);
}

}  // extern "C"
