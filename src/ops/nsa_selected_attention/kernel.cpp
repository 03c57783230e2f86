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

// Max drops a NaN, which is looked for beside it.
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
            top = {hn::Max(top.first, x.first), hn::Max(top.second, x.second)};
        });
    const float largest = max_of(top);
    const Pair max = set_pair(largest);
    Sum sum;
    const int64_t chain = 8 * static_cast<int64_t>(pair_lanes());
    for (const VisibleKeys& block : keys)
        for (int64_t at = block.at, end = block.at + block.n; at < end; at += chain) {
            Pair some = zero;  // at most 8 terms a lane, and only then what an addition loses is looked after
            each_pair(HWY_MIN(chain, end - at), [&](int64_t i, auto part) HWY_ATTR {
                const Pair x = exp_lifted(load(s + at + i, part) * by - max) * set_pair(0x1p-64f);
                some = some + fill_up<float>(part, x, zero);
                put<T, kWide>(e, at + i, part, x);
            });
            sum.add(some);
        }
    const bool any = !hn::AllFalse(F32(), nan);
    return {any ? std::numeric_limits<float>::quiet_NaN() : largest, sum.value()};
}

// P is a product with 1/sum where that is an ordinary number: a division takes as long as all the rest.
struct Divisor {
    float sum, inverse;
    bool ordinary;
    explicit Divisor(float x) : sum(x), inverse(1 / x), ordinary(std::fabs(x) > 0x1p-100f && std::fabs(x) < 0x1p100f) {}
    HWY_INLINE Pair of(Pair x) const { return ordinary ? x * set_pair(inverse) : x / set_pair(sum); }
};

template <typename T, bool kWide>
void differentiate(const BlockScores& b) noexcept {
    const Pair by = set_pair(b.scale), zero = set_pair(0.0f);
    for (int64_t g = 0; g < b.heads; ++g) {
        const float *const s = b.s + g * b.stride, *const dp = b.dp + g * b.stride;
        const auto each = [&](const auto& f) HWY_ATTR {
            each_pair(b.keys, [&](int64_t i, auto part) HWY_ATTR {
                const auto [p, ds] = f(i, part);
                const int64_t at = g * b.stride + i;
                put<T, kWide>(b.p, at, part, p);
                put<T, kWide>(b.ds, at, part, ds);
                store_ordered(static_cast<T*>(b.kept) + at, part, ds);
            });
        };
        struct Both {
            Pair p, ds;
        };
        b.sums[g] = 0;
        if (b.sum[g] == 0) {
            each([&](int64_t, auto) HWY_ATTR { return Both{zero, zero}; });
            continue;
        }
        const Divisor divisor(b.sum[g]);
        const Pair max = set_pair(b.max[g]), delta = set_pair(b.delta[g]);
        Pair sum = zero;
        each([&](int64_t i, auto part) HWY_ATTR {
            const Pair p = divisor.of(exp(load(s + i, part) * by - max));
            sum = sum + fill_up<float>(part, p, zero);
            return Both{p, p * (load(dp + i, part) - delta)};
        });
        b.sums[g] = sum_of(sum);
    }
}

void weigh(const BlockScores& b) noexcept {
    const Pair by = set_pair(b.scale), zero = set_pair(0.0f);
    for (int64_t g = 0; g < b.heads; ++g) {
        const Divisor divisor(b.sum[g]);
        const Pair max = set_pair(b.max[g]);
        Sum sum;
        each_pair(b.sum[g] == 0 ? 0 : b.keys, [&](int64_t i, auto part) HWY_ATTR {
            const int64_t at = g * b.stride + i;
            const Pair p = divisor.of(exp(load(b.s + at, part) * by - max));
            sum.add(fill_up<float>(part, p * load(b.dp + at, part), zero));
        });
        b.sums[g] = sum.value();
    }
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
    return {&softmax_row<T, kWide>, &differentiate<T, kWide>, &weigh,         &dot_row<T>,
            &widen<T>,              &add_row,                 &finish_row<T>};
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
