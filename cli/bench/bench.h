// What gradus bench measures and how it shows it.
#pragma once

#include <fstream>

#include "cli/bench/timing.h"
#include "cli/call/call.h"
#include "cli/output/machine.h"

namespace gradus::cli {

struct BenchRun {
    const Operator* op;
    int number;             // of its shapes, from 1, as --shape counts them; 0: the user's own
    std::string model;      // where the shape comes from; empty: the user's own
    std::string arguments;  // as for gradus run
    std::string dtype;      // as asked for
    double target;          // least fraction of the limit; 0: none
    std::string name() const { return model.empty() ? arguments : model; }
};

struct BenchResult {
    BenchRun of;
    bench::Limit limit;
    bench::Measured measured;
    double flops, bytes;  // of one run: operations of the formula, bytes of all tensors
    bool met() const { return measured.fraction.median >= of.target; }
    nlohmann::json json() const;
};

// The whole call on a tensor so small that only the call counts.
struct TinyResult {
    BenchRun of;
    bench::Spread microseconds;
    bool met() const { return microseconds.median <= kTarget; }
    nlohmann::json json() const;
    static constexpr double kTarget = 10;
};

// Rows appear as they are measured, so the widths come from the runs beforehand.
class BenchTable {
  public:
    explicit BenchTable(const std::vector<BenchRun>& runs);
    void heading() const;
    void print(const BenchResult& result) const;
    void tiny_heading() const;
    void print(const TinyResult& result) const;

  private:
    std::string names(const BenchRun& run) const;
    size_t op_width_ = 8, name_width_ = 5;
};

// Schema "gradus-bench/2": keys are added, never renamed.
nlohmann::json bench_json(const Machine& machine, const std::vector<BenchResult>& results,
                          const std::vector<TinyResult>& tiny);
// A page with the table, and every operator under the roofs that were measured beside it.
void write_bench_page(const std::string& path, const Machine& machine, const std::vector<BenchResult>& results,
                      const std::vector<TinyResult>& tiny);

}  // namespace gradus::cli
