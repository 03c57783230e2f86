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
HWY_INLINE V32 exp_polynomial(V32 r) {
    const F32 d;
    V32 p = hn::MulAdd(hn::Set(d, 0x1.6a241ap-10f), r, hn::Set(d, 0x1.1239f2p-7f));
    p = hn::MulAdd(p, r, hn::Set(d, 0x1.5558f2p-5f));
    p = hn::MulAdd(p, r, hn::Set(d, 0x1.555492p-3f));
    p = hn::MulAdd(p, r, hn::Set(d, 0x1.fffffcp-2f));
    p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
    return hn::MulAdd(p, r, hn::Set(d, 1.0f));
}

// exp(x) = 2^k · e^r. Adding 1.5 · 2^23 rounds x·log2 e to the integer k and leaves it in the low bits, where a shift
// makes an exponent of it. ln 2 comes in two parts; the first has few bits, so that its product is exact without FMA too.
struct Reduced {
    V32 k_shifted, r;  // k + offset in the low bits of k_shifted
};
HWY_INLINE Reduced exp_reduce(V32 x, float offset) {
    const F32 d;
    const V32 magic = hn::Set(d, 0x1.8p23f + offset);
    const V32 shifted = hn::MulAdd(x, hn::Set(d, 0x1.715476p+0f), magic);
    const V32 k = hn::Sub(shifted, magic);
    const V32 r = hn::NegMulAdd(k, hn::Set(d, 0x1.63p-1f), x);
    return {shifted, hn::NegMulAdd(k, hn::Set(d, -0x1.bd0106p-13f), r)};
}

HWY_INLINE V32 add_exponent(V32 x, V32 k_shifted) {
    const F32 d;
    const hn::RebindToSigned<F32> di;
    return hn::BitCast(d, hn::Add(hn::BitCast(di, x), hn::ShiftLeft<23>(hn::BitCast(di, k_shifted))));
}

// exp(x) for x ≤ 0 and NaN: within 1 ulp, through the subnormals to 0. Scaled in two steps, of which the second is a
// constant: 2^(k + 64) is always normal, and the product with 2^-64 rounds a subnormal once.
HWY_INLINE V32 exp_nonpositive(V32 x) {
    const F32 d;
    const V32 clamped = hn::Max(hn::Set(d, -104.0f), x);  // in this order a NaN passes
    const Reduced reduced = exp_reduce(clamped, 64.0f);
    const V32 scaled = add_exponent(exp_polynomial(reduced.r), reduced.k_shifted);
    return hn::Mul(scaled, hn::Set(d, 0x1p-64f));
}

}  // namespace HWY_NAMESPACE
}  // namespace gradus
HWY_AFTER_NAMESPACE();

#endif  // GRADUS_SIMD_MATH_INL_H_
