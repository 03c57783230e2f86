#include "ops/exp_segsum/golden.h"

#include <algorithm>
#include <cmath>

namespace gradus::exp_segsum {
namespace {

using std::exp;

constexpr int64_t kLongestChains = 256;  // T^3/6 steps a matrix

template <typename T, typename Number>
Number element(const GoldenMatrix& m, int64_t i, int64_t j) {
    return to_f64(load_element<T>(m.at + i * m.row + j * m.column));
}

// sum[j] = x[j+1] + … + x[i]
template <typename T, typename Number>
void forward(const GoldenTypes& types, int64_t size, int64_t begin, int64_t end, const GoldenMatrix& x,
             const GoldenMatrix& out, Sum<Number>* sum) {
    const Mistake& wrong = types.how.mistake;
    std::fill(sum, sum + (end - begin), Sum<Number>{});
    for (int64_t i = 0; i < size; ++i)
        for (int64_t j = begin; j < end; ++j) {
            Sum<Number>& s = sum[j - begin];
            const int64_t term = wrong.is(kBeforeRow) ? i - 1 : i;
            const bool counts = wrong.is(kFromColumn) ? j <= term : j < term;
            for (int n = counts ? wrong.times(kPartOfSum, term) : 0; n > 0; --n) s += element<T, Number>(x, 0, term);
            const double below = result_of(wrong.is(kNoExp) ? Number(s) : exp(Number(s)));
            store_f64(types.to, out.at + i * out.row + j * out.column, j < i ? below : j == i ? 1 : 0);
        }
}

// sum[j] = p[i][j] + … + p[T−1][j] of p = g·y
template <typename T, typename Number>
void backward(const GoldenTypes& types, int64_t size, int64_t begin, int64_t end, const GoldenMatrix& g,
              const GoldenMatrix& y, Sum<Number>* sum, Sum<Number>* parts) {
    const Mistake& wrong = types.how.mistake;
    std::fill(sum, sum + (end - begin), Sum<Number>{});
    for (int64_t i = size - 1; i >= 0; --i) {
        Sum<Number> result{};
        for (int64_t j = begin; j < std::min(wrong.is(kDiagonalToo) ? i + 1 : i, end); ++j) {
            Sum<Number>& s = sum[j - begin];
            const Number before = s;
            for (int n = wrong.times(kPartOfRows, i) * wrong.times(kPartOfColumns, j); n > 0; --n)
                s += element<T, Number>(g, i, j) * element<T, Number>(y, i, j);
            if (wrong.is(kOneColumn) && j != i - 1) continue;
            result += wrong.is(kRowsAfter) ? before : Number(s);
        }
        parts[i] = result;
    }
}

// All of it as one chain for every result: what a kernel loses most by whose sums have few bits.
template <typename T, typename Number>
void backward_chains(int64_t size, const GoldenMatrix& g, const GoldenMatrix& y, Sum<Number>* parts) {
    for (int64_t k = 0; k < size; ++k) {
        parts[k] = {};
        for (int64_t i = k; i < size; ++i)
            for (int64_t j = 0; j < k; ++j) parts[k] += element<T, Number>(g, i, j) * element<T, Number>(y, i, j);
    }
}

template <typename Number>
void backward_store(DType to, int64_t size, int64_t blocks, const Sum<Number>* parts, const GoldenMatrix& out) {
    for (int64_t i = 0; i < size; ++i) {
        Sum<Number> result{};
        for (int64_t block = 0; block < blocks; ++block) result += parts[block * size + i];
        store_f64(to, out.at + i * out.column, result_of(Number(result)));
    }
}

}  // namespace

void golden_forward(const GoldenTypes& types, int64_t size, int64_t begin, int64_t end, const GoldenMatrix& x,
                    const GoldenMatrix& out, void* sums) noexcept {
    visit_golden(types.from, types.how.precision, [&]<typename T, typename Number>(T, Number) {
        forward<T, Number>(types, size, begin, end, x, out, static_cast<Sum<Number>*>(sums));
    });
}

void golden_backward(const GoldenTypes& types, int64_t size, int64_t begin, int64_t end, const GoldenMatrix& g,
                     const GoldenMatrix& y, void* sums, void* parts) noexcept {
    visit_golden(types.from, types.how.precision, [&]<typename T, typename Number>(T, Number) {
        if constexpr (kRoundsSums<Number>)
            if (size <= kLongestChains && types.how.mistake.is(0)) {
                const auto to = static_cast<Sum<Number>*>(parts);
                return begin == 0 ? backward_chains<T, Number>(size, g, y, to)
                                  : std::fill(to, to + size, Sum<Number>{});
            }
        backward<T, Number>(types, size, begin, end, g, y, static_cast<Sum<Number>*>(sums),
                            static_cast<Sum<Number>*>(parts));
    });
}

void golden_backward_store(const GoldenTypes& types, int64_t size, int64_t blocks, const void* parts,
                           const GoldenMatrix& out) noexcept {
    visit_golden(types.from, types.how.precision, [&]<typename T, typename Number>(T, Number) {
        backward_store<Number>(types.to, size, blocks, static_cast<const Sum<Number>*>(parts), out);
    });
}

}  // namespace gradus::exp_segsum
