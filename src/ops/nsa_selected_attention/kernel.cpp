#include "ops/nsa_selected_attention/kernel.h"

#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/nsa_selected_attention/kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simd/dispatch.h"
#include "simd/math-inl.h"
#include "simd/order-inl.h"
#include "simd/reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradus::nsa_selected_attention {
namespace HWY_NAMESPACE {
using namespace gradus::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace)

template <typename F>
HWY_INLINE void each_score(Stretches stretches, const F& f) {
    for (const Stretch& stretch : stretches)
        each_pair(stretch.n, [&](int64_t i, auto part) HWY_ATTR { f(stretch.at + i, part); });
}

// Max drops a NaN, which makes the sum NaN; only then is the row searched for it.
template <typename T>
Softmax softmax_row(const float* s, Stretches stretches, float scale, void* e) noexcept {
    const float lowest = -std::numeric_limits<float>::infinity();
    const Pair by = set_pair(scale);
    Pair top = set_pair(lowest);
    each_score(stretches, [&](int64_t i, auto part) HWY_ATTR {
        const Pair x = fill_up<float>(part, load(s + i, part) * by, set_pair(lowest));
        top = {hn::Max(top.first, x.first), hn::Max(top.second, x.second)};
    });
    const float largest = max_of(top);
    Sum sum;
    each_score(stretches, [&](int64_t i, auto part) HWY_ATTR {
        const Pair x = exp(load(s + i, part) * by - set_pair(largest));
        sum.add(fill_up<float>(part, x, set_pair(0.0f)));
        store_ordered(static_cast<T*>(e) + i, part, x);
    });
    Softmax result{largest, sum.value()};
    if (std::isnan(result.sum))
        for (const Stretch& stretch : stretches)
            for (int64_t i = stretch.at; i < stretch.at + stretch.n; ++i)
                if (std::isnan(s[i] * scale)) result.max = s[i] * scale;
    return result;
}

Sums probabilities_row(float* s, const float* dp, Stretches stretches, float scale, Softmax given) noexcept {
    const Pair by = set_pair(scale), max = set_pair(given.max), sum = set_pair(given.sum), zero = set_pair(0.0f);
    Sum all, products;
    each_score(stretches, [&](int64_t i, auto part) HWY_ATTR {
        const Pair p = fill_up<float>(part, exp(load(s + i, part) * by - max) / sum, zero);
        all.add(p);
        products.add(fill_up<float>(part, p * load(dp + i, part), zero));
        store(s + i, part, p);
    });
    return {all.value(), products.value()};
}

template <typename T>
void gradient_row(const float* p, const float* dp, Stretches stretches, float delta, void* ds, void* p_half) noexcept {
    each_score(stretches, [&](int64_t i, auto part) HWY_ATTR {
        const Pair x = load(p + i, part);
        store_ordered(static_cast<T*>(ds) + i, part, x * (load(dp + i, part) - set_pair(delta)));
        if (p_half != nullptr) store_ordered(static_cast<T*>(p_half) + i, part, x);
    });
}

template <typename T>
float dot_row(const void* a, const void* b, int64_t n) noexcept {
    Sum sum;
    each_pair(n, [&](int64_t i, auto part) HWY_ATTR {
        sum.add(load(static_cast<const T*>(a) + i, part) * load(static_cast<const T*>(b) + i, part));
    });
    return sum.value();
}

void add_row(double* HWY_RESTRICT total, const float* HWY_RESTRICT c, int64_t n, bool begun) noexcept {
    if (begun)
        for (int64_t i = 0; i < n; ++i) total[i] += static_cast<double>(c[i]);
    else
        for (int64_t i = 0; i < n; ++i) total[i] = static_cast<double>(c[i]);
}

template <typename T>
void finish_row(const double* total, int64_t n, double factor, void* to) noexcept {
    constexpr int64_t kRun = 64;
    HWY_ALIGN float narrow[kRun];
    for (int64_t i = 0; i < n; i += kRun) {
        const int64_t run = HWY_MIN(kRun, n - i);
        for (int64_t k = 0; k < run; ++k)  // + 0: nothing times a negative scale is 0 still, not -0
            narrow[k] = static_cast<float>(total[i + k] * factor + 0.0);
        each_pair(run, [&](int64_t k, auto part)
                           HWY_ATTR { store_ordered(static_cast<T*>(to) + i + k, part, load(narrow + k, part)); });
    }
}

template <typename T>
RowFunctions rows_of_type() {
    return {&softmax_row<T>, &probabilities_row, &gradient_row<T>, &dot_row<T>, &add_row, &finish_row<T>};
}
RowFunctions rows_for(DType dtype) { return dtype == DType::f16 ? rows_of_type<f16>() : rows_of_type<bf16>(); }

}  // namespace HWY_NAMESPACE
}  // namespace gradus::nsa_selected_attention
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradus::nsa_selected_attention {

HWY_EXPORT(rows_for);

RowFunctions choose_rows(DType dtype, Isa cap) { return GRADUS_CHOOSE(rows_for, cap)(dtype); }

}  // namespace gradus::nsa_selected_attention
#endif
