#include "ops/exp_segsum/kernel.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/exp_segsum/kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/gather.h"
#include "simd/dispatch.h"
#include "simd/math-inl.h"
#include "simd/stream-inl.h"
#include "simd/wide-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradus::exp_segsum {
namespace HWY_NAMESPACE {
using namespace gradus::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace)

// Where the positive x sum up to no more than this, a column multiplies by e^x[i] from row to row, in f64, and needs no
// exp: no product can overflow, and T roundings of 2^-52 are nothing to f32. Otherwise, or with a NaN about, a column
// adds x[i] and takes exp in every row.
constexpr float kMostGrowth = 600;

// 16-bit results: f64 at an anchor every kAnchorRows rows, f32 between. value·since is fma(v, high, v·low), with v the
// value at the anchor in f32 and since = high + low: two roundings, as promised. Where nothing grows beyond kTameGrowth
// and since stays above kLeastSince, 2^32·v and 2^-32·since are numbers that f32 holds in full. Without FMA it would be
// three roundings.
constexpr int64_t kAnchorRows = 16;
constexpr float kTameGrowth = 20;
constexpr int64_t kTameSize = 96;  // smaller matrices are mostly anchors
constexpr double kLift = 0x1p32, kLeastSince = 0x1p-60;
template <typename T>
inline constexpr bool kAnchors = !std::is_same_v<T, float> && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128;

// The values of row `first` − 1, from its diagonal backwards.
template <typename T>
void set_values(int64_t first, ForwardColumns& columns) {
    double value = columns.products ? 1 : 0;
    for (int64_t j = first - 2; j >= 0; --j) {
        const double step = columns.step[lane_of<T>(j + 1)];
        value = columns.products ? value * step : value + step;
        if (columns.products && value < columns.least) value = 0;
        columns.value[lane_of<T>(j)] = value;
    }
}

template <typename T>
void forward_begin(const void* x_, int64_t size, int64_t first, ForwardColumns& columns) noexcept {
    const T* x = static_cast<const T*>(x_);
    Pair positive = set_pair(0);
    each_pair(size, [&](int64_t i, auto part) HWY_ATTR { positive = positive + positive_or_nan(load(x + i, part)); });
    const float growth = hn::GetLane(hn::SumOfLanes(F32(), hn::Add(positive.first, positive.second)));
    columns.products = growth <= kMostGrowth;
    columns.tame = kAnchors<T> && growth <= kTameGrowth && size >= kTameSize;
    columns.anchored = false;
    columns.least = columns.products ? std::exp(-106.0 - static_cast<double>(growth)) : 0;
    const Wide start = set_wide(columns.products ? 1 : 0);
    each_pair(size, [&](int64_t i, auto part) HWY_ATTR {
        const Wide step = widen(load(x + i, part));
        store_wide(columns.step + i, columns.products ? exp(step) : step);
        store_wide(columns.value + i, start);
    });
    set_values<T>(first, columns);
}

// Rows [first, first + kRows): every column takes its step; the column of the diagonal begins, those behind it wait.
// From the last column to the first, since the end of a row may spill into the next one.
template <typename T, int kRows, bool kProducts, bool kPast>
HWY_INLINE void forward_group(int64_t first, int64_t size, const ForwardColumns& columns, T* to, int64_t pitch) {
    constexpr double kStart = kProducts ? 1 : 0;
    const auto lanes = static_cast<int64_t>(pair_lanes());
    const auto stepped = [&](const Wide& value, int r) HWY_ATTR {
        const Wide step = set_wide(columns.step[lane_of<T>(first + r)]);
        return kProducts ? value * step : value + step;
    };
    const auto power = [](const Wide& value)
                           HWY_ATTR { return kProducts ? narrow(value) : one_nan(exp(narrow(value))); };
    const auto place = [&](int r, int64_t j, Pair v)
                           HWY_ATTR { put<kPast, NaNs::of_16bit_inputs>(to + r * pitch + j, Full(), v); };

    const int64_t diagonal = first / lanes * lanes;
    for (int64_t j = (size - 1) / lanes * lanes; j > diagonal; j -= lanes)
        for (int r = 0; r < kRows; ++r) place(r, j, set_pair(0));
    Wide value = load_wide(columns.value + diagonal);
    for (int r = 0; r < kRows; ++r) {
        const int64_t n = first + r - diagonal;
        value = first_elements<T>(stepped(value, r), n, kStart);
        place(r, diagonal, first_elements<T>(power(value), n + 1));
    }
    store_wide(columns.value + diagonal, value);

    for (int64_t j = diagonal - lanes; j >= 0; j -= lanes) {
        value = load_wide(columns.value + j);
        if (kProducts) value = zero_below(value, columns.least);
        for (int r = 0; r < kRows; ++r) {
            value = stepped(value, r);
            place(r, j, power(value));
        }
        store_wide(columns.value + j, value);
    }
}

template <typename T, bool kProducts, bool kPast>
void forward_groups(int64_t first, int64_t count, int64_t size, ForwardColumns& columns, T* to, int64_t pitch) {
    // a group has its diagonal in one pair
    constexpr int kGroup = HWY_TARGET == HWY_SCALAR ? 1 : static_cast<int>(kRowGroup);
    int64_t i = first;
    for (; i + kGroup <= first + count; i += kGroup, to += kGroup * pitch)
        forward_group<T, kGroup, kProducts, kPast>(i, size, columns, to, pitch);
    for (; i < first + count; ++i, to += pitch) forward_group<T, 1, kProducts, kPast>(i, size, columns, to, pitch);
}

// Brings the values to row `first` − 1, if they are at an anchor, and makes that row the next one. The columns that
// begin with the rows in between get 1/since as it will be there, so that they are like all others.
template <typename T>
void set_anchor(int64_t first, int64_t size, ForwardColumns& columns) {
    const auto lanes = static_cast<int64_t>(pair_lanes());
    if (columns.anchored) {
        const Wide since = set_wide(columns.since);
        for (int64_t j = 0; j < first; j += lanes)
            store_wide(columns.value + j,
                       first_elements<T>(load_wide(columns.value + j) * since, std::min(first - j, lanes), 1));
    }
    const int64_t rows = std::min(kAnchorRows, size - first);
    double since[kAnchorRows], product = 1, least = 1;
    for (int64_t r = 0; r < rows; ++r) {
        since[r] = product *= columns.step[lane_of<T>(first + r)];
        least = std::min(least, product);
    }
    columns.since = 1;
    columns.anchored = least >= kLeastSince;
    if (!columns.anchored) return;
    for (int64_t r = 0; r < rows; ++r) columns.value[lane_of<T>(first + r)] = 1 / since[r];
    for (int64_t j = 0; j < first + rows; j += lanes) {
        const Wide value = zero_below(load_wide(columns.value + j), columns.least);
        store_wide(columns.value + j, value);
        store_pair(columns.anchor + j, narrow(value * set_wide(kLift)));
    }
}

template <typename T, bool kPast>
HWY_INLINE void anchored_row(int64_t i, int64_t size, ForwardColumns& columns, T* to) {
    const auto lanes = static_cast<int64_t>(pair_lanes());
    const auto place = [&](int64_t j, Pair v) HWY_ATTR { put<kPast, NaNs::of_16bit_inputs>(to + j, Full(), v); };
    columns.since *= columns.step[lane_of<T>(i)];
    const double since = columns.since * (1 / kLift);
    const auto high = static_cast<float>(since);
    const Pair a = set_pair(high), b = set_pair(static_cast<float>(since - static_cast<double>(high)));
    const auto power = [&](int64_t j) HWY_ATTR {
        const Pair v = load_pair(columns.anchor + j);
        return mul_add(v, a, v * b);
    };
    int64_t j = 0;
    for (; j + lanes <= i; j += lanes) place(j, power(j));
    place(j, first_elements<T>(power(j), i + 1 - j));
    for (j += lanes; j < size; j += lanes) place(j, set_pair(0));
}

template <typename T, bool kPast>
void tame_rows(int64_t first, int64_t count, int64_t size, ForwardColumns& columns, T* to, int64_t pitch) {
    for (int64_t i = first; i < first + count; ++i, to += pitch) {
        if (i % kAnchorRows == 0) set_anchor<T>(i, size, columns);
        if (columns.anchored)
            anchored_row<T, kPast>(i, size, columns, to);
        else
            forward_group<T, 1, true, kPast>(i, size, columns, to, pitch);
    }
}

template <typename T, bool kPast>
void forward_rows_to(int64_t first, int64_t count, int64_t size, ForwardColumns& columns, T* to, int64_t pitch) {
    if constexpr (kAnchors<T>)
        if (columns.tame) return tame_rows<T, kPast>(first, count, size, columns, to, pitch);
    const auto groups = columns.products ? forward_groups<T, true, kPast> : forward_groups<T, false, kPast>;
    groups(first, count, size, columns, to, pitch);
}

template <typename T>
void forward_rows(int64_t first, int64_t count, int64_t size, ForwardColumns& columns, void* to,
                  int64_t pitch) noexcept {
    const auto rows = columns.past ? forward_rows_to<T, true> : forward_rows_to<T, false>;
    rows(first, count, size, columns, static_cast<T*>(to), pitch);
}

void copy_rows(std::byte* to, const std::byte* from, int64_t bytes) noexcept { copy_past(to, from, bytes); }

// A row's sum may take this many additions in f32 before it goes on in f64.
constexpr int64_t kRowChain = 8;

// The memory is told of rows this far ahead, a few lines with every pair: row by row and backwards, since hardware
// prefetchers overshoot the ends of a triangle's rows (bf16, T = 256, one AVX2 core: 5.2 GB/s without, 10 with).
constexpr int64_t kAhead = 2 * kRowGroup;

template <typename T>
struct RowGroup {
    const T* row;  // of the group's first
    int64_t pitch, readable;
};

// Walks over the rows kAhead before a group, line by line, from the last to the first. What lies before the first row
// of a matrix is the last one of the matrix before, where they follow each other. Addresses are numbers here: they may
// be nobody's, and prefetching does not mind.
template <typename T>
class Ahead {
  public:
    HWY_INLINE Ahead(const RowGroup<T>& g, const RowGroup<T>& y, int64_t first, int64_t rows, int64_t size)
        : g_(address(g)),
          y_(address(y)),
          g_pitch_(g.pitch * kItem),
          y_pitch_(y.pitch * kItem),
          row_(first - kAhead),
          rows_(rows),
          size_(size) {
        next_row();
    }
    HWY_INLINE void touch(int lines) {
        for (; lines > 0; --lines, at_ -= kLine) {
            if (at_ < 0 && rows_ == 0) return;
            if (at_ < 0) next_row();
            __builtin_prefetch(reinterpret_cast<const void*>(g_ + static_cast<uintptr_t>(rows_ * g_pitch_ + at_)));
            __builtin_prefetch(reinterpret_cast<const void*>(y_ + static_cast<uintptr_t>(rows_ * y_pitch_ + at_)));
        }
    }

    HWY_INLINE void touch_rest() { touch(std::numeric_limits<int>::max()); }

  private:
    static constexpr int64_t kItem = sizeof(T), kLine = 64;
    static uintptr_t address(const RowGroup<T>& from) {
        return reinterpret_cast<uintptr_t>(from.row) - static_cast<uintptr_t>(kAhead * from.pitch * kItem);
    }
    HWY_INLINE void next_row() {
        const int64_t i = row_ + --rows_;
        at_ = (i < 0 ? i + size_ : i) * kItem - 1;
    }
    uintptr_t g_, y_;
    int64_t g_pitch_, y_pitch_, row_, rows_, size_, at_;
};

template <typename T>
HWY_INLINE Pair load_of(const RowGroup<T>& from, int64_t r, int64_t j, int64_t n) {
    const T* at = from.row + r * from.pitch + j;
    return j + static_cast<int64_t>(pair_lanes()) <= from.readable ? load_pair(at) : load(at, Part{n});
}

// Rows [first, first + kRows) at once, from the last to the first: `column` is Σ g·y of these rows so far, a row's sum
// takes it as it is then. kRows additions in f32, kRowChain of them across; everything longer is in f64.
template <typename T, int kRows>
HWY_INLINE void backward_group(const RowGroup<T>& g, const RowGroup<T>& y, int64_t first, int64_t next, int64_t size,
                               BackwardColumns& columns) {
    const auto step = static_cast<int64_t>(pair_lanes());
    Ahead<T> ahead(g, y, first, kRows, size);
    ahead.touch(kRows);
    double before[kRows];
    before[0] = columns.before;
    for (int r = 1; r < kRows; ++r) before[r] = before[r - 1] + columns.sum[lane_of<T>(first + r - 1)];

    Pair row[kRows];
    V64 total[kRows], left = hn::Zero(F64());
    for (int r = 0; r < kRows; ++r) row[r] = set_pair(0), total[r] = hn::Zero(F64());
    const auto add_column = [&](int64_t j, Pair column) HWY_ATTR {
        const Wide sum = load_wide(columns.sum + j) + widen(column);
        store_wide(columns.sum + j, sum);
        if (j + step <= next)
            left = hn::Add(left, fold(sum));
        else if (j < next)
            left = hn::Add(left, fold(first_elements<T>(sum, next - j, 0)));
    };

    // the pair in which the rows end; what it holds behind a row's end may be anything
    int64_t j = first / step * step;
    if (first + kRows - 1 > j) {
        Pair column = set_pair(0);
        for (int r = kRows - 1; r >= 0; --r) {
            const int64_t n = first + r - j;
            if (n == 0) break;
            column = first_elements<T>(mul_add(load_of(g, r, j, n), load_of(y, r, j, n), column), n);
            row[r] = column;
        }
        add_column(j, column);
    }
    do {
        for (const int64_t stop = std::max<int64_t>(0, j - (kRowChain - 1) * step); j > stop;) {
            j -= step;
            ahead.touch(kRows * static_cast<int>(pair_lanes() * sizeof(T)) / 64);  // as many lines as these pairs are
            Pair column = set_pair(0);
            for (int r = kRows - 1; r >= 0; --r) {
                column = mul_add(load_pair(g.row + r * g.pitch + j), load_pair(y.row + r * y.pitch + j), column);
                row[r] = row[r] + column;
            }
            add_column(j, column);
        }
        for (int r = 0; r < kRows; ++r) {
            total[r] = hn::Add(total[r], widen_and_fold(hn::Add(row[r].first, row[r].second)));
            row[r] = set_pair(0);
        }
    } while (j > 0);
    ahead.touch_rest();
    for (int r = 0; r < kRows; ++r) columns.result[first + r] = before[r] + sum_of(total[r]);
    columns.before = sum_of(left);
}

template <typename T>
void backward_rows(const MatrixRows& g, const MatrixRows& y, int64_t first, int64_t count, int64_t size,
                   BackwardColumns& columns) noexcept {
    const auto step = static_cast<int64_t>(pair_lanes());
    if (first + count == size) {
        for (int64_t j = 0; j < size; j += step) store_wide(columns.sum + j, set_wide(0));
        columns.before = 0;
    }
    const auto operand = [&](const MatrixRows& m, int64_t i, int64_t rows) HWY_ATTR {
        return RowGroup<T>{static_cast<const T*>(m.at) + (i - first) * m.pitch, m.pitch,
                           m.readable(first + count - i - rows)};
    };
    int64_t i = first + count;
    while (i > first) {
        const bool whole = i % kRowGroup == 0 && step >= kRowGroup;
        i -= whole ? kRowGroup : 1;
        if (whole) {
            backward_group<T, kRowGroup>(operand(g, i, kRowGroup), operand(y, i, kRowGroup), i, i - kRowGroup, size,
                                         columns);
        } else {
            const int64_t next = i % kRowGroup == 0 && step >= kRowGroup ? i - kRowGroup : i - 1;
            backward_group<T, 1>(operand(g, i, 1), operand(y, i, 1), i, next, size, columns);
        }
    }
}

// What the rows of later panels add to out[k] is the sum of their columns left of k.
template <typename T>
void backward_join(double* sums, int64_t pitch, int64_t rows, int64_t size, double* result) noexcept {
    const auto lanes = static_cast<int64_t>(pair_lanes());
    for (int64_t end = (size - 1) / rows * rows; end > 0; end -= rows) {  // of the panel that receives
        double* below = sums + end / rows * pitch;                        // all rows from `end` on
        if (end + rows < size)
            for (int64_t j = 0; j < end; j += lanes)
                store_wide(below + j, load_wide(below + j) + load_wide(below + pitch + j));
        double left = 0;
        for (int64_t k = 0; k < end; ++k) {
            if (k >= end - rows) result[k] += left;
            left += below[lane_of<T>(k)];
        }
    }
}

template <typename T>
void backward_store(const BackwardColumns& columns, int64_t size, void* out, int64_t step) noexcept {
    const auto lanes = static_cast<int64_t>(pair_lanes());
    HWY_ALIGN float wide[2 * HWY_MAX_BYTES / sizeof(float)] = {};
    HWY_ALIGN T stored[2 * HWY_MAX_BYTES / sizeof(float)];
    for (int64_t j = 0; j < size; j += lanes) {
        const int64_t n = std::min(lanes, size - j);
        for (int64_t k = 0; k < n; ++k) wide[lane_of<T>(k)] = static_cast<float>(columns.result[j + k]);
        store_pair(stored, one_nan(load_pair(wide)));
        scatter(reinterpret_cast<std::byte*>(static_cast<T*>(out) + j * step), step,
                reinterpret_cast<const std::byte*>(stored), n, sizeof(T));
    }
}

ForwardKernel forward_for(DType dtype) {
    return visit_float(dtype, []<typename T>(T) -> ForwardKernel {
        return {&forward_begin<T>, &forward_rows<T>, HWY_TARGET != HWY_SCALAR, &copy_rows};
    });
}
BackwardKernel backward_for(DType dtype) {
    return visit_float(dtype, []<typename T>(T) -> BackwardKernel {
        return {&backward_rows<T>, &backward_join<T>, &backward_store<T>};
    });
}

}  // namespace HWY_NAMESPACE
}  // namespace gradus::exp_segsum
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradus::exp_segsum {

HWY_EXPORT(forward_for);
HWY_EXPORT(backward_for);

ForwardKernel choose_forward(DType dtype, Isa cap) { return GRADUS_CHOOSE(forward_for, cap)(dtype); }
BackwardKernel choose_backward(DType dtype, Isa cap) { return GRADUS_CHOOSE(backward_for, cap)(dtype); }

}  // namespace gradus::exp_segsum
#endif
