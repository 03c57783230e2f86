// Lines of two tensors as doubles, and the grids they are measured on.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "cli/judge/measure.h"
#include "cli/tensor/half.h"

namespace gradus::cli {
namespace {

constexpr int64_t kLeastLine = 64, kMostLine = 8192;

int exponent_of(double magnitude) { return static_cast<int>(std::bit_cast<uint64_t>(magnitude) >> 52) - 1023; }

double power_of_two(int exponent) { return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52); }

void decode(const Tensor& tensor, int64_t first, std::span<double> to) {
    const auto each = [&]<typename T>(T, auto convert) {
        const std::byte* from = tensor.data() + first * static_cast<int64_t>(sizeof(T));
        for (size_t i = 0; i < to.size(); ++i) {
            T value;
            std::memcpy(&value, from + i * sizeof(T), sizeof(T));
            to[i] = convert(value);
        }
    };
    if (tensor.dtype() == ACL_FLOAT)
        each(float{}, [](float x) { return static_cast<double>(x); });
    else if (tensor.dtype() == ACL_FLOAT16)
        each(uint16_t{}, from_f16);
    else if (tensor.dtype() == ACL_BF16)
        each(uint16_t{}, from_bf16);
    else
        for (size_t i = 0; i < to.size(); ++i) to[i] = tensor.at(first + static_cast<int64_t>(i));
}

int64_t line_length(const Shape& shape) {
    int64_t length = 1;
    for (auto dim = shape.rbegin(); dim != shape.rend() && length < kLeastLine; ++dim) length *= *dim;
    return std::clamp<int64_t>(length, 1, kMostLine);
}

}  // namespace

Grid grid_of(aclDataType dtype) {
    switch (dtype) {
        case ACL_FLOAT:
            return {24, -126, 127, false};
        case ACL_FLOAT16:
            return {11, -14, 15, false};
        case ACL_BF16:
            return {8, -126, 127, false};
        case ACL_DOUBLE:
            return {53, -960, 1022, false};  // short of the real range by what a power of two as double can say
        default:
            return {64, 0, 63, true};
    }
}

double Grid::ulp(double magnitude) const {
    if (integer) return 1;
    const int exponent = std::clamp(exponent_of(magnitude), least_exponent, most_exponent);
    return power_of_two(exponent - (digits - 1));
}

double Grid::top() const { return power_of_two(most_exponent + 1); }

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
        if (left <= 0) return power_of_two(i + kLowest + 1);
    }
    return HUGE_VAL;
}

Lines::Lines(const Tensor& got, const Tensor& want)
    : got_(got), want_(want), length_(line_length(got.shape())), lines_((got.count() + length_ - 1) / length_) {}

Line Lines::load(int64_t i, Buffer& buffer) const {
    const int64_t first = i * length_;
    const auto size = static_cast<size_t>(std::min(length_, got_.count() - first));
    buffer.got.resize(size), buffer.want.resize(size);
    decode(got_, first, buffer.got);
    decode(want_, first, buffer.want);
    double scale = 0;
    for (const double w : buffer.want) {
        const double magnitude = std::abs(w);
        scale = magnitude > scale && magnitude < HUGE_VAL ? magnitude : scale;  // NaN compares false
    }
    return {first, buffer.got, buffer.want, scale};
}

HeatMap heat_map(const Tensor& got, const Tensor& want, const Rules& rules, int64_t most_rows, int64_t most_columns) {
    const int64_t columns = got.shape().empty() ? 1 : std::max<int64_t>(got.shape().back(), 1);
    const int64_t rows = got.count() / columns;
    // a vector is folded to lines as long as the map is wide, so that its map is more than one stripe
    const int64_t wide = rows > 1 ? columns : std::max<int64_t>(1, (columns + most_rows - 1) / most_rows);
    const int64_t high = (got.count() + wide - 1) / std::max<int64_t>(wide, 1);
    HeatMap map{};
    map.row_step = std::max<int64_t>(1, (high + most_rows - 1) / most_rows);
    map.column_step = std::max<int64_t>(1, (wide + most_columns - 1) / most_columns);
    map.rows = (high + map.row_step - 1) / map.row_step;
    map.columns = (wide + map.column_step - 1) / map.column_step;
    map.worst.assign(static_cast<size_t>(map.rows * map.columns), 0.0);
    const Yardstick yardstick{rules, grid_of(got.dtype()), 0};
    const Lines lines(got, want);
    Lines::Buffer buffer;
    for (int64_t i = 0; i < lines.size(); ++i) {
        const Line line = lines.load(i, buffer);
        for (size_t k = 0; k < line.got.size(); ++k) {
            const double g = line.got[k], w = line.want[k];
            if (g == w || (std::isnan(g) && std::isnan(w))) continue;
            const int64_t at = line.first + static_cast<int64_t>(k);
            double& cell =
                map.worst[static_cast<size_t>(at / wide / map.row_step * map.columns + at % wide / map.column_step)];
            const double times = std::abs(g - w) / yardstick.allowed(w, line.scale);
            cell = std::isfinite(times) ? std::max(cell, times) : HUGE_VAL;
        }
    }
    return map;
}

}  // namespace gradus::cli
