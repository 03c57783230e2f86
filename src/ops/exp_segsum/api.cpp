#include "aclnn/phases.h"
#include "aclnnop/aclnn_exp_segsum_backward.h"
#include "aclnnop/aclnn_segsum.h"
#include "ops/exp_segsum/bench.h"
#include "ops/exp_segsum/plan.h"
#include "ops/families.h"

namespace gradus {
namespace {

constexpr char kVector[] = "N...,T", kMatrix[] = "N...,T,T";
constexpr Products kProducts = {.a2 = true, .a3 = true};

constexpr Argument kForwardArguments[] = {
    input("self", kFloats, kVector, "uniform,low=-0.5,high=0.125"),
    output("out", kFloats, kMatrix, Promise::summed, "T"),
};

constexpr Argument kBackwardArguments[] = {
    reading(Reads::in_part, input("gradOutput", kFloats, kMatrix, "randn")),  // below the diagonal, both
    reading(Reads::in_part, input("gradSelf", kFloats, kMatrix, "@ExpSegsum.out")),
    output("gradInput", kFloats, kVector, Promise::summed, "T*T"),
};

constexpr Operator kOperators[] = {
    {.name = "ExpSegsum",
     .function = "aclnnExpSegsum",
     .family = "exp_segsum",
     .formula = "out[i][j] = exp(self[j + 1] + ... + self[i]) for j < i, 1 for j = i, 0 for j > i",
     .document = "aclnnExpSegsum",
     .products = kProducts,
     .takes_labels = false,
     .arguments = kForwardArguments,
     .check = exp_segsum::check_forward,
     .plan = exp_segsum::plan_forward,
     .trials = &exp_segsum::kForwardTrials},
    {.name = "ExpSegsumBackward",
     .function = "aclnnExpSegsumBackward",
     .family = "exp_segsum",
     .formula = "gradInput[k] = sum of gradOutput[i][j]*gradSelf[i][j] over i >= k, j < k",
     .document = "aclnnExpSegsumBackward",
     .products = kProducts,
     .takes_labels = false,
     .arguments = kBackwardArguments,
     .check = exp_segsum::check_backward,
     .plan = exp_segsum::plan_backward,
     .trials = &exp_segsum::kBackwardTrials},
};
constexpr const Operator &kExpSegsum = kOperators[0], &kExpSegsumBackward = kOperators[1];

}  // namespace

std::span<const Operator> exp_segsum_operators() { return kOperators; }

}  // namespace gradus

using namespace gradus;  // NOLINT(google-build-using-namespace)

extern "C" {

aclnnStatus aclnnExpSegsumGetWorkspaceSize(const aclTensor* self, aclTensor* out, uint64_t* workspaceSize,
                                           aclOpExecutor** executor) {
    return prepare(kExpSegsum, {self, out}, workspaceSize, executor);
}

aclnnStatus aclnnExpSegsum(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream) {
    return launch(&kExpSegsum, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnExpSegsumBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* gradSelf,
                                                   aclTensor* gradInput, uint64_t* workspaceSize,
                                                   aclOpExecutor** executor) {
    return prepare(kExpSegsumBackward, {gradOutput, gradSelf, gradInput}, workspaceSize, executor);
}

aclnnStatus aclnnExpSegsumBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                   aclrtStream stream) {
    return launch(&kExpSegsumBackward, workspace, workspaceSize, executor, stream);
}

}  // extern "C"
