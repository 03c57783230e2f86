// The numbers of a judgement, in one pass at about the speed of memory.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "cli/judge/judge.h"

namespace gradus::cli {

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

// What one finite element may be off by: half a unit of its dtype and a share of its magnitude.
struct Tolerance {
    Grid grid;
    double halves;  // of a unit: 2 if the reference was rounded itself
    double f32_share, kept_share, rounded_share, any_share;
    double underflow = 0;  // what an intermediate below the least normal number leaves: of no element a share, and
                           // nothing where nothing is added up

    explicit Tolerance(const Subject& subject);
    double half_units(double want) const { return 0.5 * halves * grid.ulp(std::abs(want)); }
    double truncated(double x) const;
    double within(double share, double want, double magnitude) const {
        const double slack = share * magnitude + (share > kept_share && magnitude > 0 ? underflow : 0);
        return slack + half_units(std::abs(want) + slack);
    }
    // Infinite where rounding alone takes the expected beyond the largest number.
    bool overflows(double got, double want, double magnitude) const {
        return std::isinf(got) && got * want > 0 && std::abs(want) + rounded_share * magnitude >= grid.top();
    }
    double kept(double want, double magnitude) const { return within(kept_share, want, magnitude); }
    double rounded(double want, double magnitude) const { return within(rounded_share, want, magnitude); }
    double any(double want, double magnitude) const { return within(any_share, want, magnitude); }
};

// Some consecutive elements. Where no magnitude is given, it is the largest |want| among them: a line is a row, or as
// many as make 64 elements; long rows are cut, so that a line stays in the cache.
struct Line {
    int64_t first;  // index of its first element
    std::span<const double> got, want, magnitude;
};
class Lines {
  public:
    explicit Lines(const Subject& subject);
    int64_t size() const { return lines_; }
    struct Buffer {
        std::vector<double> got, want, magnitude;
    };
    Line load(int64_t i, Buffer& buffer) const;
    double magnitude_at(int64_t index) const;
    // work(line, chunk) for all lines of each chunk, chunks side by side; how they are cut depends on the size alone.
    int64_t chunks() const;
    void each(const std::function<void(const Line&, int64_t chunk)>& work) const;

  private:
    const Subject& subject_;
    int64_t length_, lines_;
    std::vector<double> largest_;  // |want| of each line, where no magnitude is given
};

// How large errors are beyond the last rounding, in shares of the magnitude: by their squares, which a few large ones
// make, and by their roots, which the many make.
struct Noise {
    double squares = 0, roots = 0, worst = 0;
    int64_t count = 0, without = 0;

    void add(double share) {
        const double most = std::min(1.0, share);
        squares += most * most, roots += std::sqrt(most), worst = std::max(worst, share);
        ++count, without += share == 0;
    }
    void add(const Noise& other) {
        squares += other.squares, roots += other.roots, worst = std::max(worst, other.worst);
        count += other.count, without += other.without;
    }
    double share_without() const { return count > 0 ? static_cast<double>(without) / static_cast<double>(count) : 1; }
    double peak() const { return count > 0 ? std::sqrt(squares / static_cast<double>(count)) : 0; }
    double bulk() const {
        const double mean = count > 0 ? roots / static_cast<double>(count) : 0;
        return mean * mean;
    }
};
// The error of `other` instead of got's, rounded to got's dtype and to what its kernel rounds to.
Noise noise_of(const Subject& subject, const Tolerance& tolerance, const Values& other);
// ... of got as it is.
Noise noise_of_got(const Subject& subject, const Tolerance& tolerance);
// ... of want itself, truncated.
Noise noise_of_truncation(const Subject& subject, const Tolerance& tolerance);
// The largest error of `other` where the magnitude is hardly a normal number of what its kernel rounds to.
double underflow_of(const Subject& subject, const Values& other);
// Row by row of the last dim, up to 65536 of them.
std::vector<Noise> noise_of_rows(const Subject& subject, const Tolerance& tolerance, const Values& other);

struct Measured {
    explicit Measured(const Subject& subject) : tolerance(subject) {}
    Judgement judgement;  // without verdict and reason
    Tolerance tolerance;
    Noise noise;
    Octaves shares;  // of errors in their magnitude, without pairs of zeros, which masks make and which say nothing
    int64_t towards_zero = 0, away = 0;
    int64_t beyond_truncation = 0;  // farther off than one unit and what f32 sums leave
    int64_t got_bf16 = 0, want_bf16 = 0, got_f16 = 0, want_f16 = 0;  // non-zero numbers that the type holds exactly
    int64_t got_nonzero = 0, want_nonzero = 0;
    int64_t flushed = 0, subnormal = 0,
            normal = 0;  // got: 0 for a subnormal number, one of them; want: at least normal
    double got_want = 0, got_got = 0, want_want = 0, error_error = 0;
};
Measured measure(const Subject& subject, const JudgeOptions& options);

// The tensor folded to [rows, last dim] and binned, row by row: of each cell the worst error, as a multiple of what is
// kept. Infinite where NaN or Inf is misplaced.
struct HeatMap {
    int64_t rows, columns, row_step, column_step;  // of cells; elements a cell
    std::vector<double> worst;
};
HeatMap heat_map(const Subject& subject, int64_t most_rows = 64, int64_t most_columns = 96);

}  // namespace gradus::cli
