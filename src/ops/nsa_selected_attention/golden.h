// The specification: plain loops in f64, elements as given, one rounding at the end. Shares nothing with kernel.cpp.
// Numbers are as large as the precision has them (base/golden.h).
#pragma once

#include "base/config.h"
#include "ops/nsa_selected_attention/selection.h"

namespace gradus::nsa_selected_attention {

// Mistakes that golden makes on purpose; bench.cpp has their names.
enum {
    kCausalBefore = 1,
    kCausalAfter,
    kOtherHead,
    kNoInnerScale,
    kNoOuterScale,
    kNotDivided,
    kLogOfSum,
    kLogSumExp,
    kNoP,
    kAddedToSum,
    kTimesInnerScale,
    kPartOfDepth,
    kPartOfValueDepth,
    kPartOfDelta,
    kPartOfKeys,
    kPartOfSum,
    kPartOfProduct,
    kPartOfRows,
    kPartOfGroup
};

// What a row may see; some of it counted twice.
inline int64_t most_keys(const Problem& problem, const Mistake& mistake) {
    return problem.count * problem.size * (mistake.twice ? 2 : 1);
}

struct GoldenForward {
    Strided query, key, value, topk, max, sum, out;
};
// One row and one head of the query. numbers: [most_keys + value_depth]
void golden_forward(const Problem& problem, const Golden& how, const GoldenForward& views, std::byte* const* address,
                    int64_t row, int64_t head, std::byte* numbers) noexcept;

struct GoldenGrad {
    Strided query, key, value, out, out_grad, max, sum, topk, query_grad, key_grad, value_grad;
    bool with_out = false;
};
// P and dS of some rows and the heads of one head of the key, which dK and dV are then summed from.
struct GoldenStage {
    int64_t begin, end, key_head;
    int64_t* seen;      // [rows, group]: keys that count; 0 where there is nothing to do
    std::byte *p, *ds;  // [rows, group, most_keys]
    std::byte* sums;    // [keys, depth + value_depth]
};
// dQ of a row's heads; P and dS are kept. numbers: [depth]
void golden_grad_row(const Problem& problem, const Golden& how, const GoldenGrad& views, std::byte* const* address,
                     const GoldenStage& stage, int64_t row, std::byte* numbers) noexcept;
// Adds what the rows of the stage have for columns [begin, end) of the sums.
void golden_grad_columns(const Problem& problem, const Golden& how, const GoldenGrad& views, std::byte* const* address,
                         const GoldenStage& stage, int64_t begin, int64_t end) noexcept;
// dK and dV of a key.
void golden_grad_store(const Problem& problem, const Golden& how, const GoldenGrad& views, std::byte* const* address,
                       const GoldenStage& stage, int64_t key) noexcept;

}  // namespace gradus::nsa_selected_attention
