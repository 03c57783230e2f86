// The elements that are farther off than an arithmetic allows, where they are, and what they have in common.
#pragma once

#include "cli/judge/measure.h"

namespace gradus::cli {

using Indices = std::vector<int64_t>;  // ascending

// What the words about places need to know of the whole.
struct Surface {
    explicit Surface(const Subject& subject);
    Shape shape;
    std::vector<std::string> dims;
    int64_t rows = 1, columns = 1;  // the tensor folded to [rows, last dim]
    int64_t numbers = 0;            // elements where something else than 0 is expected
    std::vector<uint32_t> numbers_in_column;
};

// "the last 5 of every row (320 elements)", "row [3,17] of 64 (1024 elements)", "element [0,7]".
struct Place {
    std::string words;
    bool singular;
};
// step: of every so many elements one is in the list.
Place place(const Surface& surface, const Indices& indices, int64_t step = 1);

// Errors beyond half a unit and that share of the magnitude, and NaN or Inf on one side only. Of many, every step-th.
struct Errors {
    Indices at;
    int64_t step = 1, total = 0;
};
Errors errors_beyond(const Subject& subject, const Tolerance& tolerance, double share);
Errors misplaced_errors(const Subject& subject, const Tolerance& tolerance);

// What the errors have in common, ranked by how many of all it explains; empty: nothing that a mistake would make.
// `slack`: an error of that share of the magnitude is no evidence of anything.
struct Explained {
    std::vector<Cause> causes;
    Indices rest;             // what none of them explains
    bool certain = true;      // the first cause is none that sums of few bits have, too
    bool one_number = false;  // ... and the same number everywhere, added or as a factor
    double share() const { return causes.empty() ? 0 : causes.front().share; }
    bool accuses() const { return certain && share() > 0.5; }
};
Explained recognise(const Subject& subject, const Tolerance& tolerance, const Surface& surface, const Errors& errors,
                    double slack);

// Another answer beside got and want.
class Comparison {
  public:
    Comparison(const Subject& subject, const Tolerance& tolerance, const Values& other, double slack);
    // Got is the other answer there, and not by chance.
    bool explains(int64_t index) const;
    // Of all errors and of what is right and would not be; where no single error is evidence, of their squares.
    double share(const Errors& errors) const;
    Indices rest(const Indices& errors) const;
    // The cosine between got − want and other − want, in shares of the magnitude; opposite ones: 0.
    double likeness() const { return std::max(0.0, cosine()); }
    double cosine() const;
    bool differs() const { return sums().other_other > 0; }  // from want
    // How much of other − want is in got − want, by the smallest squares: 1 if got is other and noise.
    double weight() const;
    // The squares of got − other over those of got − want, both beyond the last rounding; 1 if want has none.
    double left() const;

  private:
    struct Sums {
        double got_got = 0, other_other = 0, got_other = 0;  // of the differences to want
    };
    void add(Sums& sums, double m, double want, double got, double other) const;
    Sums sums() const;
    int64_t silent() const;  // elements that got has right and the other answer has not

    const Subject& s_;
    const Tolerance& tolerance_;
    const Values other_;
    const double slack_;
    const Lines lines_;
};

// The mistake whose answer got is, of all that the operator's list has.
struct FoundMistake {
    double share = 0;
    bool beneath = false;  // rounding is as large, but does not go that way
    double left = 1;       // Comparison::left() of its answer
    bool fits = false;     // so little that no other answer, tried or not, does as well by chance
    bool part = false;     // of a sum, or a number: one of many
    double rows = 0;       // that have their say, each by itself
    std::string sentence;
    Values answer;
    int64_t tried = 0, left_out = 0;  // left out: more than Answers::most

    // Of the many parts of sums, one has the errors of a few rows by chance.
    bool explains(double least) const { return fits || beneath || (share > least && (!part || rows >= 8)); }
};
// rounding: the answer that rounding on the way gives, where got's errors are no larger; none: they are.
FoundMistake find_mistake(const Subject& subject, const Tolerance& tolerance, const Errors& errors,
                          const Answers& answers, double slack, const Values& rounding);

// "element [0,7] is wrong, by 0.3 of its magnitude"
std::string plain_sentence(const Subject& subject, const Surface& surface, const Indices& indices, int64_t step);

}  // namespace gradus::cli
