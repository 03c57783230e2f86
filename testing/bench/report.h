// Results for people (a table) and for programs (JSON).
#pragma once

#include "testing/bench/measure.h"
#include "testing/bench/options.h"

namespace gradus::bench {

struct Result {
    const Case* of;
    double target;
    Limit limit;
    Measured measured;
    bool met() const { return measured.fraction.median >= target; }
};

struct TinyResult {
    const Case* of;
    Spread microseconds;
    bool met() const { return microseconds.median <= of->target; }
};

struct Machine {
    std::string cpu, isa, library;
    int threads;
    double load;  // runnable threads of all processes before we start, mean of a minute
    // Arithmetic takes longer in narrow vectors while memory does not: without AVX-512 half of the fraction is wanted.
    double target_scale() const { return isa.starts_with("avx512") || isa == "amx" ? 1 : 0.5; }
};
Machine machine();

void print_header(const Machine& machine);
void print_list(const std::vector<const Case*>& cases, const std::vector<int>& numbers);

// Rows appear as they are measured, so the widths come from the cases beforehand.
class Table {
  public:
    Table(const std::vector<const Case*>& cases, const std::vector<const Case*>& tiny);
    void print(const Result& result) const;
    void print(const TinyResult& result) const;
    void heading() const;
    void tiny_heading() const;

  private:
    std::string names(const Case& c) const;
    int op_width_, shape_width_;
};

// Schema "gradus-bench/1": keys are added, never renamed.
std::string to_json(const Machine& machine, const Options& options, const std::vector<Result>& results,
                    const std::vector<TinyResult>& tiny);

}  // namespace gradus::bench
