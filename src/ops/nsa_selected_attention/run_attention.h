// The forward's plan: what run_attention.cpp runs.
#pragma once

#include "aclnn/operator.h"
#include "base/config.h"
#include "ops/nsa_selected_attention/golden.h"
#include "ops/nsa_selected_attention/kernel_products.h"
#include "ops/nsa_selected_attention/row_group.h"

namespace gradus::nsa_selected_attention {

struct AttentionPlan final : Work {
    Problem problem{};
    GoldenForward views;
    int slots = 1;
    const gemm::Path* path = nullptr;  // null: golden
    RowFunctions rows{};
    int64_t width = 0;         // columns of a block's scores: whole strips
    int64_t rows_at_once = 0;  // rows of a group
    // of a head of the key: blocks [size, D] and [Dv, size]
    Piece<std::byte> keys, values;
    // of a thread: scores and e are [entries of a group, G, width]; on a path that takes f32, e lies in the scores
    GroupScratch group;
    SumScratch sums;
    Piece<VisibleKeys> visible;
    Piece<int64_t> seen;
    Piece<std::byte> query, dense, e, packed_e, part_values, line;
    Piece<float> scores;
    Piece<std::byte> golden_numbers;
    Golden how;

    int64_t block_scores() const { return problem.group * width; }
    void run(std::byte* const* address, std::byte* workspace) const noexcept override;
};

}  // namespace gradus::nsa_selected_attention
