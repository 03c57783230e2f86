#include "aclnn/phases.h"
#include "aclnnop/aclnn_swi_glu.h"
#include "aclnnop/aclnn_swi_glu_grad.h"
#include "ops/families.h"
#include "ops/swi_glu/bench.h"
#include "ops/swi_glu/plan.h"

namespace gradus {
namespace {

constexpr char kLimits[] = "contiguous, not empty";
constexpr char kDims[] = "-rank to rank - 1";
constexpr Products kProducts = {.a2 = true, .inference = true};

constexpr Argument kForwardArguments[] = {
    input("x", kFloats, "...,2*N,...", "randn", kLimits),
    attribute("dim", GRADUS_INT, kDims, Value(int64_t{-1})),
    output("out", kFloats, "...,N,...", Promise::elementwise, "1", kLimits),
};

constexpr Argument kGradArguments[] = {
    input("yGrad", kFloats, "...,N,...", "randn", kLimits),
    input("x", kFloats, "...,2*N,...", "randn", kLimits),
    attribute("dim", GRADUS_INT, kDims, Value(int64_t{-1})),
    output("out", kFloats, "...,2*N,...", Promise::elementwise, "2", kLimits, {"x"}),
};

constexpr Operator kOperators[] = {
    {.name = "SwiGlu",
     .function = "aclnnSwiGlu",
     .family = "swi_glu",
     .formula = "A, B = halves of x along dim; out = A*sigmoid(A)*B",
     .document = "aclnnSwiGlu",
     .products = kProducts,
     .takes_labels = true,
     .arguments = kForwardArguments,
     .check = swi_glu::check_forward,
     .plan = swi_glu::plan_forward,
     .trials = &swi_glu::kForwardTrials},
    {.name = "SwiGluGrad",
     .function = "aclnnSwiGluGrad",
     .family = "swi_glu",
     .formula = "s = sigmoid(A); out = (yGrad*B*(s + s*(1 - s)*A), yGrad*A*s) along dim",
     .document = "aclnnSwiGluGrad",
     .products = kProducts,
     .takes_labels = true,
     .arguments = kGradArguments,
     .check = swi_glu::check_grad,
     .plan = swi_glu::plan_grad,
     .trials = &swi_glu::kGradTrials},
};
constexpr const Operator &kSwiGlu = kOperators[0], &kSwiGluGrad = kOperators[1];

}  // namespace

std::span<const Operator> swi_glu_operators() { return kOperators; }

}  // namespace gradus

using namespace gradus;  // NOLINT(google-build-using-namespace)

extern "C" {

aclnnStatus aclnnSwiGluGetWorkspaceSize(const aclTensor* x, int64_t dim, const aclTensor* out, uint64_t* workspaceSize,
                                        aclOpExecutor** executor) {
    return prepare(kSwiGlu, {x, dim, out}, workspaceSize, executor);
}

aclnnStatus aclnnSwiGlu(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream) {
    return launch(&kSwiGlu, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnSwiGluGradGetWorkspaceSize(const aclTensor* yGrad, const aclTensor* x, int64_t dim,
                                            const aclTensor* out, uint64_t* workspaceSize, aclOpExecutor** executor) {
    return prepare(kSwiGluGrad, {yGrad, x, dim, out}, workspaceSize, executor);
}

aclnnStatus aclnnSwiGluGrad(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream) {
    return launch(&kSwiGluGrad, workspace, workspaceSize, executor, stream);
}

}  // extern "C"
