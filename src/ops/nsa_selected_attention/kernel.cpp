#include "ops/nsa_selected_attention/kernel.h"

#include <cmath>
#include <cstring>
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

// x rounded to T, still in f32.
template <typename T>
HWY_INLINE Pair rounded(Pair x) {
    if constexpr (std::is_same_v<T, bf16>) {
        const hn::RebindToUnsigned<F32> du;
        const auto high = [&](V32 v) HWY_ATTR {
            return hn::BitCast(F32(), hn::And(round_to_bf16<NaNs::any>(v), hn::Set(du, 0xFFFF0000u)));
        };
        return {high(x.first), high(x.second)};
    } else {
        HWY_ALIGN T narrow[2 * HWY_MAX_BYTES / sizeof(float)];
        store_ordered(narrow, x);
        return load_ordered(narrow);
    }
}

// Results of scores: in 16 bits, or as wide as they came.
template <typename T, bool kWide, typename P>
HWY_INLINE void put(void* to, int64_t i, P part, Pair x) {
    if constexpr (kWide)
        store(static_cast<float*>(to) + i, part, rounded<T>(x));
    else
        store_ordered(static_cast<T*>(to) + i, part, x);
}

// A later maximum drops a NaN, which is looked for beside it.
template <typename T, bool kWide>
Softmax softmax_row(const float* s, std::span<const VisibleKeys> keys, float scale, void* e) noexcept {
    const float lowest = -std::numeric_limits<float>::infinity();
    const Pair by = set_pair(scale), none = set_pair(lowest), zero = set_pair(0.0f);
    Pair top = none;
    auto nan = hn::IsNaN(none.first);
    for (const VisibleKeys& block : keys)
        each_pair(block.n, [&](int64_t i, auto part) HWY_ATTR {
            const Pair x = fill_up<float>(part, load(s + block.at + i, part) * by, none);
            nan = hn::Or(nan, hn::Or(hn::IsNaN(x.first), hn::IsNaN(x.second)));
            top = max_or_nan(top, x);
        });
    const float largest = max_of(top);
    const Pair max = set_pair(largest), unlift = set_pair(0x1p-64f);
    Sum sum;
    const int64_t chain = 8 * static_cast<int64_t>(pair_lanes());
    for (const VisibleKeys& block : keys)
        for (int64_t at = block.at, end = block.at + block.n; at < end; at += chain) {
            Pair some = zero;  // at most 8 terms a lane, and only then what an addition loses is looked after
            each_pair(HWY_MIN(chain, end - at), [&](int64_t i, auto part) HWY_ATTR {
                const Pair x = exp_lifted(load(s + at + i, part) * by - max) * unlift;
                some = some + fill_up<float>(part, x, zero);
                put<T, kWide>(e, at + i, part, x);
            });
            sum.add(some);
        }
    const bool any = !hn::AllFalse(F32(), nan);
    return {any ? std::numeric_limits<float>::quiet_NaN() : largest, sum.value()};
}

// exp(scale·s − max)/sum at column i. Where 1/sum is an ordinary number it is a product: a division takes as long as
// all the rest.
template <bool kOrdinary>
struct Probability {
    const float* s;
    Pair scale, max, sum;

    HWY_INLINE Probability(const BlockScores& b, int64_t g)
        : s(b.s + g * b.stride),
          scale(set_pair(b.scale)),
          max(set_pair(b.max[g])),
          sum(set_pair(kOrdinary ? 1 / b.sum[g] : b.sum[g])) {}
    template <typename P>
    HWY_INLINE Pair at(int64_t i, P part) const {
        const Pair e = exp(load(s + i, part) * scale - max);
        return kOrdinary ? e * sum : e / sum;
    }
};

HWY_INLINE bool ordinary(float sum) { return std::fabs(sum) > 0x1p-100f && std::fabs(sum) < 0x1p100f; }

// A head's P and dS; returns Σ P. dS is rounded once, into what is kept, and copied from there.
template <typename T, bool kWide, bool kOrdinary>
HWY_INLINE float differentiate_head(const BlockScores& b, int64_t g) {
    const Probability<kOrdinary> probability(b, g);
    const Pair delta = set_pair(b.delta[g]), zero = set_pair(0.0f);
    const float* const dp = b.dp + g * b.stride;
    T* const kept = static_cast<T*>(b.kept) + g * b.stride;
    Pair sum = zero;
    each_pair(b.keys, [&](int64_t i, auto part) HWY_ATTR {
        const Pair p = probability.at(i, part);
        sum = sum + fill_up<float>(part, p, zero);
        store_ordered(kept + i, part, p * (load(dp + i, part) - delta));
        put<T, kWide>(b.p, g * b.stride + i, part, p);
        if constexpr (kWide) store(static_cast<float*>(b.ds) + g * b.stride + i, part, load_ordered(kept + i, part));
    });
    if constexpr (!kWide) std::memcpy(static_cast<T*>(b.ds) + g * b.stride, kept, static_cast<size_t>(b.keys) * 2);
    return sum_of(sum);
}

template <typename T, bool kWide>
void differentiate(const BlockScores& b) noexcept {
    constexpr int64_t kItem = kWide ? 4 : 2;
    for (int64_t g = 0; g < b.heads; ++g) {
        if (b.sum[g] == 0) {
            for (void* const to : {b.p, b.ds})
                std::memset(static_cast<std::byte*>(to) + g * b.stride * kItem, 0, static_cast<size_t>(b.keys * kItem));
            std::memset(static_cast<T*>(b.kept) + g * b.stride, 0, static_cast<size_t>(b.keys) * 2);
            b.sums[g] = 0;
        } else {
            b.sums[g] = ordinary(b.sum[g]) ? differentiate_head<T, kWide, true>(b, g)
                                           : differentiate_head<T, kWide, false>(b, g);
        }
    }
}

template <bool kOrdinary>
HWY_INLINE float weigh_head(const BlockScores& b, int64_t g) {
    const Probability<kOrdinary> probability(b, g);
    const float* const dp = b.dp + g * b.stride;
    Sum sum;
    each_pair(b.keys, [&](int64_t i, auto part) HWY_ATTR {
        sum.add(fill_up<float>(part, probability.at(i, part) * load(dp + i, part), set_pair(0.0f)));
    });
    return sum.value();
}
void weigh(const BlockScores& b) noexcept {
    for (int64_t g = 0; g < b.heads; ++g)
        b.sums[g] = b.sum[g] == 0 ? 0 : ordinary(b.sum[g]) ? weigh_head<true>(b, g) : weigh_head<false>(b, g);
}

template <typename T>
float dot_row(const void* a, const void* b, int64_t n) noexcept {
    Sum sum;
    each_pair(n, [&](int64_t i, auto part) HWY_ATTR {
        sum.add(load(static_cast<const T*>(a) + i, part) * load(static_cast<const T*>(b) + i, part));
    });
    return sum.value();
}

template <typename T>
void widen(const void* from, int64_t n, float* to) noexcept {
    each_pair(n, [&](int64_t i, auto part)
                     HWY_ATTR { store(to + i, part, load_ordered(static_cast<const T*>(from) + i, part)); });
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

template <typename T, bool kWide>
RowFunctions rows_of_type() {
    return {&softmax_row<T, kWide>, &differentiate<T, kWide>, &weigh, &dot_row<T>, &widen<T>, &add_row, &finish_row<T>};
}
RowFunctions rows_for(DType dtype, bool wide) {
    if (dtype == DType::f16) return wide ? rows_of_type<f16, true>() : rows_of_type<f16, false>();
    return wide ? rows_of_type<bf16, true>() : rows_of_type<bf16, false>();
}

}  // namespace HWY_NAMESPACE
}  // namespace gradus::nsa_selected_attention
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradus::nsa_selected_attention {

HWY_EXPORT(rows_for);

RowFunctions choose_rows(DType dtype, bool wide, Isa cap) { return GRADUS_CHOOSE(rows_for, cap)(dtype, wide); }

}  // namespace gradus::nsa_selected_attention
#endif
