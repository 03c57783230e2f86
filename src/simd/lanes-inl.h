// Lanes: loads widen to f32, stores round to nearest even. Kernels compute with pairs of vectors, two independent
// chains side by side: one chain alone leaves the multipliers waiting (bf16 SwiGLU gradient, AVX2: 2.0 times slower).
// Which element is in which lane of a pair depends on the type alone, so elementwise code need not ask.
#if defined(GRADUS_SIMD_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADUS_SIMD_LANES_INL_H_
#undef GRADUS_SIMD_LANES_INL_H_
#else
#define GRADUS_SIMD_LANES_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>
#include <limits>

#include "base/dtype.h"

// Highway's words for AVX-512: what it has no function for is written with intrinsics, beside a sibling for all others.
#ifndef GRADUS_AVX512
#define GRADUS_AVX512 (HWY_ARCH_X86 && HWY_TARGET < HWY_AVX2)
#endif

HWY_BEFORE_NAMESPACE();
namespace gradus {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using V32 = hn::Vec<F32>;

struct Pair {
#if HWY_ARCH_ARM  // whose vectors have constructors: an implicit one around them would have no target
    HWY_INLINE Pair() {}
    HWY_INLINE Pair(V32 a, V32 b) : first(a), second(b) {}
#endif
    V32 first, second;
};

HWY_INLINE Pair set_pair(float x) { return {hn::Set(F32(), x), hn::Set(F32(), x)}; }
HWY_INLINE Pair operator+(Pair a, Pair b) { return {hn::Add(a.first, b.first), hn::Add(a.second, b.second)}; }
HWY_INLINE Pair operator-(Pair a, Pair b) { return {hn::Sub(a.first, b.first), hn::Sub(a.second, b.second)}; }
HWY_INLINE Pair operator*(Pair a, Pair b) { return {hn::Mul(a.first, b.first), hn::Mul(a.second, b.second)}; }
HWY_INLINE Pair operator/(Pair a, Pair b) { return {hn::Div(a.first, b.first), hn::Div(a.second, b.second)}; }
// a·b + c and c − a·b, fused where the CPU can.
HWY_INLINE Pair mul_add(Pair a, Pair b, Pair c) {
    return {hn::MulAdd(a.first, b.first, c.first), hn::MulAdd(a.second, b.second, c.second)};
}
HWY_INLINE Pair mul_sub(Pair a, Pair b, Pair c) {  // a·b − c
    return {hn::MulSub(a.first, b.first, c.first), hn::MulSub(a.second, b.second, c.second)};
}
HWY_INLINE Pair neg_mul_add(Pair a, Pair b, Pair c) {
    return {hn::NegMulAdd(a.first, b.first, c.first), hn::NegMulAdd(a.second, b.second, c.second)};
}
// The larger and the smaller; b when either is NaN, or when they are zeros of any sign. That is what x86's instructions
// do; those that Highway takes elsewhere drop a NaN, and order zeros.
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
template <class V>
HWY_INLINE V max_or_nan(V a, V b) {
    return hn::Max(a, b);
}
template <class V>
HWY_INLINE V min_or_nan(V a, V b) {
    return hn::Min(a, b);
}
#else
template <class V>
HWY_INLINE V max_or_nan(V a, V b) {
    return hn::IfThenElse(hn::Gt(a, b), a, b);
}
template <class V>
HWY_INLINE V min_or_nan(V a, V b) {
    return hn::IfThenElse(hn::Lt(a, b), a, b);
}
#endif
HWY_INLINE Pair max_or_nan(Pair a, Pair b) { return {max_or_nan(a.first, b.first), max_or_nan(a.second, b.second)}; }
HWY_INLINE Pair min_or_nan(Pair a, Pair b) { return {min_or_nan(a.first, b.first), min_or_nan(a.second, b.second)}; }
HWY_INLINE Pair negative_abs(Pair a) {
    const V32 sign = hn::Set(F32(), -0.0f);
    return {hn::Or(a.first, sign), hn::Or(a.second, sign)};
}
// By the sign bit of x.
HWY_INLINE Pair if_negative(Pair x, Pair yes, Pair no) {
    return {hn::IfNegativeThenElse(x.first, yes.first, no.first),
            hn::IfNegativeThenElse(x.second, yes.second, no.second)};
}

struct PairMask {
    hn::Mask<F32> first, second;
};
HWY_INLINE Pair if_then_else(PairMask mask, Pair yes, Pair no) {
    return {hn::IfThenElse(mask.first, yes.first, no.first), hn::IfThenElse(mask.second, yes.second, no.second)};
}
HWY_INLINE Pair if_then_else_zero(PairMask mask, Pair yes) {
    return {hn::IfThenElseZero(mask.first, yes.first), hn::IfThenElseZero(mask.second, yes.second)};
}
HWY_INLINE PairMask below(Pair a, float bound) {  // NaN is not
    const V32 b = hn::Set(F32(), bound);
    return {hn::Lt(a.first, b), hn::Lt(a.second, b)};
}
HWY_INLINE bool any_of(PairMask mask) { return !hn::AllFalse(F32(), hn::Or(mask.first, mask.second)); }

HWY_INLINE V32 if_nan(V32 x, V32 yes, V32 no) { return hn::IfThenElse(hn::IsNaN(x), yes, no); }
// Every NaN as the same one, the quiet one without a sign. Which of two an operation keeps is left to the order of its
// operands, and that to the compiler: a tail may choose another one than the loop before it.
HWY_INLINE V32 one_nan(V32 x) { return if_nan(x, hn::Set(F32(), std::numeric_limits<float>::quiet_NaN()), x); }
HWY_INLINE Pair one_nan(Pair x) { return {one_nan(x.first), one_nan(x.second)}; }

// What NaNs a store into 16 bits may meet: any, of which it makes one; or those of arithmetic on 16-bit inputs, which
// end in 16 zero bits (they came in so, or the CPU made them). Adding half a unit cannot carry out of those: no need to
// look for them, 1.09 times faster in bf16 SwiGLU.
enum class NaNs { any, of_16bit_inputs };

HWY_INLINE size_t pair_lanes() { return 2 * hn::Lanes(F32()); }

HWY_INLINE Pair load_pair(const float* from) {
    const F32 d;
    return {hn::LoadU(d, from), hn::LoadU(d, from + hn::Lanes(d))};
}

template <NaNs kNaNs = NaNs::any>
HWY_INLINE void store_pair(float* to, Pair v) {
    const F32 d;
    hn::StoreU(v.first, d, to);
    hn::StoreU(v.second, d, to + hn::Lanes(d));
}

// bf16: even elements in one vector, odd ones in the other; a shift or a mask each, and no shuffle either way.
HWY_INLINE Pair load_pair(const bf16* from) {
    const F32 d;
    const hn::RebindToUnsigned<F32> du;
    const auto words = hn::LoadU(du, reinterpret_cast<const uint32_t*>(from));
    return {hn::BitCast(d, hn::ShiftLeft<16>(words)), hn::BitCast(d, hn::And(words, hn::Set(du, 0xFFFF0000u)))};
}

// A pair in 16 bits.
using Words = hn::Vec<hn::RebindToUnsigned<F32>>;

// The bf16 is left in the high half. A NaN must not round to infinity or zero.
template <NaNs kNaNs>
HWY_INLINE Words round_to_bf16(V32 value) {
    const hn::RebindToUnsigned<F32> du;
    const auto bits = hn::BitCast(du, kNaNs == NaNs::any ? one_nan(value) : value);
#if GRADUS_AVX512
    // the odd ones in a mask: three operations, not four
    const __mmask16 odd = _mm512_test_epi32_mask(bits.raw, _mm512_set1_epi32(0x10000));
    const __m512i rounded = _mm512_add_epi32(bits.raw, _mm512_set1_epi32(0x7FFF));
    return {_mm512_mask_sub_epi32(rounded, odd, rounded, _mm512_set1_epi32(-1))};
#else
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    return hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFu)));
#endif
}

template <NaNs kNaNs = NaNs::any>
HWY_INLINE Words pack_pair(const bf16*, Pair v) {
    const hn::RebindToUnsigned<F32> du;
#if HWY_TARGET == HWY_SCALAR
    const auto even = round_to_bf16<kNaNs>(v.first), odd = round_to_bf16<kNaNs>(v.second);
    return hn::Or(hn::ShiftRight<16>(even), hn::And(odd, hn::Set(du, 0xFFFF0000u)));
#else
    const hn::Repartition<uint16_t, F32> d16;
#if GRADUS_AVX512
    const auto even = round_to_bf16<kNaNs>(v.first), odd = round_to_bf16<kNaNs>(v.second);
    return hn::BitCast(du, hn::OddEven(hn::BitCast(d16, odd), hn::BitCast(d16, hn::ShiftRight<16>(even))));
#else  // both halves of a pair at once: eight operations, not ten
    if constexpr (kNaNs == NaNs::any) v = one_nan(v);
    const auto even = hn::BitCast(du, v.first), odd = hn::BitCast(du, v.second);
    const auto high = hn::OddEven(hn::BitCast(d16, odd), hn::BitCast(d16, hn::ShiftRight<16>(even)));
    const auto low = hn::OddEven(hn::BitCast(d16, hn::ShiftLeft<16>(odd)), hn::BitCast(d16, even));
    // up if low > 2^15, or equal where high is odd: one less than low, but for an odd high, reaches 2^15
    const auto up = hn::ShiftRight<15>(hn::SaturatedSub(low, hn::AndNot(high, hn::Set(d16, 1))));
    return hn::BitCast(du, hn::Add(high, up));
#endif
#endif
}

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

// Highway's own scalar conversion truncates in some versions; ours is the one the tests are measured against.
HWY_INLINE Pair load_pair(const f16* from) {
    alignas(16) float wide[2 * HWY_MAX_BYTES / sizeof(float)];
    for (size_t i = 0; i < pair_lanes(); ++i) wide[i] = static_cast<float>(to_f64(from[i]));
    return load_pair(wide);
}

template <NaNs kNaNs = NaNs::any>
HWY_INLINE Words pack_pair(const f16*, Pair v) {
    alignas(16) float wide[2 * HWY_MAX_BYTES / sizeof(float)];
    alignas(16) f16 half[2 * HWY_MAX_BYTES / sizeof(float)];
    store_pair(wide, v);
    for (size_t i = 0; i < pair_lanes(); ++i) half[i] = from_f64<f16>(wide[i]);
    return hn::LoadU(hn::RebindToUnsigned<F32>(), reinterpret_cast<const uint32_t*>(half));
}

#else

HWY_INLINE Pair load_pair(const f16* from) {
    const F32 d;
    const hn::Rebind<hwy::float16_t, F32> dh;
    const auto* half = reinterpret_cast<const hwy::float16_t*>(from);
    return {hn::PromoteTo(d, hn::LoadU(dh, half)), hn::PromoteTo(d, hn::LoadU(dh, half + hn::Lanes(d)))};
}

template <NaNs kNaNs = NaNs::any>
HWY_INLINE Words pack_pair(const f16*, Pair v) {
    const hn::Rebind<hwy::float16_t, F32> dh;
    const hn::Rebind<uint16_t, F32> d16;
    if constexpr (kNaNs == NaNs::any) v = one_nan(v);
    const auto first = hn::BitCast(d16, hn::DemoteTo(dh, v.first)),
               second = hn::BitCast(d16, hn::DemoteTo(dh, v.second));
    return hn::BitCast(hn::RebindToUnsigned<F32>(), hn::Combine(hn::Repartition<uint16_t, F32>(), second, first));
}
// Two stores are cheaper than one and a shuffle, where it need not be one.
template <NaNs kNaNs = NaNs::any>
HWY_INLINE void store_pair(f16* to, Pair v) {
    const F32 d;
    const hn::Rebind<hwy::float16_t, F32> dh;
    auto* half = reinterpret_cast<hwy::float16_t*>(to);
    if constexpr (kNaNs == NaNs::any) v = one_nan(v);
    hn::StoreU(hn::DemoteTo(dh, v.first), dh, half);
    hn::StoreU(hn::DemoteTo(dh, v.second), dh, half + hn::Lanes(d));
}

#endif

template <NaNs kNaNs = NaNs::any, typename T>
HWY_INLINE void store_pair(T* to, Pair v) {
    hn::StoreU(pack_pair<kNaNs>(to, v), hn::RebindToUnsigned<F32>(), reinterpret_cast<uint32_t*>(to));
}

// A loop over n elements, a pair at a time: f(i, Full()) for whole pairs, f(i, Part{rest}) for the tail. A tail goes
// through a buffer: the same arithmetic on the same lanes, so it rounds like the rest.
struct Full {};
struct Part {
    int64_t count;
};
template <typename F>
HWY_INLINE void each_pair(int64_t n, const F& f) {
    const auto step = static_cast<int64_t>(pair_lanes());
    int64_t i = 0;
    for (; i + step <= n; i += step) f(i, Full());
    if (i < n) f(i, Part{n - i});
}

template <typename T>
HWY_INLINE Pair load(const T* from, Full) {
    return load_pair(from);
}
template <NaNs kNaNs = NaNs::any, typename T>
HWY_INLINE void store(T* to, Full, Pair v) {
    store_pair<kNaNs>(to, v);
}

template <typename T>
HWY_INLINE Pair load(const T* from, Part part) {
    HWY_ALIGN T whole[2 * HWY_MAX_BYTES / sizeof(float)] = {};
    std::memcpy(whole, from, static_cast<size_t>(part.count) * sizeof(T));
    return load_pair(whole);
}
template <NaNs kNaNs = NaNs::any, typename T>
HWY_INLINE void store(T* to, Part part, Pair v) {
    HWY_ALIGN T whole[2 * HWY_MAX_BYTES / sizeof(float)];
    store_pair<kNaNs>(whole, v);
    std::memcpy(to, whole, static_cast<size_t>(part.count) * sizeof(T));
}

}  // namespace HWY_NAMESPACE
}  // namespace gradus
HWY_AFTER_NAMESPACE();

#endif  // GRADUS_SIMD_LANES_INL_H_
