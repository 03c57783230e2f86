// The numbers of a judgement, in one pass at about the speed of memory; and the words recognise.cpp asks further in.
#pragma once

#include <array>
#include <span>

#include "cli/judge/judge.h"

namespace gradus::cli {

// The spacing of a dtype's numbers.
struct Grid {
    int digits, least_exponent, most_exponent;
    bool integer;

    double ulp(double magnitude) const;  // the subnormal spacing below the least exponent; 1 of an integer dtype
    double top() const;                  // the first power of two that overflows
};
Grid grid_of(aclDataType dtype);

// How many values lie in each power of two; zeros apart. Enough for a quantile within a factor 2.
class Octaves {
  public:
    void add(double value);
    void add(const Octaves& other);
    double quantile(double share) const;

  private:
    static constexpr int kLowest = -100, kBins = 200;
    int64_t zeros_ = 0, total_ = 0;
    std::array<int64_t, kBins> bins_{};
};

// Two tensors as pairs of lines: some consecutive elements with the largest magnitude among them, the scale that errors
// are measured by. A line is a row, or as many as make 64 elements; long rows are cut, so that a line stays in the
// cache.
struct Line {
    int64_t first;  // index of its first element
    std::span<const double> got, want;
    double scale;
};
class Lines {
  public:
    Lines(const Tensor& got, const Tensor& want);
    int64_t size() const { return lines_; }
    struct Buffer {
        std::vector<double> got, want;
    };
    Line load(int64_t i, Buffer& buffer) const;

  private:
    Tensor got_, want_;
    int64_t length_, lines_;
};

// What one finite pair of elements is measured by.
struct Yardstick {
    Rules rules;
    Grid grid;
    double tensor_scale;  // largest finite |want|

    double allowed(double want, double line_scale) const {  // by rounding
        return grid.ulp(std::abs(want)) + rules.rounding * line_scale;
    }
    double small_below(double line_scale) const {
        return std::max({rules.small_below * line_scale, rules.floor / rules.relative * tensor_scale,
                         grid.ulp(0) / rules.relative});  // f16: its subnormals, whose steps are more than T
    }
    double small_error(double want, double line_scale) const {
        return std::max(rules.small_error * line_scale, rules.floor * tensor_scale) + grid.ulp(std::abs(want));
    }
    // Ten times what a rule would allow on average: arithmetic of the right precision does not go there.
    double broken(double want, double line_scale) const {
        return 10 * std::max(rules.relative * std::abs(want), small_error(want, line_scale));
    }
};

struct Measured {
    Judgement judgement;  // without verdict and reason
    Yardstick yardstick;
    // |error| over the scale of the line; over |want|. Without pairs of zeros, which masks make and which say nothing.
    Octaves of_scale, of_want;
    int64_t broken = 0, towards_zero = 0, away = 0;
    int64_t got_bf16 = 0, want_bf16 = 0, got_f16 = 0, want_f16 = 0;  // non-zero numbers that the type holds exactly
    int64_t got_nonzero = 0, want_nonzero = 0;
    double got_want = 0, got_got = 0, want_want = 0, error_error = 0;
};
Measured measure(const Tensor& got, const Tensor& want, const std::string& promise, const JudgeOptions& options);

// The tensor folded to [rows, last dim] and binned, row by row: of each cell the worst error, as a multiple of what
// rounding explains. Infinite where NaN or Inf is misplaced.
struct HeatMap {
    int64_t rows, columns, row_step, column_step;  // of cells; elements a cell
    std::vector<double> worst;
};
HeatMap heat_map(const Tensor& got, const Tensor& want, const Rules& rules, int64_t most_rows = 64,
                 int64_t most_columns = 96);

}  // namespace gradus::cli
