#include "aclnn/phases.h"
#include "aclnnop/aclnn_fused_cross_entropy_loss_with_max_sum.h"
#include "aclnnop/aclnn_fused_linear_cross_entropy_loss_grad.h"
#include "aclnnop/aclnn_fused_linear_online_max_sum.h"
#include "ops/families.h"
#include "ops/fused_linear_cross_entropy/bench.h"
#include "ops/fused_linear_cross_entropy/plan.h"

namespace gradus {
namespace {

constexpr DType kHalves[] = {DType::f16, DType::bf16};
constexpr DType kF32[] = {DType::f32};
constexpr DType kIndices[] = {DType::i32, DType::i64};
constexpr DType kBytes[] = {DType::u8};
constexpr DType kMasks[] = {DType::u8, DType::boolean};
// Logits of a few units, as a model has them.
constexpr char kWeights[] = "randn,std=0.03125";
constexpr char kNoSmoothing[] = "0";
constexpr Products kProducts = {.a2 = true, .a3 = true};

constexpr Argument kStatsArguments[] = {
    input("input", kHalves, "BT,H", "randn", "H at most 65534"),
    input("weight", kHalves, "V,H", kWeights, "H at most 65534"),
    input("target", kIndices, "BT", "targets"),
    // The second of equal parts: in the first, nobody sees whether its start is subtracted.
    attribute("vocabStartIndex", GRADUS_INT, "0 or more", "V"),
    attribute("vocabEndIndex", GRADUS_INT, "vocabStartIndex or more, exclusive", "vocabStartIndex+V"),
    output("logitsMaxLocalOut", kF32, "BT", Promise::summed, "H"),
    output("sumExpLogitsLocalOut", kF32, "BT", Promise::summed, "H*V"),
    output("predictedLogitsLocalOut", kF32, "BT", Promise::summed, "2*H"),
    output("targetMaskOut", kBytes, "ceil(BT/8)", Promise::exact),
    output("maskedTargetOut", kIndices, "BT", Promise::exact),
    optional(output("vocabParallelLogitsOutOptional", kHalves, "BT,V", Promise::summed, "H")),
};

constexpr Argument kLossArguments[] = {
    input("logitsMax", kF32, "BT", "uniform,low=3,high=5"),
    input("sumExpLogits", kF32, "BT", "uniform,low=1,high=50"),
    input("predictedLogits", kF32, "BT", "uniform,low=-6,high=0"),
    attribute("labelSmoothing", GRADUS_DOUBLE, kNoSmoothing, Value(0.0)),
    optional(reading(Reads::nothing, input("inputOptional", kFloats, "any, not used"))),
    optional(reading(Reads::nothing, input("weightOptional", kFloats, "any, not used"))),
    optional(input("vocabParallelLogitsOptional", kFloats, "BT,V", "randn")),
    output("lossOut", kF32, "BT", Promise::summed, "2"),
    asked_for(output("softMaxOutOptional", kF32, "BT,V", Promise::summed, "2")),
};

constexpr Argument kGradArguments[] = {
    input("grad", kF32, "BT", "uniform,low=0.5,high=1.5"),
    input("input", kHalves, "BT,H", "randn"),
    input("weight", kHalves, "V,H", kWeights, "V at least 128, or 0"),
    input("targetMask", kMasks, "N, 8*N >= BT; BT for bool", "@FusedLinearOnlineMaxSum.targetMaskOut", "not bool"),
    input("maskedTarget", kIndices, "BT", "@FusedLinearOnlineMaxSum.maskedTargetOut"),
    attribute("labelSmoothing", GRADUS_DOUBLE, kNoSmoothing, Value(0.0)),
    optional(
        reading(Reads::perhaps, input("logitsMaxOptional", kF32, "BT", "@FusedLinearOnlineMaxSum.logitsMaxLocalOut"))),
    optional(reading(Reads::perhaps,
                     input("sumExpLogitsOptional", kF32, "BT", "@FusedLinearOnlineMaxSum.sumExpLogitsLocalOut"))),
    optional(input("softmaxOptional", kF32, "BT,V")),
    rounding(1, output("inputGradOut", kHalves, "BT,H", Promise::summed, "V*H")),
    rounding(1, output("weightGradOut", kHalves, "V,H", Promise::summed, "BT*H")),
};

constexpr Argument kWithGradArguments[] = {
    input("grad", kF32, "BT"),
    input("input", kHalves, "BT,H"),
    input("weight", kHalves, "V,H"),
    input("target", kIndices, "BT"),
    output("logitsMaxOut", kF32, "BT", Promise::summed, "H"),
    output("sumExpLogitsOut", kF32, "BT", Promise::summed, "H*V"),
    output("predictedLogitsOut", kF32, "BT", Promise::summed, "2*H"),
    rounding(1, output("inputGradOut", kHalves, "BT,H", Promise::summed, "V*H")),
    rounding(1, output("weightGradOut", kHalves, "V,H", Promise::summed, "BT*H")),
};

constexpr Operator kOperators[] = {
    {.name = "FusedLinearOnlineMaxSum",
     .function = "aclnnFusedLinearOnlineMaxSum",
     .family = "fused_linear_cross_entropy",
     .formula = "logits = input*weight^T; max and sum(exp(logits - max)) of each row; predicted = logits[target] - max",
     .document = "aclnnFusedLinearOnlineMaxSum",
     .products = kProducts,
     .takes_labels = false,
     .arguments = kStatsArguments,
     .check = fused_linear_cross_entropy::check_stats,
     .plan = fused_linear_cross_entropy::plan_stats,
     .trials = &fused_linear_cross_entropy::kStatsTrials},
    {.name = "FusedCrossEntropyLossWithMaxSum",
     .function = "aclnnFusedCrossEntropyLossWithMaxSum",
     .family = "fused_linear_cross_entropy",
     .formula = "loss = log(sumExpLogits) - predictedLogits; softmax = exp(logits - logitsMax)/sumExpLogits",
     .document = "aclnnFusedCrossEntropyLossWithMaxSum",
     .products = kProducts,
     .takes_labels = false,
     .arguments = kLossArguments,
     .check = fused_linear_cross_entropy::check_loss,
     .plan = fused_linear_cross_entropy::plan_loss,
     .missing = fused_linear_cross_entropy::missing_for_loss,
     .trials = &fused_linear_cross_entropy::kLossTrials},
    {.name = "FusedLinearCrossEntropyLossGrad",
     .function = "aclnnFusedLinearCrossEntropyLossGrad",
     .family = "fused_linear_cross_entropy",
     .formula =
         "g = (softmax - one_hot(maskedTarget) where not masked)*grad; inputGrad = g*weight; weightGrad = g^T*input",
     .document = "aclnnFusedLinearCrossEntropyLossGrad",
     .products = kProducts,
     .takes_labels = false,
     .arguments = kGradArguments,
     .check = fused_linear_cross_entropy::check_grad,
     .plan = fused_linear_cross_entropy::plan_grad,
     .missing = fused_linear_cross_entropy::missing_for_grad,
     .trials = &fused_linear_cross_entropy::kGradTrials},
    {.name = "LinearCrossEntropyWithGrad",
     .function = "LinearCrossEntropyWithGrad",
     .family = "fused_linear_cross_entropy",
     .formula = "FusedLinearOnlineMaxSum of a whole vocabulary, then FusedLinearCrossEntropyLossGrad",
     .document = "",
     .products = kProducts,
     .takes_labels = false,
     .arguments = kWithGradArguments,
     .check = fused_linear_cross_entropy::check_with_grad,
     .plan = fused_linear_cross_entropy::plan_with_grad,
     .listed = false},
};
constexpr const Operator &kStats = kOperators[0], &kLoss = kOperators[1], &kGrad = kOperators[2];

}  // namespace

std::span<const Operator> fused_linear_cross_entropy_operators() { return kOperators; }

}  // namespace gradus

using namespace gradus;  // NOLINT(google-build-using-namespace)

extern "C" {

aclnnStatus aclnnFusedLinearOnlineMaxSumGetWorkspaceSize(
    const aclTensor* input, const aclTensor* weight, const aclTensor* target, int64_t vocabStartIndex,
    int64_t vocabEndIndex, aclTensor* logitsMaxLocalOut, aclTensor* sumExpLogitsLocalOut,
    aclTensor* predictedLogitsLocalOut, aclTensor* targetMaskOut, aclTensor* maskedTargetOut,
    aclTensor* vocabParallelLogitsOutOptional, uint64_t* workspaceSize, aclOpExecutor** executor) {
    return prepare(kStats,
                   {input, weight, target, vocabStartIndex, vocabEndIndex, logitsMaxLocalOut, sumExpLogitsLocalOut,
                    predictedLogitsLocalOut, targetMaskOut, maskedTargetOut, vocabParallelLogitsOutOptional},
                   workspaceSize, executor);
}

aclnnStatus aclnnFusedLinearOnlineMaxSum(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                         aclrtStream stream) {
    return launch(&kStats, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFusedCrossEntropyLossWithMaxSumGetWorkspaceSize(
    const aclTensor* logitsMax, const aclTensor* sumExpLogits, const aclTensor* predictedLogits, float labelSmoothing,
    const aclTensor* inputOptional, const aclTensor* weightOptional, const aclTensor* vocabParallelLogitsOptional,
    aclTensor* lossOut, aclTensor* softMaxOutOptional, uint64_t* workspaceSize, aclOpExecutor** executor) {
    return prepare(kLoss,
                   {logitsMax, sumExpLogits, predictedLogits, static_cast<double>(labelSmoothing), inputOptional,
                    weightOptional, vocabParallelLogitsOptional, lossOut, softMaxOutOptional},
                   workspaceSize, executor);
}

aclnnStatus aclnnFusedCrossEntropyLossWithMaxSum(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                 aclrtStream stream) {
    return launch(&kLoss, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFusedLinearCrossEntropyLossGradGetWorkspaceSize(
    const aclTensor* grad, const aclTensor* input, const aclTensor* weight, const aclTensor* targetMask,
    const aclTensor* maskedTarget, float labelSmoothing, const aclTensor* logitsMaxOptional,
    const aclTensor* sumExpLogitsOptional, const aclTensor* softmaxOptional, aclTensor* inputGradOut,
    aclTensor* weightGradOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
    return prepare(kGrad,
                   {grad, input, weight, targetMask, maskedTarget, static_cast<double>(labelSmoothing),
                    logitsMaxOptional, sumExpLogitsOptional, softmaxOptional, inputGradOut, weightGradOut},
                   workspaceSize, executor);
}

aclnnStatus aclnnFusedLinearCrossEntropyLossGrad(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                 aclrtStream stream) {
    return launch(&kGrad, workspace, workspaceSize, executor, stream);
}

}  // extern "C"
