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
    p = mul_add(p, r, set_pair(1.0f));
    return mul_add(p, r, set_pair(1.0f));
}

// exp(x) = 2^k · e^r. Adding 1.5 · 2^23 rounds x·log2 e to the integer k and leaves it in the low bits, where a shift
// makes an exponent of it. ln 2 comes in two parts; the first has few bits, so that its product is exact without FMA too.
struct Reduced {
    Pair shifted, r;  // k + offset in the low bits of shifted
};
HWY_INLINE Reduced exp_reduce(Pair x, float offset) {
    const Pair magic = set_pair(0x1.8p23f + offset);
    const Pair shifted = mul_add(x, set_pair(0x1.715476p+0f), magic);
    const Pair k = shifted - magic;
    const Pair r = neg_mul_add(k, set_pair(0x1.63p-1f), x);
    return {shifted, neg_mul_add(k, set_pair(-0x1.bd0106p-13f), r)};
}

HWY_INLINE V32 add_exponent(V32 x, V32 shifted) {
    const hn::RebindToSigned<F32> di;
    return hn::BitCast(F32(), hn::Add(hn::BitCast(di, x), hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
}

// exp(x) for x ≤ 0 and NaN: within 1 ulp, through the subnormals to 0. Scaled in two steps, of which the second is a
// constant: 2^(k + 64) is always normal, and the product with 2^-64 rounds a subnormal once.
HWY_INLINE Pair exp_nonpositive(Pair x) {
    const Reduced reduced = exp_reduce(max_or_nan(set_pair(-104.0f), x), 64.0f);
    const Pair p = exp_polynomial(reduced.r);
    const Pair scaled = {add_exponent(p.first, reduced.shifted.first), add_exponent(p.second, reduced.shifted.second)};
    return scaled * set_pair(0x1p-64f);
}

}  // namespace HWY_NAMESPACE
}  // namespace gradus
HWY_AFTER_NAMESPACE();

#endif  // GRADUS_SIMD_MATH_INL_H_
