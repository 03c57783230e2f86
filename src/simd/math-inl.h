// Functions on lanes. Their errors are promised in docs/numerics.md and tested over every f32.
#if defined(GRADUS_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADUS_SIMD_MATH_INL_H_
#undef GRADUS_SIMD_MATH_INL_H_
#else
#define GRADUS_SIMD_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include "simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradus {
namespace HWY_NAMESPACE {

// e^r for |r| ≤ ln 2 / 2: minimax of degree 6 with the first two coefficients exact, 0.06 · 2^-24 relative.
HWY_INLINE Pair exp_polynomial(Pair r) {
    Pair p = mul_add(set_pair(0x1.6a241ap-10f), r, set_pair(0x1.1239f2p-7f));
    p = mul_add(p, r, set_pair(0x1.5558f2p-5f));
    p = mul_add(p, r, set_pair(0x1.555492p-3f));
    p = mul_add(p, r, set_pair(0x1.fffffcp-2f));
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
    return mul_add(p, r * r, r) + set_pair(1.0f);  // products that are rounded must be small: 0.98 ulp, not 1.16
#else
    p = mul_add(p, r, set_pair(1.0f));
    return mul_add(p, r, set_pair(1.0f));
#endif
}

constexpr float kLog2E = 0x1.715476p+0f;

// exp(x) = 2^k · e^r. Adding 1.5 · 2^23 rounds x·log2 e to the integer k and leaves it in the low bits, where a shift
// makes an exponent of it. ln 2 comes in two parts; the first has few bits, so that its product is exact without FMA
// too.
struct Reduced {
    Pair shifted, r;  // k + (magic − 1.5 · 2^23) in the low bits of shifted
};
HWY_INLINE Reduced exp_reduce(Pair x, Pair magic) {
    const Pair shifted = mul_add(x, set_pair(kLog2E), magic);
    const Pair k = shifted - magic;
    const Pair r = neg_mul_add(k, set_pair(0x1.63p-1f), x);
    return {shifted, neg_mul_add(k, set_pair(-0x1.bd0106p-13f), r)};
}

// 2^n from n + 127 in the low bits.
HWY_INLINE V32 power_of_two(V32 shifted) {
    const hn::RebindToSigned<F32> di;
    return hn::BitCast(F32(), hn::ShiftLeft<23>(hn::BitCast(di, shifted)));
}
HWY_INLINE Pair power_of_two(Pair shifted) { return {power_of_two(shifted.first), power_of_two(shifted.second)}; }

// Where 2^(k + 64) has become 0 itself (k = −191), so that far smaller x give 0 without an underflow, which is slow.
constexpr float kLeastExponent = -132.4f;

// 2^64·exp(x) for x ≤ 0 and NaN: within 1 ulp, and normal or 0, which leaves the rounding of a subnormal to the product
// that takes the 2^64 away. A NaN stays one through the product here, whatever its bits did to k.
HWY_INLINE Pair exp_lifted(Pair x) {
    const Reduced reduced = exp_reduce(max_or_nan(set_pair(kLeastExponent), x), set_pair(0x1.8p23f + 64.0f + 127.0f));
    return exp_polynomial(reduced.r) * power_of_two(reduced.shifted);
}

// exp(x) for x ≤ 0 and NaN: within 1 ulp where it is normal, and 0 from 2^-126.5 on, which saves the lift.
HWY_INLINE Pair exp_faded(Pair x) {
    const Reduced reduced = exp_reduce(max_or_nan(set_pair(-88.1f), x), set_pair(0x1.8p23f + 127.0f));
    return exp_polynomial(reduced.r) * power_of_two(reduced.shifted);
}

// lift·2^f for |f| ≤ 1/2: minimax of degree 5, 0.8 · 2^-24 relative. The lift is a power of two.
HWY_INLINE Pair exp2_polynomial(Pair f, float lift) {
    Pair p = mul_add(set_pair(0x1.5bb9e4p-10f * lift), f, set_pair(0x1.3ceab4p-7f * lift));
    p = mul_add(p, f, set_pair(0x1.c6b754p-5f * lift));
    p = mul_add(p, f, set_pair(0x1.ebf9bcp-3f * lift));
    p = mul_add(p, f, set_pair(0x1.62e42ap-1f * lift));
    return mul_add(p, f, set_pair(lift));
}

#if GRADUS_AVX512

// Splits t into an integer and what is left, which is exact; scale multiplies by a power of two of any size, and is
// slow where its result is subnormal.
HWY_INLINE Pair fraction(Pair t) {
    return {V32{_mm512_reduce_ps(t.first.raw, _MM_FROUND_TO_NEAREST_INT)},
            V32{_mm512_reduce_ps(t.second.raw, _MM_FROUND_TO_NEAREST_INT)}};
}
HWY_INLINE Pair scale(Pair p, Pair k) {
    return {V32{_mm512_scalef_ps(p.first.raw, k.first.raw)}, V32{_mm512_scalef_ps(p.second.raw, k.second.raw)}};
}
HWY_INLINE Pair scale_or_zero(PairMask some, Pair p, Pair k) {
    return {V32{_mm512_maskz_scalef_ps(some.first.raw, p.first.raw, k.first.raw)},
            V32{_mm512_maskz_scalef_ps(some.second.raw, p.second.raw, k.second.raw)}};
}
// 1/x within 2^-23 for normal x with a normal 1/x: 14 bits from a table, and one step of Newton's.
HWY_INLINE V32 reciprocal(V32 x) {
    const V32 r{_mm512_rcp14_ps(x.raw)};
    return hn::MulAdd(r, hn::NegMulAdd(x, r, hn::Set(F32(), 1.0f)), r);
}
HWY_INLINE Pair reciprocal(Pair x) { return {reciprocal(x.first), reciprocal(x.second)}; }

// For results that are rounded to 16 bits: exp_lifted in fewer operations, since base 2 needs no second part of ln 2.
// Relative error (4 + 5/4·|x|)·2^-24: x·log2 e is rounded once, and its constant is off by 0.23·2^-24.
HWY_INLINE Pair exp_lifted_coarse(Pair x) {
    const V32 least = hn::Set(F32(), -131.0f);  // the result would be subnormal; NaN is not below it
    const PairMask some = {hn::Mask<F32>{_mm512_cmp_ps_mask(x.first.raw, least.raw, _CMP_NLE_UQ)},
                           hn::Mask<F32>{_mm512_cmp_ps_mask(x.second.raw, least.raw, _CMP_NLE_UQ)}};
    const Pair t = x * set_pair(kLog2E), f = fraction(t);
    return scale_or_zero(some, exp2_polynomial(f, 0x1p64f), t - f);
}

// σ(a) = 1/(1 + e^-a) for results that are rounded to 16 bits, with a relative error of (8 + 5/4·|a|·σ(−a))·2^-24,
// for a ≥ −64; below, anything.
HWY_INLINE Pair sigmoid_coarse(Pair a) {
    const Pair t = a * set_pair(-kLog2E), f = fraction(t);
    return reciprocal(set_pair(1.0f) + scale(exp2_polynomial(f, 1.0f), t - f));
}

#else

// 2^kLift·2^(x·factor), where factor is ±log2 e. The exponent of the result must be one of a normal f32, or the one
// below, which gives 0.
template <int kLift>
HWY_INLINE Pair exp_coarse(Pair x, float factor) {
    const Pair by = set_pair(factor), magic = set_pair(0x1.8p23f + 127.0f + kLift);
    const Pair shifted = mul_add(x, by, magic);
    return exp2_polynomial(mul_sub(x, by, shifted - magic), 1.0f) * power_of_two(shifted);
}
// With the errors stated above.
HWY_INLINE Pair exp_lifted_coarse(Pair x) { return exp_coarse<64>(max_or_nan(set_pair(kLeastExponent), x), kLog2E); }
HWY_INLINE Pair sigmoid_coarse(Pair a) {
    const Pair one = set_pair(1.0f);
    return one / (one + exp_coarse<0>(min_or_nan(set_pair(88.1f), a), -kLog2E));
}

#endif

// u·v·e^x for x < −64, within 4·2^-23 where it is normal, though e^x may be far below f32 (|v| up to 3.4e38 brings it
// back from x = −190). 2^k comes in three parts, so that none is subnormal; together they fade to 0 before x = −264, so
// that an infinite u gives NaN. |u| must be below 2^64 where they have not.
HWY_INLINE Pair times_exp(Pair u, Pair v, Pair x) {
    const Pair magic = set_pair(0x1.8p23f), exponent = set_pair(0x1.8p23f + 127.0f);
    const Reduced reduced = exp_reduce(max_or_nan(set_pair(-264.2f), x), magic);
    const Pair k = reduced.shifted - magic, third = mul_add(k, set_pair(1.0f / 3), exponent);
    const Pair rest = neg_mul_add(set_pair(2.0f), third - exponent, k) + exponent;
    const Pair part = power_of_two(third);
    return u * (exp_polynomial(reduced.r) * part) * v * part * power_of_two(rest);
}

// least ≤ x ≤ most; NaN stays NaN.
HWY_INLINE Pair clamp(Pair x, float least, float most) {
    return max_or_nan(set_pair(least), min_or_nan(set_pair(most), x));
}

// exp(x) for every x: within 1 ulp, inf from 88.73 on, through the subnormals to 0, NaN for NaN. Scaled in two steps as
// above, away from whichever end the sign of x says is near.
HWY_INLINE Pair exp(Pair x) {
    x = clamp(x, kLeastExponent, 89.0f);
    const Pair magic = if_negative(x, set_pair(0x1.8p23f + 127.0f + 64.0f), set_pair(0x1.8p23f + 127.0f - 64.0f));
    const Reduced reduced = exp_reduce(x, magic);
    return exp_polynomial(reduced.r) * power_of_two(reduced.shifted) *
           if_negative(x, set_pair(0x1p-64f), set_pair(0x1p64f));
}

}  // namespace HWY_NAMESPACE
}  // namespace gradus
HWY_AFTER_NAMESPACE();

#endif  // GRADUS_SIMD_MATH_INL_H_
