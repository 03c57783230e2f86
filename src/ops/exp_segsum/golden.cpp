#include "ops/exp_segsum/golden.h"

#include <algorithm>
#include <cmath>

namespace gradus::exp_segsum {
namespace {

using std::exp;

template <typename T, typename Number>
Number element(const GoldenMatrix& m, int64_t i, int64_t j) {
    return to_f64(*reinterpret_cast<const T*>(m.at + i * m.row + j * m.column));
}

// sum[j] = x[j+1] + … + x[i]
template <typename T, typename Number>
void forward(DType to, int64_t size, const GoldenMatrix& x, const GoldenMatrix& out, Number* sum) {
    std::fill(sum, sum + size, Number{});
    for (int64_t i = 0; i < size; ++i)
        for (int64_t j = 0; j < size; ++j) {
            if (j < i) sum[j] += element<T, Number>(x, 0, i);
            const double value = j < i ? result_of(exp(sum[j])) : j == i ? 1 : 0;
            store_f64(to, out.at + i * out.row + j * out.column, value);
        }
}

// sum[j] = p[i][j] + … + p[T−1][j] of p = g·y
template <typename T, typename Number>
void backward(DType to, int64_t size, const GoldenMatrix& g, const GoldenMatrix& y, const GoldenMatrix& out,
              Number* sum) {
    std::fill(sum, sum + size, Number{});
    for (int64_t i = size - 1; i >= 0; --i) {
        Number result{};
        for (int64_t j = 0; j < i; ++j) result += sum[j] += element<T, Number>(g, i, j) * element<T, Number>(y, i, j);
        store_f64(to, out.at + i * out.column, result_of(result));
    }
}

}  // namespace

void golden_forward(const GoldenTypes& types, int64_t size, const GoldenMatrix& x, const GoldenMatrix& out,
                    void* sums) noexcept {
    visit_golden(types.from, types.precision, [&]<typename T, typename Number>(T, Number) {
        forward<T>(types.to, size, x, out, static_cast<Number*>(sums));
    });
}

void golden_backward(const GoldenTypes& types, int64_t size, const GoldenMatrix& g, const GoldenMatrix& y,
                     const GoldenMatrix& out, void* sums) noexcept {
    visit_golden(types.from, types.precision, [&]<typename T, typename Number>(T, Number) {
        backward<T>(types.to, size, g, y, out, static_cast<Number*>(sums));
    });
}

}  // namespace gradus::exp_segsum
