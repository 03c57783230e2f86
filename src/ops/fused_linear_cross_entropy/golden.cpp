#include "ops/fused_linear_cross_entropy/golden.h"

#include <cmath>

#include "base/golden.h"

namespace gradus::fused_linear_cross_entropy {
namespace {

using std::exp;
using std::log;

template <typename Number>
Number real(const Strided& grid, std::byte* const* address, int64_t i, int64_t j = 0) {
    return load_f64(grid.dtype, grid.at(address, i, j));
}

template <typename Number>
void store(const Strided& grid, std::byte* const* address, int64_t i, int64_t j, Number number) {
    store_f64(grid.dtype, grid.at(address, i, j), result_of(number));
}

// A row as numbers, `step` apart.
template <typename T, typename Number>
void load_row(const Strided& grid, std::byte* const* address, int64_t i, int64_t hidden, int64_t step, Number* to) {
    for (int64_t h = 0; h < hidden; ++h) to[h * step] = to_f64(load_element<T>(grid.at(address, i, h)));
}

// Some rows of one operand side by side, [hidden][kTogether], and one row of the other.
template <typename T, typename Number>
struct Rows {
    const Strided &mine, &others;
    std::byte* const* address;
    int64_t hidden, count;
    Number *side_by_side, *row;
    Mistake wrong;

    Rows(const Strided& of, const Strided& with, std::byte* const* where, int64_t first, int64_t rows, int64_t depth,
         Number* numbers, const Mistake& mistake)
        : mine(of),
          others(with),
          address(where),
          hidden(depth),
          count(std::min(kTogether, rows - first)),
          side_by_side(numbers),
          row(numbers + depth * kTogether),
          wrong(mistake) {
        std::fill(side_by_side, row, Number{});
        for (int64_t k = 0; k < count; ++k) load_row<T>(mine, address, first + k, hidden, kTogether, side_by_side + k);
    }

    void take(int64_t other) { load_row<T>(others, address, other, hidden, 1, row); }

    // The logits of all with the row taken.
    void dot(Number* to) const {
        Sum<Number> sum[kTogether] = {};
        for (int64_t h = 0; h < hidden; ++h)
            for (int n = wrong.times(kPartOfHidden, h); n > 0; --n)
                for (int64_t k = 0; k < kTogether; ++k) sum[k] += side_by_side[h * kTogether + k] * row[h];
        std::copy(sum, sum + kTogether, to);
    }

    // sums[h][k] += factor[k]·row[h]
    void add(const Number* factor, Sum<Number>* sums) const {
        Number factors[kTogether];  // known to be apart from the sums
        std::copy(factor, factor + kTogether, factors);
        for (int64_t h = 0; h < hidden; ++h) {
            const Number x = row[h];
            for (int64_t k = 0; k < kTogether; ++k) sums[h * kTogether + k] += factors[k] * x;
        }
    }
};

template <typename T, typename Number>
void stats_of(const GoldenStats& s, std::byte* const* address, int64_t first, const int64_t* hit, Number* numbers) {
    const GoldenOperands& o = s.operands;
    const Mistake& wrong = o.how.mistake;
    Rows<T, Number> rows(o.input, o.weight, address, first, o.tokens, o.hidden, numbers, wrong);
    Number* const logits = rows.row + o.hidden;  // [words][kTogether]
    for (int64_t v = 0; v < o.words; ++v) {
        rows.take(v);
        rows.dot(logits + v * kTogether);
    }
    for (int64_t k = 0; k < rows.count; ++k) {
        const auto logit = [=](int64_t v) { return logits[v * kTogether + k]; };
        Number max = -HUGE_VAL;
        for (int64_t v = 0; v < o.words && !std::isnan(value_of(max)); ++v)
            if (!(value_of(logit(v)) <= value_of(max)) && wrong.times(kPartOfWords, v) > 0) max = logit(v);
        Sum<Number> total{};
        for (int64_t v = 0; v < o.words; ++v)
            for (int n = wrong.times(kPartOfWords, v) * wrong.times(kPartOfSum, v); n > 0; --n)
                total += exp(wrong.is(kNoMaxInSum) ? logit(v) : logit(v) - max);
        // no logit above −inf: the sum is −inf − −inf, NaN
        Number sum = value_of(max) == -HUGE_VAL ? Number(std::nan("")) : Number(total);
        if (wrong.is(kLogOfSum)) sum = log(sum);
        if (wrong.is(kLogSumExp)) sum = max + log(sum);
        const bool picked = hit[k] >= 0 && hit[k] < o.words;
        store(s.max, address, first + k, 0, max);
        store(s.sum, address, first + k, 0, sum);
        if (wrong.is(kNoMaxInPredicted)) max = Number{};
        store(s.predicted, address, first + k, 0, picked ? logit(hit[k]) - max : Number{});
        for (int64_t v = 0; s.with_logits && v < o.words; ++v) store(s.logits, address, first + k, v, logit(v));
    }
}

template <typename Number>
Number gradient(const GoldenGrad& g, std::byte* const* address, Number logit, int64_t token, int64_t word, bool hit) {
    const Number p = g.given ? real<Number>(g.softmax, address, token, word)
                             : exp(logit - real<Number>(g.max, address, token)) / real<Number>(g.sum, address, token);
    const Number rest = hit && g.operands.how.mistake.is(kTargetAlone) ? Number{} : p;
    const double target = g.operands.how.mistake.is(kTimesTarget) ? g.operands.how.mistake.amount : 1;
    return (rest - (hit ? target : 0)) * real<Number>(g.grad, address, token);
}

// Rows of a gradient: Σ g·(row of the other operand) over the other operand's rows.
template <typename T, typename Number>
void gradient_rows(const GoldenGrad& g, std::byte* const* address, bool of_input, int64_t first, const int64_t* hits,
                   Number* numbers) {
    const GoldenOperands& o = g.operands;
    Rows<T, Number> rows(of_input ? o.input : o.weight, of_input ? o.weight : o.input, address, first,
                         of_input ? o.tokens : o.words, o.hidden, numbers, o.how.mistake);
    auto* const sums = reinterpret_cast<Sum<Number>*>(rows.row + o.hidden);  // [hidden][kTogether]
    std::fill(sums, sums + o.hidden * kTogether, Sum<Number>{});
    for (int64_t other = 0; other < (of_input ? o.words : o.tokens); ++other) {
        Number factor[kTogether] = {};
        const int times = o.how.mistake.times(of_input ? kPartOfWords : kPartOfTokens, other);
        if (times == 0) continue;
        rows.take(other);
        if (!g.given) rows.dot(factor);
        for (int64_t k = 0; k < rows.count; ++k) {
            const int64_t token = of_input ? first + k : other, word = of_input ? other : first + k;
            factor[k] = gradient(g, address, factor[k], token, word, word == hits[token]);
        }
        for (int n = times; n > 0; --n) rows.add(factor, sums);
    }
    for (int64_t k = 0; k < rows.count; ++k)
        for (int64_t h = 0; h < o.hidden; ++h)
            store(of_input ? g.input_grad : g.weight_grad, address, first + k, h, Number(sums[h * kTogether + k]));
}

}  // namespace

void golden_stats(const GoldenStats& stats, std::byte* const* address, int64_t first, const int64_t* hit,
                  std::byte* numbers) noexcept {
    const GoldenOperands& o = stats.operands;
    visit_golden(o.input.dtype, o.how.precision, [&]<typename T, typename Number>(T, Number) {
        stats_of<T>(stats, address, first, hit, reinterpret_cast<Number*>(numbers));
    });
}

Piece<std::byte> book_golden_stats(const GoldenOperands& o, Scratch& scratch, int slots) {
    return scratch.book_bytes({o.hidden + o.words, kTogether + 1, number_size(o.how.precision)}, slots);
}

void golden_loss(const GoldenLoss& l, std::byte* const* address, int64_t token) noexcept {
    visit_golden(l.sum.dtype, l.how.precision, [&]<typename T, typename Number>(T, Number) {
        const Number all = real<Number>(l.sum, address, token), hit = real<Number>(l.predicted, address, token);
        const Mistake& wrong = l.how.mistake;
        Number first = wrong.is(kNoLog) ? all : log(all);
        if (wrong.is(kTimesLog)) first = first * Number(wrong.amount);
        store(l.loss, address, token, 0, first - hit);
    });
}

void golden_softmax(const GoldenLoss& l, std::byte* const* address, int64_t token, int64_t begin,
                    int64_t end) noexcept {
    visit_golden(l.logits.dtype, l.how.precision, [&]<typename T, typename Number>(T, Number) {
        const Number max = real<Number>(l.max, address, token), sum = real<Number>(l.sum, address, token);
        for (int64_t j = begin; j < end; ++j)
            store(l.softmax, address, token, j, exp(real<Number>(l.logits, address, token, j) - max) / sum);
    });
}

void golden_grad(const GoldenGrad& grad, std::byte* const* address, bool of_input, int64_t first, const int64_t* hits,
                 std::byte* numbers) noexcept {
    const GoldenOperands& o = grad.operands;
    visit_golden(o.input.dtype, o.how.precision, [&]<typename T, typename Number>(T, Number) {
        gradient_rows<T>(grad, address, of_input, first, hits, reinterpret_cast<Number*>(numbers));
    });
}

Piece<std::byte> book_golden_grad(const GoldenOperands& o, Scratch& scratch, int slots) {
    return scratch.book_bytes({o.hidden, 2 * kTogether + 1, number_size(o.how.precision)}, slots);
}

}  // namespace gradus::fused_linear_cross_entropy
