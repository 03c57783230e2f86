// What a judgement says in words, from its numbers alone.
#pragma once

#include "cli/judge/errors.h"

namespace gradus::cli {

inline double share_of(int64_t part, int64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

bool is_narrow(const Measured& measured);  // all results are numbers of a narrower type, which those expected are not

std::string assumed_words(const Allowance& allowance);  // where no magnitude is given
std::string kept_words(const Subject& subject, const Judgement& judgement);
std::string truncated_words(const Measured& measured);
std::string rounded_words(const Judgement& judgement);  // where no magnitude is given
std::string imprecise_words(const Measured& measured);  // likewise
// ... as much as an arithmetic leaves, by its name in Answers::simulated.
std::string rounded_words(const Measured& measured, const std::string& arithmetic, const Noise& noise);
std::string imprecise_words(const Measured& measured, const std::string& arithmetic, const Noise& noise);
// Of `count` elements where NaN or Inf is on one side only; `largest` is expected there of numbers.
std::string misplaced_words(const Judgement& judgement, const Place& where, int64_t count, double largest);

}  // namespace gradus::cli
