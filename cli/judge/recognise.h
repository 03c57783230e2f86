// What kind of mistake a difference looks like: the sentence behind "wrong" and "imprecise".
#pragma once

#include "cli/judge/measure.h"

namespace gradus::cli {

// The elements that rounding cannot have made, and what they have in common.
struct Suspects {
    enum Criterion {
        different,   // at all: of an exact result
        misplaced,   // NaN or Inf on one side only
        stands_out,  // far from what the other errors are like, and outside rule (b)
        broken       // ten times outside what the rules allow
    };
    Shape shape;
    int64_t rows = 1, columns = 1;  // the tensor folded to [rows, last dim]
    int64_t count = 0, first = -1, last = -1;
    int64_t zero = 0, negated = 0, same = 0, unexpected = 0;  // got 0; −want; all one value; anything where 0 is wanted
    double value = 0, largest_want = 0;
    double got_want = 0, got_got = 0, want_want = 0, errors = 0;
    std::vector<uint32_t> in_row, in_column;
    std::vector<uint32_t> numbers_in_column;  // of all elements, where something else than 0 is expected
    int64_t numbers = 0;
    int64_t elsewhere = 0;       // errors beyond rounding in rows and columns without a suspect
    std::vector<int64_t> moved;  // how many hold the value of another place, by the kinds of move in recognise.cpp
    int64_t compared = 0;        // of those that were looked at for that
};
Suspects collect(const Tensor& got, const Tensor& want, const Measured& measured, Suspects::Criterion criterion);

// "the last 5 of every row (320 elements)", "row [3,17] of 64 (1024 elements)", "element [0,7]".
struct Place {
    std::string words;
    bool singular;
};
Place place(const Suspects& suspects);

// What all of them have in common, as a sentence; empty when nothing that a mistake would make.
std::string common_mistake(const Suspects& suspects, const Measured& measured);
// Any mistake: the sentence names the place even if nothing else is in common.
std::string mistake(const Suspects& suspects, const Measured& measured);
std::string misplaced_sentence(const Suspects& suspects, const Judgement& judgement);

// All differences below one ulp and towards zero: empty unless it looks like that.
std::string truncation(const Measured& measured);
// What arithmetic of less precision would leave errors like these.
std::string imprecision(const Measured& measured);

}  // namespace gradus::cli
