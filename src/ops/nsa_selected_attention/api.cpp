#include "aclnn/phases.h"
#include "aclnnop/aclnn_nsa_selected_attention.h"
#include "aclnnop/aclnn_nsa_selected_attention_grad.h"
#include "ops/families.h"
#include "ops/nsa_selected_attention/bench.h"
#include "ops/nsa_selected_attention/plan.h"

namespace gradus {
namespace {

constexpr DType kHalves[] = {DType::f16, DType::bf16};
constexpr DType kF32[] = {DType::f32};
constexpr DType kI32[] = {DType::i32};
constexpr DType kMasks[] = {DType::boolean, DType::u8};
constexpr Products kProducts = {.a2 = true};

constexpr char kQueryLimits[] =
    "T1 1 to 2097152, N1 at most 128, N1/N2 at most 32, D 128 or 192; batches of 1 to 131072 rows";
constexpr char kKeyLimits[] =
    "T2 1 to 2097152, N2 at most 128, D 128 or 192; batches of 1 to 131072 rows, at least selectedBlockSize * "
    "selectedBlockCount and a multiple of selectedBlockSize";
constexpr char kValueLimits[] = "Dv 128 or 192";
constexpr char kSizes[] = "a multiple of 16, 16 to 128", kCounts[] = "1 to 128", kHeads[] = "N1", kLayouts[] = "TND",
               kModes[] = "0 or 2", kAny[] = "any";
constexpr char kQueryLengths[] = "rising, the last one T1", kKeyLengths[] = "rising, the last one T2";

// What is summed: over the depth, over the selected keys (for P and for dQ), over the rows of a key.
constexpr char kSumTerms[] = "selectedBlockSize*selectedBlockCount*D",
               kQueryTerms[] = "selectedBlockSize*selectedBlockCount*selectedBlockSize*selectedBlockCount*D*Dv",
               kKeyTerms[] = "T1*N1/N2*selectedBlockCount*selectedBlockSize*selectedBlockCount*D*Dv",
               kValueTerms[] = "T1*N1/N2*selectedBlockCount*D";

constexpr Argument kForwardArguments[] = {
    input("query", kHalves, "T1,N1,D", "randn", kQueryLimits),
    reading(Reads::in_part, input("key", kHalves, "T2,N2,D", "randn", kKeyLimits)),
    reading(Reads::in_part, input("value", kHalves, "T2,N2,Dv", "randn", kValueLimits)),
    input("topkIndices", kI32, "T1,N2,selectedBlockCount", "topk"),
    optional(reading(Reads::perhaps, input("attenMaskOptional", kMasks, "any of rank 2", "zeros[1,1]"))),
    optional(attribute("actualSeqQLenOptional", GRADUS_INT_ARRAY, kQueryLengths)),
    optional(attribute("actualSeqKvLenOptional", GRADUS_INT_ARRAY, kKeyLengths)),
    attribute("scaleValue", GRADUS_DOUBLE, kAny, "1/sqrt(D)"),
    attribute("headNum", GRADUS_INT, kHeads, "N1"),
    attribute("inputLayout", GRADUS_STRING, kLayouts, "TND"),
    attribute("sparseMode", GRADUS_INT, kModes, "2"),
    attribute("selectedBlockSize", GRADUS_INT, kSizes, "16"),
    attribute("selectedBlockCount", GRADUS_INT, kCounts, "2"),
    output("softmaxMaxOut", kF32, "T1,N1,8", Promise::summed, "D"),
    output("softmaxSumOut", kF32, "T1,N1,8", Promise::summed, kSumTerms),
    rounding(1, output("attentionOut", kHalves, "T1,N1,Dv", Promise::summed, kSumTerms)),
};

constexpr Argument kGradArguments[] = {
    input("query", kHalves, "T1,N1,D", "randn", kQueryLimits),
    reading(Reads::in_part, input("key", kHalves, "T2,N2,D", "randn", kKeyLimits)),
    reading(Reads::in_part, input("value", kHalves, "T2,N2,Dv", "randn", kValueLimits)),
    optional(input("attentionOut", kHalves, "T1,N1,Dv", "@NsaSelectedAttention.attentionOut")),
    input("attentionOutGrad", kHalves, "T1,N1,Dv", "randn"),
    input("softmaxMax", kF32, "T1,N1,8", "@NsaSelectedAttention.softmaxMaxOut"),
    input("softmaxSum", kF32, "T1,N1,8", "@NsaSelectedAttention.softmaxSumOut"),
    input("topkIndices", kI32, "T1,N2,selectedBlockCount", "topk"),
    optional(attribute("actualSeqQLenOptional", GRADUS_INT_ARRAY, kQueryLengths)),
    optional(attribute("actualSeqKvLenOptional", GRADUS_INT_ARRAY, kKeyLengths)),
    optional(reading(Reads::perhaps, input("attenMaskOptional", kMasks, "any of rank 2", "zeros[1,1]"))),
    attribute("scaleValue", GRADUS_DOUBLE, kAny, "1/sqrt(D)"),
    attribute("selectedBlockSize", GRADUS_INT, kSizes, "16"),
    attribute("selectedBlockCount", GRADUS_INT, kCounts, "2"),
    attribute("headNum", GRADUS_INT, kHeads, "N1"),
    attribute("inputLayout", GRADUS_STRING, kLayouts, "TND"),
    attribute("sparseMode", GRADUS_INT, kModes, "2"),
    rounding(1, output("dqOut", kHalves, "T1,N1,D", Promise::summed, kQueryTerms)),
    rounding(1, output("dkOut", kHalves, "T2,N2,D", Promise::summed, kKeyTerms)),
    rounding(1, output("dvOut", kHalves, "T2,N2,Dv", Promise::summed, kValueTerms)),
};

constexpr Operator kOperators[] = {
    {.name = "NsaSelectedAttention",
     .function = "aclnnNsaSelectedAttention",
     .family = "nsa_selected_attention",
     .formula = "S = scale*q*k^T over the rows of the selected blocks; max, sum(exp(S - max)); out = softmax(S)*v",
     .document = "aclnnNsaSelectedAttention",
     .products = kProducts,
     .takes_labels = true,
     .arguments = kForwardArguments,
     .check = nsa_selected_attention::check_forward,
     .plan = nsa_selected_attention::plan_forward,
     .trials = &nsa_selected_attention::kForwardTrials},
    {.name = "NsaSelectedAttentionGrad",
     .function = "aclnnNsaSelectedAttentionGrad",
     .family = "nsa_selected_attention",
     .formula = "P = exp(S - max)/sum; dS = P*(dO*v^T - sum(dO*O)); dV += P^T*dO; dQ += scale*dS*k; dK += scale*dS^T*q",
     .document = "aclnnNsaSelectedAttentionGrad",
     .products = kProducts,
     .takes_labels = true,
     .arguments = kGradArguments,
     .check = nsa_selected_attention::check_grad,
     .plan = nsa_selected_attention::plan_grad,
     .trials = &nsa_selected_attention::kGradTrials},
};
constexpr const Operator &kForward = kOperators[0], &kGrad = kOperators[1];

}  // namespace

std::span<const Operator> nsa_selected_attention_operators() { return kOperators; }

}  // namespace gradus

using namespace gradus;  // NOLINT(google-build-using-namespace)

extern "C" {

aclnnStatus aclnnNsaSelectedAttentionGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value, const aclTensor* topkIndices,
    const aclTensor* attenMaskOptional, const aclIntArray* actualSeqQLenOptional,
    const aclIntArray* actualSeqKvLenOptional, double scaleValue, int64_t headNum, char* inputLayout,
    int64_t sparseMode, int64_t selectedBlockSize, int64_t selectedBlockCount, const aclTensor* softmaxMaxOut,
    const aclTensor* softmaxSumOut, const aclTensor* attentionOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
    return prepare(kForward,
                   {query, key, value, topkIndices, attenMaskOptional, actualSeqQLenOptional, actualSeqKvLenOptional,
                    scaleValue, headNum, inputLayout, sparseMode, selectedBlockSize, selectedBlockCount, softmaxMaxOut,
                    softmaxSumOut, attentionOut},
                   workspaceSize, executor);
}

aclnnStatus aclnnNsaSelectedAttention(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                      aclrtStream stream) {
    return launch(&kForward, workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnNsaSelectedAttentionGradGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value, const aclTensor* attentionOut,
    const aclTensor* attentionOutGrad, const aclTensor* softmaxMax, const aclTensor* softmaxSum,
    const aclTensor* topkIndices, const aclIntArray* actualSeqQLenOptional, const aclIntArray* actualSeqKvLenOptional,
    const aclTensor* attenMaskOptional, double scaleValue, int64_t selectedBlockSize, int64_t selectedBlockCount,
    int64_t headNum, char* inputLayout, int64_t sparseMode, const aclTensor* dqOut, const aclTensor* dkOut,
    const aclTensor* dvOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
    return prepare(kGrad,
                   {query,
                    key,
                    value,
                    attentionOut,
                    attentionOutGrad,
                    softmaxMax,
                    softmaxSum,
                    topkIndices,
                    actualSeqQLenOptional,
                    actualSeqKvLenOptional,
                    attenMaskOptional,
                    scaleValue,
                    selectedBlockSize,
                    selectedBlockCount,
                    headNum,
                    inputLayout,
                    sparseMode,
                    dqOut,
                    dkOut,
                    dvOut},
                   workspaceSize, executor);
}

aclnnStatus aclnnNsaSelectedAttentionGrad(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                          aclrtStream stream) {
    return launch(&kGrad, workspace, workspaceSize, executor, stream);
}

}  // extern "C"
