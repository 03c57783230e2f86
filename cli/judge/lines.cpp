// Lines of a subject, and what each element of them is measured by.
#include <algorithm>
#include <bit>

#include "cli/judge/measure.h"

namespace gradus::cli {
namespace {

constexpr int64_t kLeastLine = 64, kMostLine = 8192;
constexpr int64_t kChunk = int64_t{1} << 18;  // elements

int exponent_of(double magnitude) { return static_cast<int>(std::bit_cast<uint64_t>(magnitude) >> 52) - 1023; }

int64_t line_length(const Shape& shape) {
    int64_t length = 1;
    for (auto dim = shape.rbegin(); dim != shape.rend() && length < kLeastLine; ++dim) length *= *dim;
    return std::clamp<int64_t>(length, 1, kMostLine);
}

double largest(std::span<const double> values) {
    double most = 0;
    for (const double value : values) {
        const double size = std::abs(value);
        most = size > most && size < HUGE_VAL ? size : most;  // NaN compares false
    }
    return most;
}

}  // namespace

void Octaves::add(double value) {
    ++total_;
    if (value == 0)
        ++zeros_;
    else
        ++bins_[static_cast<size_t>(std::clamp(exponent_of(value) - kLowest, 0, kBins - 1))];
}

void Octaves::add(const Octaves& other) {
    total_ += other.total_, zeros_ += other.zeros_;
    for (size_t i = 0; i < kBins; ++i) bins_[i] += other.bins_[i];
}

double Octaves::quantile(double share) const {
    int64_t left = static_cast<int64_t>(std::ceil(share * static_cast<double>(total_))) - zeros_;
    if (left <= 0) return 0;
    for (int i = 0; i < kBins; ++i) {
        left -= bins_[static_cast<size_t>(i)];
        if (left <= 0) return std::ldexp(1.0, i + kLowest + 1);
    }
    return HUGE_VAL;
}

// docs/numerics.md: f32 sums leave (8 + log2 n)·2^-24 of the magnitude, a stated rounding half a unit; factors in the
// 16-bit type four halves, chains of f32 sums n·2^-24; sums carried in 16 bits n halves, and never a quarter of it all.
Tolerance::Tolerance(const Subject& subject) : grid(grid_of(subject.got.dtype())) {
    const Allowance& a = subject.allowance;
    const aclDataType got = subject.got.dtype();
    halves = got == subject.want.dtype() && got != ACL_DOUBLE ? 2 : 1;
    const double terms = std::max(1.0, a.terms);
    const bool wide = a.kernel == ACL_FLOAT || a.kernel == ACL_DOUBLE;
    const double half = half_unit(wide ? ACL_BF16 : a.kernel);
    f32_share = (8 + std::log2(terms)) * 0x1p-24;
    kept_share = f32_share + (wide ? 0 : a.roundings * half);
    rounded_share = std::max(kept_share, wide ? std::min(terms * 0x1p-24, 0x1p-13) : 4 * half);
    any_share = std::max(rounded_share, std::min(std::max(terms, 8.0) * half, 0.25));
    if (got == ACL_DOUBLE) kept_share = rounded_share = (8 + terms) * 0x1p-53, any_share = 0.25;
    if (a.exact || grid.integer) halves = f32_share = kept_share = rounded_share = any_share = 0;
}

Lines::Lines(const Subject& subject)
    : subject_(subject), length_(line_length(subject.shape)), lines_((subject.got.count() + length_ - 1) / length_) {
    if (subject.magnitude.given()) return;
    largest_.resize(static_cast<size_t>(lines_));
    std::vector<double> line;
    for (int64_t i = 0; i < lines_; ++i) {
        line.resize(static_cast<size_t>(std::min(length_, subject.got.count() - i * length_)));
        subject.want.load(i * length_, line);
        largest_[static_cast<size_t>(i)] = largest(line);
    }
}

Line Lines::load(int64_t i, Buffer& buffer) const {
    const int64_t first = i * length_;
    const auto size = static_cast<size_t>(std::min(length_, subject_.got.count() - first));
    buffer.got.resize(size), buffer.want.resize(size), buffer.magnitude.resize(size);
    subject_.got.load(first, buffer.got);
    subject_.want.load(first, buffer.want);
    if (subject_.magnitude.given())
        subject_.magnitude.load(first, buffer.magnitude);
    else
        std::fill(buffer.magnitude.begin(), buffer.magnitude.end(), largest_[static_cast<size_t>(i)]);
    return {first, buffer.got, buffer.want, buffer.magnitude};
}

double Lines::magnitude_at(int64_t index) const {
    if (subject_.magnitude.given()) return subject_.magnitude.at(index);
    return largest_[static_cast<size_t>(index / length_)];
}

int64_t Lines::chunks() const {
    const int64_t step = std::max<int64_t>(1, kChunk / length_);
    return (lines_ + step - 1) / step;
}

void Lines::each(const std::function<void(const Line&, int64_t chunk)>& work) const {
    const int64_t step = std::max<int64_t>(1, kChunk / length_);
    in_parallel(chunks(), [&](int64_t chunk) {
        Buffer buffer;
        for (int64_t i = chunk * step; i < std::min((chunk + 1) * step, lines_); ++i) work(load(i, buffer), chunk);
    });
}

namespace {

// add(index, share) for every element that has a magnitude; lines of a chunk one after the other. stored: a number as
// the arithmetic would hand it out.
void each_share(const Lines& lines, const Tolerance& tolerance, const Values& other,
                const std::function<double(double)>& stored,
                const std::function<void(int64_t chunk, int64_t index, double share)>& add) {
    lines.each([&](const Line& line, int64_t chunk) {
        std::vector<double> values(line.want.size());
        other.load(line.first, values);
        for (size_t k = 0; k < values.size(); ++k) {
            const double w = line.want[k], m = line.magnitude[k];
            const double error = std::abs(stored(values[k]) - w);
            if (!(m > 0) || !std::isfinite(m) || !std::isfinite(error)) continue;
            add(chunk, line.first + static_cast<int64_t>(k),
                std::max(0.0, error - tolerance.half_units(w) - tolerance.underflow) / m);
        }
    });
}

// Narrowly computed, then handed out in f32: still a number of the narrow type.
Grid grid_of_kernel(const Subject& subject) {
    const aclDataType kernel = subject.allowance.kernel;
    return grid_of(kernel == ACL_BF16 || kernel == ACL_FLOAT16 ? kernel : subject.got.dtype());
}
std::function<double(double)> rounding_of(const Subject& subject) {
    const Grid grid = grid_of_kernel(subject);
    return [grid](double x) { return grid.rounded(x); };
}

Noise total(const Subject& subject, const Tolerance& tolerance, const Values& other,
            const std::function<double(double)>& stored) {
    const Lines lines(subject);
    std::vector<Noise> parts(static_cast<size_t>(lines.chunks()));
    each_share(lines, tolerance, other, stored,
               [&](int64_t chunk, int64_t, double share) { parts[static_cast<size_t>(chunk)].add(share); });
    Noise all;
    for (const Noise& part : parts) all.add(part);
    return all;
}

}  // namespace

double Tolerance::truncated(double x) const {
    const double nearest = grid.rounded(x);
    return std::abs(nearest) > std::abs(x) ? nearest - std::copysign(grid.ulp(std::abs(x)), x) : nearest;
}

Noise noise_of(const Subject& subject, const Tolerance& tolerance, const Values& other) {
    return total(subject, tolerance, other, rounding_of(subject));
}

Noise noise_of_got(const Subject& subject, const Tolerance& tolerance) {
    return total(subject, tolerance, subject.got, [](double x) { return x; });
}

double underflow_of(const Subject& subject, const Values& other) {
    const double small = 16 * grid_of_kernel(subject).least_normal();
    const Lines lines(subject);
    std::vector<double> parts(static_cast<size_t>(lines.chunks()));
    lines.each([&](const Line& line, int64_t chunk) {
        std::vector<double> values(line.want.size());
        other.load(line.first, values);
        double& most = parts[static_cast<size_t>(chunk)];
        for (size_t k = 0; k < values.size(); ++k)
            if (const double error = std::abs(values[k] - line.want[k]); line.magnitude[k] < small && error > most)
                most = error;
    });
    return parts.empty() ? 0 : *std::max_element(parts.begin(), parts.end());
}

Noise noise_of_truncation(const Subject& subject, const Tolerance& tolerance) {
    return total(subject, tolerance, subject.want, [&](double x) { return tolerance.truncated(x); });
}

std::vector<Noise> noise_of_rows(const Subject& subject, const Tolerance& tolerance, const Values& other) {
    const int64_t columns = subject.shape.empty() ? 1 : std::max<int64_t>(1, subject.shape.back());
    const int64_t rows = subject.got.count() / columns;
    if (rows > 65536) return {};
    std::vector<std::vector<Noise>> parts(static_cast<size_t>(Lines(subject).chunks()));
    for (auto& part : parts) part.resize(static_cast<size_t>(rows));
    each_share(Lines(subject), tolerance, other, rounding_of(subject), [&](int64_t chunk, int64_t index, double share) {
        parts[static_cast<size_t>(chunk)][static_cast<size_t>(index / columns)].add(share);
    });
    std::vector<Noise> all(static_cast<size_t>(rows));
    for (const auto& part : parts)
        for (size_t row = 0; row < all.size(); ++row) all[row].add(part[row]);
    return all;
}

HeatMap heat_map(const Subject& subject, int64_t most_rows, int64_t most_columns) {
    const Shape& shape = subject.shape;
    const int64_t columns = shape.empty() ? 1 : std::max<int64_t>(shape.back(), 1);
    const int64_t rows = subject.got.count() / columns;
    // a vector is folded to lines as long as the map is wide, so that its map is more than one stripe
    const int64_t wide = rows > 1 ? columns : std::max<int64_t>(1, (columns + most_rows - 1) / most_rows);
    const int64_t high = (subject.got.count() + wide - 1) / std::max<int64_t>(wide, 1);
    HeatMap map{};
    map.row_step = std::max<int64_t>(1, (high + most_rows - 1) / most_rows);
    map.column_step = std::max<int64_t>(1, (wide + most_columns - 1) / most_columns);
    map.rows = (high + map.row_step - 1) / map.row_step;
    map.columns = (wide + map.column_step - 1) / map.column_step;
    map.worst.assign(static_cast<size_t>(map.rows * map.columns), 0.0);
    const Tolerance tolerance(subject);
    const Lines lines(subject);
    Lines::Buffer buffer;
    for (int64_t i = 0; i < lines.size(); ++i) {
        const Line line = lines.load(i, buffer);
        for (size_t k = 0; k < line.got.size(); ++k) {
            const double g = line.got[k], w = line.want[k];
            if (g == w || (std::isnan(g) && std::isnan(w))) continue;
            const int64_t at = line.first + static_cast<int64_t>(k);
            double& cell =
                map.worst[static_cast<size_t>(at / wide / map.row_step * map.columns + at % wide / map.column_step)];
            const double times = std::abs(g - w) / tolerance.kept(w, line.magnitude[k]);
            cell = std::isfinite(times) ? std::max(cell, times) : HUGE_VAL;
        }
    }
    return map;
}

}  // namespace gradus::cli
