#include "ops/exp_segsum/kernel.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/exp_segsum/kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/copy.h"
#include "simd/dispatch.h"
#include "simd/math-inl.h"
#include "simd/wide-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradus::exp_segsum {
namespace HWY_NAMESPACE {
using namespace gradus::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace)

// Segment sums inside this range have powers of e that are normal in f64, and so is every product on the way: then a
// column multiplies by e^x[i] from row to row, in f64, and needs no exp. T roundings of 2^-53 are nothing to f32.
// Beyond it, or with an infinity or NaN about, a column adds x[i] and takes exp in every row.
constexpr double kProductRange = 600;

template <typename T>
void forward_begin(const void* x_, int64_t size, ForwardColumns& columns) noexcept {
    const T* x = static_cast<const T*>(x_);
    HWY_ALIGN float wide[2 * HWY_MAX_BYTES / sizeof(float)] = {};
    double sum = 0, least = 0, most = 0;
    columns.products = true;
    each_pair(size, [&](int64_t i, auto part) HWY_ATTR {
        store_pair(wide, load(x + i, part));
        for (int64_t k = i; k < std::min(i + static_cast<int64_t>(pair_lanes()), size); ++k) {
            columns.step[k] = static_cast<double>(wide[lane_of<T>(k - i)]);
            if (k == 0) continue;  // of x[0] no segment knows
            sum += columns.step[k];
            columns.products &= sum - least <= kProductRange && most - sum <= kProductRange;
            least = std::min(least, sum), most = std::max(most, sum);
        }
    });
    if (columns.products)
        for (int64_t k = 1; k < size; ++k) columns.step[k] = std::exp(columns.step[k]);
    const Wide start = set_wide(columns.products ? 1 : 0);
    for (int64_t j = 0; j < size; j += static_cast<int64_t>(pair_lanes())) store_wide(columns.value + j, start);
}

// Rows [first, first + kRows): every column takes its step; the column of the diagonal begins, those behind it wait.
// From the last column to the first, since the end of a row may spill into the next one.
template <typename T, int kRows, bool kProducts>
HWY_INLINE void forward_group(int64_t first, int64_t size, const ForwardColumns& columns, T* to) {
    constexpr double kStart = kProducts ? 1 : 0;
    const auto lanes = static_cast<int64_t>(pair_lanes());
    const auto stepped = [&](const Wide& value, int r) HWY_ATTR {
        const Wide step = set_wide(columns.step[first + r]);
        return kProducts ? value * step : value + step;
    };
    const auto power = [](const Wide& value) HWY_ATTR { return kProducts ? narrow(value) : exp(narrow(value)); };

    const int64_t diagonal = first / lanes * lanes;
    for (int64_t j = (size - 1) / lanes * lanes; j > diagonal; j -= lanes)
        for (int r = 0; r < kRows; ++r) store_pair(to + r * size + j, set_pair(0));
    Wide value = load_wide(columns.value + diagonal);
    for (int r = 0; r < kRows; ++r) {
        const int64_t n = first + r - diagonal;
        value = first_elements<T>(stepped(value, r), n, kStart);
        store_pair<NaNs::of_16bit_inputs>(to + r * size + diagonal, first_elements<T>(power(value), n + 1));
    }
    store_wide(columns.value + diagonal, value);
    for (int64_t j = diagonal - lanes; j >= 0; j -= lanes) {
        value = load_wide(columns.value + j);
        for (int r = 0; r < kRows; ++r) {
            value = stepped(value, r);
            store_pair<NaNs::of_16bit_inputs>(to + r * size + j, power(value));
        }
        store_wide(columns.value + j, value);
    }
}

template <typename T, bool kProducts>
HWY_INLINE void forward_all(int64_t first, int64_t count, int64_t size, const ForwardColumns& columns, T* to) {
    // a group has its diagonal in one pair
    constexpr int kGroup = HWY_TARGET == HWY_SCALAR ? 1 : static_cast<int>(kRowGroup);
    int64_t i = first;
    for (; i + kGroup <= first + count; i += kGroup, to += kGroup * size)
        forward_group<T, kGroup, kProducts>(i, size, columns, to);
    for (; i < first + count; ++i, to += size) forward_group<T, 1, kProducts>(i, size, columns, to);
}

template <typename T>
void forward_rows(int64_t first, int64_t count, int64_t size, const ForwardColumns& columns, void* to) noexcept {
    if (columns.products) forward_all<T, true>(first, count, size, columns, static_cast<T*>(to));
    else forward_all<T, false>(first, count, size, columns, static_cast<T*>(to));
}

// A row's sum may take this many additions in f32 before it goes on in f64.
constexpr int64_t kRowChain = 8;

template <typename T>
struct Operand {
    const T* row;  // of the group's first
    int64_t pitch, readable;
};

template <typename T>
HWY_INLINE Pair load_of(const Operand<T>& from, int64_t r, int64_t j, int64_t n) {
    const T* at = from.row + r * from.pitch + j;
    return j + static_cast<int64_t>(pair_lanes()) <= from.readable ? load_pair(at) : load(at, Part{n});
}

// Rows [first, first + kRows) at once, from the last to the first: `column` is Σ g·y of these rows so far, a row's sum
// takes it as it is then. kRows additions in f32, kRowChain of them across; everything longer is in f64.
template <typename T, int kRows>
HWY_INLINE void backward_group(const Operand<T>& g, const Operand<T>& y, int64_t first, int64_t next,
                               BackwardColumns& columns) {
    const auto step = static_cast<int64_t>(pair_lanes());
    double before[kRows];
    before[0] = columns.before;
    for (int r = 1; r < kRows; ++r) before[r] = before[r - 1] + columns.sum[lane_of<T>(first + r - 1)];

    Pair row[kRows];
    V64 total[kRows], left = hn::Zero(F64());
    for (int r = 0; r < kRows; ++r) row[r] = set_pair(0), total[r] = hn::Zero(F64());
    const auto add_column = [&](int64_t j, Pair column) HWY_ATTR {
        const Wide sum = load_wide(columns.sum + j) + widen(column);
        store_wide(columns.sum + j, sum);
        if (j + step <= next) left = hn::Add(left, fold(sum));
        else if (j < next) left = hn::Add(left, fold(first_elements<T>(sum, next - j, 0)));
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
    while (j > 0) {
        for (const int64_t stop = std::max<int64_t>(0, j - (kRowChain - 1) * step); j > stop;) {
            j -= step;
            Pair column = set_pair(0);
            for (int r = kRows - 1; r >= 0; --r) {
                column = mul_add(load_pair(g.row + r * g.pitch + j), load_pair(y.row + r * y.pitch + j), column);
                row[r] = row[r] + column;
            }
            add_column(j, column);
        }
        for (int r = 0; r < kRows; ++r) total[r] = hn::Add(total[r], fold(widen(row[r]))), row[r] = set_pair(0);
    }
    for (int r = 0; r < kRows; ++r)
        columns.result[first + r] = before[r] + sum_of(hn::Add(total[r], fold(widen(row[r]))));
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
        return Operand<T>{static_cast<const T*>(m.at) + (i - first) * m.pitch, m.pitch,
                          m.readable(first + count - i - rows)};
    };
    int64_t i = first + count;
    while (i > first) {
        const bool whole = i % kRowGroup == 0 && step >= kRowGroup;
        i -= whole ? kRowGroup : 1;
        if (whole) {
            backward_group<T, kRowGroup>(operand(g, i, kRowGroup), operand(y, i, kRowGroup), i, i - kRowGroup, columns);
        } else {
            const int64_t next = i % kRowGroup == 0 && step >= kRowGroup ? i - kRowGroup : i - 1;
            backward_group<T, 1>(operand(g, i, 1), operand(y, i, 1), i, next, columns);
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
        store_pair(stored, load_pair(wide));
        scatter(reinterpret_cast<std::byte*>(static_cast<T*>(out) + j * step), step,
                reinterpret_cast<const std::byte*>(stored), n, sizeof(T));
    }
}

ForwardKernel forward_for(DType dtype) {
    return visit_float(dtype, []<typename T>(T) -> ForwardKernel { return {&forward_begin<T>, &forward_rows<T>}; });
}
BackwardKernel backward_for(DType dtype) {
    return visit_float(dtype, []<typename T>(T) -> BackwardKernel { return {&backward_rows<T>, &backward_store<T>}; });
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
