// A small legal call of every operator.
#include "aclnnop/aclnn_exp_segsum_backward.h"
#include "aclnnop/aclnn_fused_cross_entropy_loss_with_max_sum.h"
#include "aclnnop/aclnn_fused_linear_cross_entropy_loss_grad.h"
#include "aclnnop/aclnn_fused_linear_online_max_sum.h"
#include "aclnnop/aclnn_nsa_selected_attention.h"
#include "aclnnop/aclnn_nsa_selected_attention_grad.h"
#include "aclnnop/aclnn_scaled_masked_softmax.h"
#include "aclnnop/aclnn_scaled_masked_softmax_backward.h"
#include "aclnnop/aclnn_segsum.h"
#include "aclnnop/aclnn_swi_glu.h"
#include "aclnnop/aclnn_swi_glu_grad.h"
#include "world.h"

namespace gradus::faults {
namespace {

constexpr aclDataType kF32 = ACL_FLOAT, kBf16 = ACL_BF16;
constexpr bool kOut = true;

char layout[] = "TND";

// tokens, hidden, words; rows (of two batches, which the lengths of the world cut), heads, depth, size of a block
constexpr int64_t kT = 8, kH = 64, kV = 128, kRows = 32, kHeads = 2, kDepth = 128, kBlock = 16;

using Lengths = const aclIntArray*;
using Size = uint64_t*;
using Executor = aclOpExecutor**;

}  // namespace

// The functions are called by their own prototypes, in which the order of arguments is the operator's.
#define GRADUS_FUNCTIONS(name) #name "GetWorkspaceSize", #name

const std::vector<Operator>& operators() {
    static const std::vector<Operator> all = {
        {GRADUS_FUNCTIONS(aclnnSwiGlu),
         {{kF32, {2, 8}}, {kF32, {2, 4}, kOut}},
         [](const Tensors& t, Lengths, Size s, Executor e) {
             return aclnnSwiGluGetWorkspaceSize(t[0], -1, t[1], s, e);
         },
         aclnnSwiGlu},
        {GRADUS_FUNCTIONS(aclnnSwiGluGrad),
         {{kF32, {2, 4}}, {kF32, {2, 8}}, {kF32, {2, 8}, kOut}},
         [](const Tensors& t, Lengths, Size s, Executor e) {
             return aclnnSwiGluGradGetWorkspaceSize(t[0], t[1], -1, t[2], s, e);
         },
         aclnnSwiGluGrad},
        {GRADUS_FUNCTIONS(aclnnScaledMaskedSoftmax),
         {{kF32, {1, 2, 4, 8}}, {ACL_BOOL, {1, 2, 4, 8}}, {kF32, {1, 2, 4, 8}, kOut}},
         [](const Tensors& t, Lengths, Size s, Executor e) {
             return aclnnScaledMaskedSoftmaxGetWorkspaceSize(t[0], t[1], 0.5, false, t[2], s, e);
         },
         aclnnScaledMaskedSoftmax},
        {GRADUS_FUNCTIONS(aclnnScaledMaskedSoftmaxBackward),
         {{kF32, {1, 2, 4, 8}}, {kF32, {1, 2, 4, 8}}, {ACL_BOOL, {1, 2, 4, 8}}, {kF32, {1, 2, 4, 8}, kOut}},
         [](const Tensors& t, Lengths, Size s, Executor e) {
             return aclnnScaledMaskedSoftmaxBackwardGetWorkspaceSize(t[0], t[1], t[2], 0.5, false, t[3], s, e);
         },
         aclnnScaledMaskedSoftmaxBackward},
        {GRADUS_FUNCTIONS(aclnnExpSegsum),
         {{kF32, {1, 2, 16}}, {kF32, {1, 2, 16, 16}, kOut}},
         [](const Tensors& t, Lengths, Size s, Executor e) { return aclnnExpSegsumGetWorkspaceSize(t[0], t[1], s, e); },
         aclnnExpSegsum},
        {GRADUS_FUNCTIONS(aclnnExpSegsumBackward),
         {{kF32, {1, 2, 16, 16}}, {kF32, {1, 2, 16, 16}}, {kF32, {1, 2, 16}, kOut}},
         [](const Tensors& t, Lengths, Size s, Executor e) {
             return aclnnExpSegsumBackwardGetWorkspaceSize(t[0], t[1], t[2], s, e);
         },
         aclnnExpSegsumBackward},
        {GRADUS_FUNCTIONS(aclnnFusedLinearOnlineMaxSum),
         {{kBf16, {kT, kH}},
          {kBf16, {kV, kH}},
          {ACL_INT32, {kT}},
          {kF32, {kT}, kOut},
          {kF32, {kT}, kOut},
          {kF32, {kT}, kOut},
          {ACL_UINT8, {1}, kOut},
          {ACL_INT32, {kT}, kOut}},
         [](const Tensors& t, Lengths, Size s, Executor e) {
             return aclnnFusedLinearOnlineMaxSumGetWorkspaceSize(t[0], t[1], t[2], 0, kV, t[3], t[4], t[5], t[6], t[7],
                                                                 nullptr, s, e);
         },
         aclnnFusedLinearOnlineMaxSum},
        {GRADUS_FUNCTIONS(aclnnFusedCrossEntropyLossWithMaxSum),
         {{kF32, {kT}}, {kF32, {kT}}, {kF32, {kT}}, {kF32, {kT}, kOut}},
         [](const Tensors& t, Lengths, Size s, Executor e) {
             return aclnnFusedCrossEntropyLossWithMaxSumGetWorkspaceSize(t[0], t[1], t[2], 0, nullptr, nullptr, nullptr,
                                                                         t[3], nullptr, s, e);
         },
         aclnnFusedCrossEntropyLossWithMaxSum},
        {GRADUS_FUNCTIONS(aclnnFusedLinearCrossEntropyLossGrad),
         {{kF32, {kT}},
          {kBf16, {kT, kH}},
          {kBf16, {kV, kH}},
          {ACL_UINT8, {1}},
          {ACL_INT32, {kT}},
          {kF32, {kT}},
          {kF32, {kT}},
          {kBf16, {kT, kH}, kOut},
          {kBf16, {kV, kH}, kOut}},
         [](const Tensors& t, Lengths, Size s, Executor e) {
             return aclnnFusedLinearCrossEntropyLossGradGetWorkspaceSize(t[0], t[1], t[2], t[3], t[4], 0, t[5], t[6],
                                                                         nullptr, t[7], t[8], s, e);
         },
         aclnnFusedLinearCrossEntropyLossGrad},
        {GRADUS_FUNCTIONS(aclnnNsaSelectedAttention),
         {{kBf16, {kRows, kHeads, kDepth}},
          {kBf16, {kRows, 1, kDepth}},
          {kBf16, {kRows, 1, kDepth}},
          {ACL_INT32, {kRows, 1, 1}},
          {kF32, {kRows, kHeads, 8}, kOut},
          {kF32, {kRows, kHeads, 8}, kOut},
          {kBf16, {kRows, kHeads, kDepth}, kOut}},
         [](const Tensors& t, Lengths lengths, Size s, Executor e) {
             return aclnnNsaSelectedAttentionGetWorkspaceSize(t[0], t[1], t[2], t[3], nullptr, lengths, lengths, 0.1,
                                                              kHeads, layout, 0, kBlock, 1, t[4], t[5], t[6], s, e);
         },
         aclnnNsaSelectedAttention},
        {GRADUS_FUNCTIONS(aclnnNsaSelectedAttentionGrad),
         {{kBf16, {kRows, kHeads, kDepth}},
          {kBf16, {kRows, 1, kDepth}},
          {kBf16, {kRows, 1, kDepth}},
          {kBf16, {kRows, kHeads, kDepth}},
          {kBf16, {kRows, kHeads, kDepth}},
          {kF32, {kRows, kHeads, 8}},
          {kF32, {kRows, kHeads, 8}},
          {ACL_INT32, {kRows, 1, 1}},
          {kBf16, {kRows, kHeads, kDepth}, kOut},
          {kBf16, {kRows, 1, kDepth}, kOut},
          {kBf16, {kRows, 1, kDepth}, kOut}},
         [](const Tensors& t, Lengths lengths, Size s, Executor e) {
             return aclnnNsaSelectedAttentionGradGetWorkspaceSize(t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7],
                                                                  lengths, lengths, nullptr, 0.1, kBlock, 1, kHeads,
                                                                  layout, 0, t[8], t[9], t[10], s, e);
         },
         aclnnNsaSelectedAttentionGrad},
    };
    return all;
}

}  // namespace gradus::faults
