// Pairs in double, and pairs that end in the middle. Which element is in which lane of a pair depends on the type: here
// is where one may ask.
#if defined(GRADUS_SIMD_WIDE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADUS_SIMD_WIDE_INL_H_
#undef GRADUS_SIMD_WIDE_INL_H_
#else
#define GRADUS_SIMD_WIDE_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradus {
namespace HWY_NAMESPACE {

// Where element e of an array is, once its pairs are stored as f32 one after the other.
template <typename T>
HWY_INLINE int64_t lane_of(int64_t e) {
    if constexpr (!std::is_same_v<T, bf16>) return e;
    const auto n = static_cast<int64_t>(pair_lanes());
    const int64_t begin = e / n * n, in_pair = e - begin;
    return begin + in_pair % 2 * (n / 2) + in_pair / 2;
}

// How many lanes of each vector of a pair its first n elements are; n ≤ pair_lanes().
struct LaneCount {
    size_t first, second;
};
template <typename T>
HWY_INLINE LaneCount lanes_of_first(int64_t n) {
    const auto count = static_cast<size_t>(n), lanes = hn::Lanes(F32());
    if constexpr (std::is_same_v<T, bf16>) return {(count + 1) / 2, count / 2};
    return {std::min(count, lanes), count - std::min(count, lanes)};
}

// A window into this is a mask of the first lanes: one load, where FirstN takes a broadcast and a comparison each.
inline constexpr size_t kMostLanes = HWY_MAX_BYTES / sizeof(float);
template <typename Int>
struct LaneMasks {
    alignas(64) Int window[2 * kMostLanes];
    constexpr LaneMasks() : window() {
        for (size_t i = 0; i < kMostLanes; ++i) window[i] = -1;
    }
    // Lane 0 of what is `count` lanes long.
    const Int* of(size_t count) const { return window + kMostLanes - count; }
};
inline constexpr LaneMasks<int32_t> kMasks32;
inline constexpr LaneMasks<int64_t> kMasks64;

template <class D, typename Int>
HWY_INLINE hn::Mask<D> mask_at(D d, const Int* window) {
    return hn::MaskFromVec(hn::BitCast(d, hn::LoadU(hn::RebindToSigned<D>(), window)));
}

// The first n elements; the others become 0, whatever they are.
template <typename T>
HWY_INLINE Pair first_elements(Pair v, int64_t n) {
    const F32 d;
    const LaneCount count = lanes_of_first<T>(n);
    return {hn::IfThenElseZero(mask_at(d, kMasks32.of(count.first)), v.first),
            hn::IfThenElseZero(mask_at(d, kMasks32.of(count.second)), v.second)};
}

using F64 = hn::ScalableTag<double>;
using V64 = hn::Vec<F64>;

// The lanes of a pair in double, in their order.
struct Wide {
    V64 part[4];
};

HWY_INLINE Wide set_wide(double x) {
    const V64 v = hn::Set(F64(), x);
    return {{v, v, v, v}};
}
HWY_INLINE Wide operator+(const Wide& a, const Wide& b) {
    return {{hn::Add(a.part[0], b.part[0]), hn::Add(a.part[1], b.part[1]), hn::Add(a.part[2], b.part[2]),
             hn::Add(a.part[3], b.part[3])}};
}

HWY_INLINE Wide operator*(const Wide& a, const Wide& b) {
    return {{hn::Mul(a.part[0], b.part[0]), hn::Mul(a.part[1], b.part[1]), hn::Mul(a.part[2], b.part[2]),
             hn::Mul(a.part[3], b.part[3])}};
}

#if HWY_TARGET == HWY_SCALAR

// One lane is one lane: a pair fills two parts. (Highway's own DemoteTo stops at the largest number.)
HWY_INLINE Wide widen(Pair v) {
    const F64 d;
    return {{hn::PromoteTo(d, v.first), hn::PromoteTo(d, v.second), hn::Zero(d), hn::Zero(d)}};
}
HWY_INLINE Pair narrow(const Wide& v) {
    const F32 d;
    return {hn::Set(d, static_cast<float>(hn::GetLane(v.part[0]))),
            hn::Set(d, static_cast<float>(hn::GetLane(v.part[1])))};
}
HWY_INLINE Wide load_wide(const double* from) {
    const F64 d;
    return {{hn::LoadU(d, from), hn::LoadU(d, from + 1), hn::Zero(d), hn::Zero(d)}};
}
HWY_INLINE void store_wide(double* to, const Wide& v) {
    const F64 d;
    hn::StoreU(v.part[0], d, to);
    hn::StoreU(v.part[1], d, to + 1);
}
template <typename T>
HWY_INLINE Wide first_elements(const Wide& v, int64_t n, double others) {
    const F64 d;
    const V64 rest = hn::Set(d, others);
    return {{n > 0 ? v.part[0] : rest, n > 1 ? v.part[1] : rest, hn::Zero(d), hn::Zero(d)}};
}

#else

HWY_INLINE Wide widen(Pair v) {
    const F64 d;
    const hn::Half<F32> half;
    return {{hn::PromoteTo(d, hn::LowerHalf(half, v.first)), hn::PromoteTo(d, hn::UpperHalf(half, v.first)),
             hn::PromoteTo(d, hn::LowerHalf(half, v.second)), hn::PromoteTo(d, hn::UpperHalf(half, v.second))}};
}
// Rounds to nearest even; what exceeds f32 becomes infinity.
HWY_INLINE Pair narrow(const Wide& v) {
    const F32 d;
#if HWY_TARGET == HWY_EMU128  // as above
    HWY_ALIGN double wide[2 * HWY_MAX_BYTES / sizeof(float)];
    HWY_ALIGN float lanes[2 * HWY_MAX_BYTES / sizeof(float)];
    for (size_t i = 0; i < 4; ++i) hn::StoreU(v.part[i], F64(), wide + i * hn::Lanes(F64()));
    for (size_t i = 0; i < pair_lanes(); ++i) lanes[i] = static_cast<float>(wide[i]);
    return load_pair(lanes);
#endif
    const hn::Half<F32> half;
    return {hn::Combine(d, hn::DemoteTo(half, v.part[1]), hn::DemoteTo(half, v.part[0])),
            hn::Combine(d, hn::DemoteTo(half, v.part[3]), hn::DemoteTo(half, v.part[2]))};
}
HWY_INLINE Wide load_wide(const double* from) {
    const F64 d;
    const size_t n = hn::Lanes(d);
    return {{hn::LoadU(d, from), hn::LoadU(d, from + n), hn::LoadU(d, from + 2 * n), hn::LoadU(d, from + 3 * n)}};
}
HWY_INLINE void store_wide(double* to, const Wide& v) {
    const F64 d;
    for (size_t i = 0; i < 4; ++i) hn::StoreU(v.part[i], d, to + i * hn::Lanes(d));
}
// The first n elements; the others become a constant, whatever they are.
template <typename T>
HWY_INLINE Wide first_elements(const Wide& v, int64_t n, double others) {
    const F64 d;
    const V64 rest = hn::Set(d, others);
    const LaneCount count = lanes_of_first<T>(n);
    const int64_t *first = kMasks64.of(count.first), *second = kMasks64.of(count.second);
    const size_t lanes = hn::Lanes(d);
    return {{hn::IfThenElse(mask_at(d, first), v.part[0], rest),
             hn::IfThenElse(mask_at(d, first + lanes), v.part[1], rest),
             hn::IfThenElse(mask_at(d, second), v.part[2], rest),
             hn::IfThenElse(mask_at(d, second + lanes), v.part[3], rest)}};
}

#endif

// One vector that has the same sum.
#if HWY_TARGET == HWY_SCALAR
HWY_INLINE V64 widen_and_fold(V32 v) { return hn::PromoteTo(F64(), v); }
#else
HWY_INLINE V64 widen_and_fold(V32 v) {
    const F64 d;
    const hn::Half<F32> half;
    return hn::Add(hn::PromoteTo(d, hn::LowerHalf(half, v)), hn::PromoteTo(d, hn::UpperHalf(half, v)));
}
#endif
HWY_INLINE V64 fold(const Wide& v) { return hn::Add(hn::Add(v.part[0], v.part[1]), hn::Add(v.part[2], v.part[3])); }
HWY_INLINE double sum_of(V64 v) {
    const F64 d;
    return hn::GetLane(hn::SumOfLanes(d, v));
}

HWY_INLINE Wide zero_below(const Wide& v, double least) {
    const V64 low = hn::Set(F64(), least);
    return {
        {hn::IfThenElseZero(hn::Ge(v.part[0], low), v.part[0]), hn::IfThenElseZero(hn::Ge(v.part[1], low), v.part[1]),
         hn::IfThenElseZero(hn::Ge(v.part[2], low), v.part[2]), hn::IfThenElseZero(hn::Ge(v.part[3], low), v.part[3])}};
}

// max(x, 0), and NaN for NaN.
HWY_INLINE V32 positive_or_nan(V32 x) {
    const V32 zero = hn::Zero(F32());
    return hn::IfThenElse(hn::Lt(x, zero), zero, x);
}
HWY_INLINE Pair positive_or_nan(Pair x) { return {positive_or_nan(x.first), positive_or_nan(x.second)}; }

// exp(x) in f64 for x ≤ 700, within 2^-51; e^-708 below that. Taylor's series to the twelfth power, on |r| ≤ ln 2 / 2.
HWY_INLINE V64 exp_f64(V64 x) {
    const F64 d;
    const hn::RebindToSigned<F64> di;
    x = max_or_nan(x, hn::Set(d, -708.0));
    const V64 magic = hn::Set(d, 0x1.8p52 + 1023);
    const V64 shifted = hn::MulAdd(x, hn::Set(d, 0x1.71547652b82fep+0), magic);
    const V64 k = hn::Sub(shifted, magic);
    V64 r = hn::NegMulAdd(k, hn::Set(d, 0x1.62e42fee00000p-1), x);
    r = hn::NegMulAdd(k, hn::Set(d, 0x1.a39ef35793c76p-33), r);
    V64 p = hn::Set(d, 1.0 / 479001600);
    for (const double c : {1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120,
                           1.0 / 24, 1.0 / 6, 1.0 / 2, 1.0, 1.0})
        p = hn::MulAdd(p, r, hn::Set(d, c));
    return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<52>(hn::BitCast(di, shifted))));
}
HWY_INLINE Wide exp(const Wide& x) {
    return {{exp_f64(x.part[0]), exp_f64(x.part[1]), exp_f64(x.part[2]), exp_f64(x.part[3])}};
}

}  // namespace HWY_NAMESPACE
}  // namespace gradus
HWY_AFTER_NAMESPACE();

#endif  // GRADUS_SIMD_WIDE_INL_H_
