// The specification: plain loops in f64, elements as given, one rounding at the end. Shares nothing with kernel.cpp.
// Rows of one operand are taken a few at a time, side by side, and those of the other one after the other: every sum is
// one chain in the order of its index, and what is kept is never of size tokens × words.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/config.h"
#include "base/dtype.h"
#include "base/scratch.h"
#include "base/strided.h"

namespace gradus::fused_linear_cross_entropy {

inline constexpr int64_t kTogether = 8;  // rows side by side

// Mistakes that golden makes on purpose; bench.cpp has their names.
enum {
    kPartOfHidden = 1,
    kPartOfWords,
    kPartOfSum,
    kPartOfTokens,
    kNoMaxInSum,
    kLogOfSum,
    kLogSumExp,
    kNoMaxInPredicted,
    kNoLog,
    kTargetAlone,
    kTimesLog,
    kTimesTarget
};

// input: [tokens, hidden], weight: [words, hidden]
struct GoldenOperands {
    Golden how;
    Strided input, weight;
    int64_t tokens, hidden, words;
};

// max, sum, predicted: [tokens]; logits: [tokens, words], if asked for.
struct GoldenStats {
    GoldenOperands operands;
    Strided max, sum, predicted, logits;
    bool with_logits;
};
// The statistics of kTogether tokens, or fewer at the end. hit: the word of each token's target, −1 for none.
void golden_stats(const GoldenStats& stats, std::byte* const* address, int64_t first, const int64_t* hit,
                  std::byte* numbers) noexcept;
Piece<std::byte> book_golden_stats(const GoldenOperands& operands, Scratch& scratch, int slots);

// loss of a token, and softmax of its words [begin, end)
struct GoldenLoss {
    Golden how;
    Strided max, sum, predicted, loss, logits, softmax;
};
void golden_loss(const GoldenLoss& loss, std::byte* const* address, int64_t token) noexcept;
void golden_softmax(const GoldenLoss& loss, std::byte* const* address, int64_t token, int64_t begin,
                    int64_t end) noexcept;

// g follows from softmax, or from max and sum.
struct GoldenGrad {
    GoldenOperands operands;
    Strided grad, max, sum, softmax, input_grad, weight_grad;
    bool given;  // softmax is
};
// kTogether rows of inputGrad or weightGrad, from `first` on. hits: [tokens]
void golden_grad(const GoldenGrad& grad, std::byte* const* address, bool of_input, int64_t first, const int64_t* hits,
                 std::byte* numbers) noexcept;
Piece<std::byte> book_golden_grad(const GoldenOperands& operands, Scratch& scratch, int slots);

}  // namespace gradus::fused_linear_cross_entropy
