// FusedLinearCrossEntropyLossGrad: what its planning decides and its run reads.
#pragma once

#include "base/scratch.h"
#include "ops/fused_linear_cross_entropy/golden.h"
#include "ops/fused_linear_cross_entropy/kept_logits.h"
#include "ops/fused_linear_cross_entropy/plan.h"

namespace gradus::fused_linear_cross_entropy {

struct LossGradViews {
    Strided grad, input, weight, mask, target, max, sum, softmax, input_grad, weight_grad;
    bool given = false;      // softmax is
    bool with_mask = true;   // false: every target is looked for here
    bool mask_bits = false;  // eight tokens a byte
};

struct LossGradPlan final : Work {
    Sizes sizes;
    LossGradViews views;
    int slots = 1;
    const gemm::Path* path = nullptr;  // null: golden
    RowFunctions rows{};
    Cut cut_g, cut_weight, cut_input;  // blocks of g, of weightGrad, of inputGrad
    int64_t group = 1;                 // panels whose products are added to inputGrad in one chain
    int64_t c_stride = 0;              // of the sums of inputGrad and weightGrad: hidden in whole strips
    bool chunks_outside = false;       // more tokens than words: sums of all words are kept, and of one chunk
    bool ahead = true;                 // the next panel or chunk is packed beside this one's products
    // packed, this one and the next; rows: of the logits' product, columns: of the gradients'
    Piece<std::byte> input_rows, weight_rows, input_columns, weight_columns;
    Piece<std::byte> g_tokens, g_words;
    Piece<float> input_sums, input_total;  // [tokens or chunk, hidden]; total: beyond one group of panels
    Piece<float> weight_sums;              // [panel or words, hidden], beyond one chunk
    Piece<float> tile;                     // a block of sums
    Piece<std::byte> half_tile;            // the same in the 16-bit type
    KeptLogits kept;                       // these need no product
    Golden how;
    Piece<std::byte> golden_numbers;
    Piece<int64_t> golden_hits;

    void run(std::byte* const* address, std::byte* workspace) const noexcept override;
};

// Panels of words, which follow from the operands alone; and the rest of a plan whose sizes, views and kept logits are
// there.
int64_t panel_of_words(DType dtype, const Config& config, const Sizes& sizes);
void complete(LossGradPlan& plan, DType dtype, const Config& config, Scratch& scratch);
GoldenOperands golden_operands(const LossGradPlan& plan);

}  // namespace gradus::fused_linear_cross_entropy
