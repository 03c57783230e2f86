#include "ops/nsa_selected_attention/golden.h"

#include <cmath>

#include "base/golden.h"

namespace gradus::nsa_selected_attention {
namespace {

using std::exp;
using std::log;

// The elements of a row's head.
template <typename T, typename Number>
struct Head {
    const std::byte* first;
    int64_t step;  // bytes

    Head(const Strided& view, std::byte* const* address, int64_t row, int64_t head)
        : first(view.at(address, row, head)), step(view.step[2] * view.item) {}
    Number operator[](int64_t d) const { return to_f64(load_element<T>(first + d * step)); }
};

void store(const Strided& view, std::byte* const* address, int64_t i, int64_t j, int64_t k, double value) {
    store_f64(view.dtype, view.at(address, i, j, k), value);
}

// Σ a[d] · b[d]; a mistake may leave a part out, or count it twice
template <typename T, typename Number>
Number dot(const Head<T, Number>& a, const Head<T, Number>& b, int64_t n, const Mistake& wrong, int part) {
    Sum<Number> sum{};
    if (!wrong.is(part))
        for (int64_t d = 0; d < n; ++d) sum += a[d] * b[d];
    else
        for (int64_t d = 0; d < n; ++d)
            for (int times = wrong.times(part, d); times > 0; --times) sum += a[d] * b[d];
    return sum;
}

// The key's head of a query's.
int64_t key_head_of(const Problem& e, int64_t head, const Mistake& wrong) {
    return wrong.is(kOtherHead) ? head % e.key_heads : head / e.group;
}

// Calls f(n, key, place) for every key that a row sees, n counting them; place: among all of the chosen blocks.
template <typename F>
int64_t each_key(const Problem& e, const Mistake& wrong, const Strided& topk, std::byte* const* address, int64_t row,
                 int64_t key_head, const F& f) {
    const int64_t later = wrong.is(kCausalBefore) ? -1 : wrong.is(kCausalAfter) ? 1 : 0;
    const Sequence* sequence = e.sequences.data();
    while (row >= sequence->query_end) ++sequence;
    int64_t n = 0;
    for (int64_t c = 0; c < e.count; ++c) {
        const int64_t block = topk.index(address, row, key_head, c);
        for (int64_t r = 0; r < e.size; ++r) {
            const int64_t j = block * e.size + r;  // inside the sequence
            if (j < 0 || j >= sequence->key_end - sequence->key_begin) continue;
            if (e.causal && j > row - sequence->query_begin + later) continue;
            const int64_t place = c * e.size + r;
            for (int times = wrong.times(kPartOfKeys, place); times > 0; --times)
                f(n++, sequence->key_begin + j, place);
        }
    }
    return n;
}

template <typename T, typename Number>
void forward(const Problem& e, const Mistake& wrong, const GoldenForward& v, std::byte* const* address, int64_t row,
             int64_t head, Number* scores) {
    const int64_t kh = key_head_of(e, head, wrong);
    const double scale = wrong.is(kNoInnerScale) ? 1 : e.scale;
    auto* const out = reinterpret_cast<Sum<Number>*>(scores + most_keys(e, wrong));
    const Head<T, Number> query(v.query, address, row, head);
    Number max = -HUGE_VAL;
    const int64_t n = each_key(e, wrong, v.topk, address, row, kh, [&](int64_t i, int64_t key, int64_t) {
        scores[i] = scale * dot(query, {v.key, address, key, kh}, e.depth, wrong, kPartOfDepth);
        if (!(value_of(scores[i]) <= value_of(max)) && !std::isnan(value_of(max))) max = scores[i];
    });
    if (n == 0) max = Number{};
    Sum<Number> total{};
    each_key(e, wrong, v.topk, address, row, kh, [&](int64_t i, int64_t, int64_t place) {
        scores[i] = exp(scores[i] - max);
        for (int times = wrong.times(kPartOfSum, place); times > 0; --times) total += scores[i];
    });
    if (wrong.is(kAddedToSum)) total += Number(wrong.amount);
    const Number sum = total;
    std::fill(out, out + e.value_depth, Sum<Number>{});
    each_key(e, wrong, v.topk, address, row, kh, [&](int64_t i, int64_t key, int64_t place) {
        const Number p = wrong.is(kNotDivided) ? scores[i] : scores[i] / sum;
        const Head<T, Number> value(v.value, address, key, kh);
        for (int times = wrong.times(kPartOfProduct, place); times > 0; --times)
            for (int64_t d = 0; d < e.value_depth; ++d) out[d] += p * value[d];
    });
    for (int64_t d = 0; d < e.value_depth; ++d) store(v.out, address, row, head, d, result_of(Number(out[d])));
    const Number stored = wrong.is(kLogOfSum) ? log(sum) : wrong.is(kLogSumExp) ? max + log(sum) : sum;
    for (int64_t copy = 0; copy < kCopies; ++copy) {
        store(v.max, address, row, head, copy, result_of(max));
        store(v.sum, address, row, head, copy, result_of(stored));
    }
}

// Where a row and head have their part of a stage.
int64_t place(const Problem& e, const GoldenStage& stage, int64_t row, int64_t head) {
    return (row - stage.begin) * e.group + head - stage.key_head * e.group;
}

template <typename T, typename Number>
void grad_head(const Problem& e, const Mistake& wrong, const GoldenGrad& v, std::byte* const* address,
               const GoldenStage& stage, int64_t row, int64_t head, Sum<Number>* dq) {
    const double inner = wrong.is(kNoInnerScale)      ? 1
                         : wrong.is(kTimesInnerScale) ? e.scale * wrong.amount
                                                      : e.scale,
                 outer = wrong.is(kNoOuterScale) ? 1 : e.scale;
    const int64_t kh = stage.key_head, at = place(e, stage, row, head);
    Number* const p = reinterpret_cast<Number*>(stage.p) + at * most_keys(e, wrong);
    Number* const ds = reinterpret_cast<Number*>(stage.ds) + at * most_keys(e, wrong);
    const Number max = load_f64(v.max.dtype, v.max.at(address, row, head));
    const Number sum = load_f64(v.sum.dtype, v.sum.at(address, row, head));
    const Head<T, Number> query(v.query, address, row, head), out_grad(v.out_grad, address, row, head);
    Sum<Number> products{};
    int64_t n = each_key(e, wrong, v.topk, address, row, kh, [&](int64_t i, int64_t key, int64_t) {
        const Number score = dot(query, {v.key, address, key, kh}, e.depth, wrong, kPartOfDepth);
        p[i] = wrong.is(kNotDivided) ? exp(inner * score - max) : exp(inner * score - max) / sum;
        ds[i] = dot(out_grad, {v.value, address, key, kh}, e.value_depth, wrong, kPartOfValueDepth);  // dP so far
        products += p[i] * ds[i];
    });
    Number delta = products;
    if (value_of(sum) == 0) n = 0;
    if (v.with_out && n > 0) delta = dot(out_grad, {v.out, address, row, head}, e.value_depth, wrong, kPartOfDelta);
    stage.seen[at] = n;
    std::fill(dq, dq + e.depth, Sum<Number>{});
    if (n > 0)
        each_key(e, wrong, v.topk, address, row, kh, [&](int64_t i, int64_t key, int64_t place) {
            ds[i] = wrong.is(kNoP) ? ds[i] - delta : p[i] * (ds[i] - delta);
            const Head<T, Number> keys(v.key, address, key, kh);
            for (int times = wrong.times(kPartOfProduct, place); times > 0; --times)
                for (int64_t d = 0; d < e.depth; ++d) dq[d] += outer * ds[i] * keys[d];
        });
    for (int64_t d = 0; d < e.depth; ++d) store(v.query_grad, address, row, head, d, result_of(Number(dq[d])));
}

template <typename T, typename Number>
void grad_columns(const Problem& e, const Mistake& wrong, const GoldenGrad& v, std::byte* const* address,
                  const GoldenStage& stage, int64_t begin, int64_t end) {
    const double outer = wrong.is(kNoOuterScale) ? 1 : e.scale;
    const int64_t kh = stage.key_head;
    auto* const sums = reinterpret_cast<Sum<Number>*>(stage.sums);
    for (int64_t row = stage.begin; row < stage.end; ++row)
        for (int64_t head = kh * e.group; head < (kh + 1) * e.group; ++head) {
            const int64_t at = place(e, stage, row, head);
            if (stage.seen[at] == 0) continue;
            const Number* const p = reinterpret_cast<const Number*>(stage.p) + at * most_keys(e, wrong);
            const Number* const ds = reinterpret_cast<const Number*>(stage.ds) + at * most_keys(e, wrong);
            const Head<T, Number> query(v.query, address, row, head), out_grad(v.out_grad, address, row, head);
            const auto add = [&](int64_t i, int64_t key, int64_t) {
                Sum<Number>* const sum = sums + key * (e.depth + e.value_depth);
                for (int64_t d = begin; d < std::min(end, e.depth); ++d) sum[d] += outer * ds[i] * query[d];
                for (int64_t d = std::max(begin, e.depth); d < end; ++d) sum[d] += p[i] * out_grad[d - e.depth];
            };
            const int times = wrong.times(kPartOfRows, row) * wrong.times(kPartOfGroup, head - kh * e.group);
            for (int n = times; n > 0; --n) each_key(e, wrong, v.topk, address, row, kh, add);
        }
}

template <typename Number>
void grad_store(const Problem& e, const GoldenGrad& v, std::byte* const* address, const GoldenStage& stage,
                int64_t key) {
    const auto* const sum = reinterpret_cast<const Sum<Number>*>(stage.sums) + key * (e.depth + e.value_depth);
    for (int64_t d = 0; d < e.depth; ++d) store(v.key_grad, address, key, stage.key_head, d, result_of(Number(sum[d])));
    for (int64_t d = 0; d < e.value_depth; ++d)
        store(v.value_grad, address, key, stage.key_head, d, result_of(Number(sum[e.depth + d])));
}

}  // namespace

void golden_forward(const Problem& e, const Golden& how, const GoldenForward& views, std::byte* const* address,
                    int64_t row, int64_t head, std::byte* numbers) noexcept {
    visit_golden(e.dtype, how.precision, [&]<typename T, typename Number>(T, Number) {
        forward<T>(e, how.mistake, views, address, row, head, reinterpret_cast<Number*>(numbers));
    });
}

void golden_grad_row(const Problem& e, const Golden& how, const GoldenGrad& views, std::byte* const* address,
                     const GoldenStage& stage, int64_t row, std::byte* numbers) noexcept {
    visit_golden(e.dtype, how.precision, [&]<typename T, typename Number>(T, Number) {
        for (int64_t head = stage.key_head * e.group; head < (stage.key_head + 1) * e.group; ++head)
            grad_head<T, Number>(e, how.mistake, views, address, stage, row, head,
                                 reinterpret_cast<Sum<Number>*>(numbers));
    });
}

void golden_grad_columns(const Problem& e, const Golden& how, const GoldenGrad& views, std::byte* const* address,
                         const GoldenStage& stage, int64_t begin, int64_t end) noexcept {
    visit_golden(e.dtype, how.precision, [&]<typename T, typename Number>(T, Number) {
        grad_columns<T, Number>(e, how.mistake, views, address, stage, begin, end);
    });
}

void golden_grad_store(const Problem& e, const Golden& how, const GoldenGrad& views, std::byte* const* address,
                       const GoldenStage& stage, int64_t key) noexcept {
    visit_golden(e.dtype, how.precision,
                 [&]<typename T, typename Number>(T, Number) { grad_store<Number>(e, views, address, stage, key); });
}

}  // namespace gradus::nsa_selected_attention
