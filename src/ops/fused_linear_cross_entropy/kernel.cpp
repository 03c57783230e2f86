#include "ops/fused_linear_cross_entropy/kernel.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/fused_linear_cross_entropy/kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simd/dispatch.h"
#include "simd/math-inl.h"
#include "simd/order-inl.h"
#include "simd/reduce-inl.h"
#include "simd/stream-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradus::fused_linear_cross_entropy {
namespace HWY_NAMESPACE {
using namespace gradus::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace)

// Lanes behind a tail do not count: `rest` instead.
HWY_INLINE Pair behind(Full, Pair v, float) { return v; }
HWY_INLINE Pair behind(Part part, Pair v, float rest) {
    HWY_ALIGN float whole[2 * HWY_MAX_BYTES / sizeof(float)];
    store_pair(whole, v);
    for (int64_t i = part.count; i < static_cast<int64_t>(pair_lanes()); ++i) whole[i] = rest;
    return load_pair(whole);
}

// A row is at most a block long: chains of a few dozen additions. A logit that is NaN makes the sum NaN; only then is
// the row searched for it, because a later maximum drops it.
void stats_row(const float* logits, int64_t n, float* max, float* sum) noexcept {
    const float lowest = -std::numeric_limits<float>::infinity();
    Pair top = set_pair(lowest);
    each_pair(n, [&](int64_t i, auto part) HWY_ATTR {
        const Pair x = behind(part, load(logits + i, part), lowest);
        top = max_or_nan(top, x);
    });
    const float largest = max_of(top);
    Pair total = set_pair(0.0f);
    each_pair(n, [&](int64_t i, auto part) HWY_ATTR {
        total = total + behind(part, exp_faded(load(logits + i, part) - set_pair(largest)), 0.0f);
    });
    *max = largest;
    *sum = hn::GetLane(hn::SumOfLanes(F32(), hn::Add(total.first, total.second)));
    if (!std::isnan(*sum)) return;
    if (largest == lowest) *sum = 0;  // −inf − −inf: nothing, if another block has a larger one
    for (int64_t i = 0; i < n; ++i)
        if (std::isnan(logits[i])) *max = *sum = logits[i];
}

// g of a row; `softmax` makes p of what is loaded. The hit is computed like all others, alone.
template <typename T, typename Softmax>
HWY_INLINE void gradient_rows(const float* from, int64_t n, const Token& token, T* g, const Softmax& softmax) {
    const Pair grad = set_pair(token.grad);
    each_pair(n,
              [&](int64_t i, auto part) HWY_ATTR { store_ordered(g + i, part, softmax(load(from + i, part)) * grad); });
    if (token.hit < 0 || token.hit >= n) return;
    store_ordered(g + token.hit, Part{1}, (softmax(set_pair(from[token.hit])) - set_pair(1.0f)) * grad);
}

template <typename T>
void gradient_row(const float* logits, int64_t n, const Token& token, void* g) noexcept {
    const Pair max = set_pair(token.max), sum = set_pair(token.sum);
    gradient_rows(logits, n, token, static_cast<T*>(g), [&](Pair x) HWY_ATTR { return exp(x - max) / sum; });
}

template <typename T>
void gradient_given_row(const float* softmax, int64_t n, const Token& token, void* g) noexcept {
    gradient_rows(softmax, n, token, static_cast<T*>(g), [](Pair p) HWY_ATTR { return p; });
}

template <typename T>
void round_row(const float* values, int64_t n, void* to) noexcept {
    each_pair(n, [&](int64_t i, auto part)
                     HWY_ATTR { store_ordered(static_cast<T*>(to) + i, part, load(values + i, part)); });
}

void add_row(float* to, const float* from, int64_t n) noexcept {
    each_pair(n,
              [&](int64_t i, auto part) HWY_ATTR { store(to + i, part, load(to + i, part) + load(from + i, part)); });
}

// Beyond this distance exp is 0 in f32.
constexpr float kFarthest = 104;

HWY_INLINE void store_steps(uint16_t* to, Pair v) {
    const F32 d;
    const hn::Rebind<uint16_t, F32> d16;
    hn::StoreU(hn::DemoteTo(d16, hn::NearestInt(v.first)), d16, to);
    hn::StoreU(hn::DemoteTo(d16, hn::NearestInt(v.second)), d16, to + hn::Lanes(d));
}
HWY_INLINE Pair load_steps(const uint16_t* from) {
    const F32 d;
    const hn::RebindToSigned<F32> di;
    const hn::Rebind<uint16_t, F32> d16;
    return {hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d16, from))),
            hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d16, from + hn::Lanes(d))))};
}
HWY_INLINE void store_steps(uint16_t* to, Full, Pair v) { store_steps(to, v); }
HWY_INLINE Pair load_steps(const uint16_t* from, Full) { return load_steps(from); }
HWY_INLINE void store_steps(uint16_t* to, Part part, Pair v) {
    HWY_ALIGN uint16_t whole[2 * HWY_MAX_BYTES / sizeof(float)];
    store_steps(whole, v);
    std::memcpy(to, whole, static_cast<size_t>(part.count) * sizeof(uint16_t));
}
HWY_INLINE Pair load_steps(const uint16_t* from, Part part) {
    HWY_ALIGN uint16_t whole[2 * HWY_MAX_BYTES / sizeof(float)] = {};
    std::memcpy(whole, from, static_cast<size_t>(part.count) * sizeof(uint16_t));
    return load_steps(whole);
}

// What a NaN leaves here does not matter: it is in the row's sum.
HWY_INLINE Pair smaller(Pair a, Pair b) { return {hn::Min(a.first, b.first), hn::Min(a.second, b.second)}; }

// Of a block of −inf alone, −inf it is again, whatever the steps.
Scale scale_row(const float* logits, int64_t n, float top) noexcept {
    Pair least = set_pair(top);
    each_pair(
        n, [&](int64_t i, auto part) HWY_ATTR { least = smaller(behind(part, load(logits + i, part), top), least); });
    const float range = top + max_of(set_pair(0) - least);
    return {top, (range < kFarthest ? range : kFarthest) / Scale::kSteps};
}

void keep_row(const float* logits, int64_t n, const Scale& scale, uint16_t* to) noexcept {
    constexpr float kNone = 1e-30F;  // such a step is not worth one
    const Pair from = set_pair(scale.top), by = set_pair(scale.step > kNone ? 1 / scale.step : 0.0F);
    const Pair most = set_pair(Scale::kSteps);
    each_pair(n, [&](int64_t i, auto part)
                     HWY_ATTR { store_steps(to + i, part, smaller((from - load(logits + i, part)) * by, most)); });
}

void restore_row(const uint16_t* kept, int64_t n, const Scale& scale, float* logits) noexcept {
    const Pair from = set_pair(scale.top), by = set_pair(scale.step);
    each_pair(n,
              [&](int64_t i, auto part) HWY_ATTR { store(logits + i, part, from - load_steps(kept + i, part) * by); });
}

template <bool kPast, typename T>
HWY_INLINE void softmax_elements(const T* logits, int64_t n, Pair max, Pair sum, float* softmax) {
    each_result<kPast>(n, std::array{softmax}, [=](int64_t i, auto part, const auto& to) HWY_ATTR {
        if constexpr (kPast) fetch_ahead(logits + i);
        to.template put<0>(i, part, exp(load_ordered(logits + i, part) - max) / sum);
    });
}
template <typename T>
void softmax_row(const void* logits, int64_t n, float max, float sum, float* softmax, bool past) noexcept {
    const auto row = past ? softmax_elements<true, T> : softmax_elements<false, T>;
    row(static_cast<const T*>(logits), n, set_pair(max), set_pair(sum), softmax);
}

RowFunctions rows_for(DType dtype) {
    if (dtype == DType::f16)
        return {&stats_row, &gradient_row<f16>, &gradient_given_row<f16>, &round_row<f16>, &add_row, &scale_row,
                &keep_row,  &restore_row};
    return {&stats_row, &gradient_row<bf16>, &gradient_given_row<bf16>, &round_row<bf16>, &add_row, &scale_row,
            &keep_row,  &restore_row};
}
SoftmaxRow softmax_for(DType dtype) {
    return visit_float(dtype, []<typename T>(T) -> SoftmaxRow { return &softmax_row<T>; });
}

}  // namespace HWY_NAMESPACE
}  // namespace gradus::fused_linear_cross_entropy
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradus::fused_linear_cross_entropy {

HWY_EXPORT(rows_for);
HWY_EXPORT(softmax_for);

RowFunctions choose_rows(DType dtype, Isa cap) { return GRADUS_CHOOSE(rows_for, cap)(dtype); }
SoftmaxRow choose_softmax(DType dtype, Isa cap) { return GRADUS_CHOOSE(softmax_for, cap)(dtype); }

}  // namespace gradus::fused_linear_cross_entropy
#endif
