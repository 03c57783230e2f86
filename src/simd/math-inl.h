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

// For results that are rounded to 16 bits: 2^kLift·2^(x·factor), relative error (2 + |x|/2) · 2^-24 where factor is
// ±log2 e, three operations fewer than exp_lifted: base 2 needs no second part of ln 2, and degree 5 will do. The
// exponent of the result must be one of a normal f32, or the one below, which gives 0.
template <int kLift>
HWY_INLINE Pair exp_coarse(Pair x, float factor) {
    const Pair by = set_pair(factor), magic = set_pair(0x1.8p23f + 127.0f + kLift);
    const Pair shifted = mul_add(x, by, magic);
    const Pair f = mul_sub(x, by, shifted - magic);
    Pair p = mul_add(set_pair(0x1.5bb9e4p-10f), f, set_pair(0x1.3ceab4p-7f));
    p = mul_add(p, f, set_pair(0x1.c6b754p-5f));
    p = mul_add(p, f, set_pair(0x1.ebf9bcp-3f));
    p = mul_add(p, f, set_pair(0x1.62e42ap-1f));
    p = mul_add(p, f, set_pair(1.0f));
    return p * power_of_two(shifted);
}
// exp_lifted with the error of exp_coarse.
HWY_INLINE Pair exp_lifted_coarse(Pair x) { return exp_coarse<64>(max_or_nan(set_pair(kLeastExponent), x), kLog2E); }

// exp(x) for x ≤ 0 and NaN, through the subnormals to 0.
HWY_INLINE Pair exp_nonpositive(Pair x) { return exp_lifted(x) * set_pair(0x1p-64f); }

// least ≤ x ≤ most; NaN stays NaN.
HWY_INLINE V32 clamp(V32 x, float least, float most) {
    const V32 low = hn::Set(F32(), least), high = hn::Set(F32(), most);
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
    return hn::IfThenElse(hn::Lt(x, low), low, hn::IfThenElse(hn::Gt(x, high), high, x));  // whose Min drops a NaN
#else
    return hn::Max(low, hn::Min(high, x));  // the second one when either is NaN
#endif
}
HWY_INLINE Pair clamp(Pair x, float least, float most) {
    return {clamp(x.first, least, most), clamp(x.second, least, most)};
}

// σ(a) = 1/(1 + e^-a) for results that are rounded to 16 bits: the error of exp_coarse, through the subnormals to 0.
// Both terms of the denominator carry 2^-64, so that e^-a does not overflow where σ is subnormal. σ is 0 at −105; at
// 43.66 the exponent of 2^-64·e^-a is the one below the normal numbers, and 1 + e^-a has been 1 for long.
HWY_INLINE Pair sigmoid_coarse(Pair a) {
    const Pair lift = set_pair(0x1p-64f);
    return lift / (lift + exp_coarse<-64>(clamp(a, -105.0f, 43.66f), -kLog2E));
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
