// FusedLinearOnlineMaxSum: what its planning decides and its run reads.
#pragma once

#include "base/scratch.h"
#include "ops/fused_linear_cross_entropy/golden.h"
#include "ops/fused_linear_cross_entropy/kept_logits.h"
#include "ops/fused_linear_cross_entropy/plan.h"

namespace gradus::fused_linear_cross_entropy {

struct MaxSumViews {
    Strided input, weight, target, max, sum, predicted, mask, masked_target, logits;
    int64_t start = 0, end = 0;
    bool with_logits = false;
    bool with_targets = true;  // mask and masked_target are asked for
};

struct MaxSumPlan final : Work {
    Sizes sizes;
    MaxSumViews views;
    int slots = 1;
    const gemm::Path* path = nullptr;  // null: golden
    RowFunctions rows{};
    Cut cut;                            // blocks of logits
    Piece<std::byte> input, weight;     // packed; of weight this panel and the next
    Piece<float> tile;                  // logits of a block, one a slot
    Piece<std::byte> rounded;           // a row of them in the 16-bit type
    Piece<float> block_max, block_sum;  // [blocks of the panel][tokens of the chunk], of this panel and the last
    Piece<float> max, picked;           // of every token of the chunk; picked: the logit of its target
    Piece<double> sum;
    KeptLogits kept;
    Golden how;
    Piece<std::byte> golden_numbers;

    void run(std::byte* const* address, std::byte* workspace) const noexcept override;
};

// The rest of a plan whose sizes and views are there.
void complete(MaxSumPlan& plan, DType dtype, const Config& config, Scratch& scratch);
GoldenOperands golden_operands(const MaxSumPlan& plan);

}  // namespace gradus::fused_linear_cross_entropy
