// Pairs with their elements in order, whatever the type: for kernels that read one type and write another, or that care
// which element is where. load_pair and store_pair are faster for bf16 where the order does not matter.
#if defined(GRADUS_SIMD_ORDER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADUS_SIMD_ORDER_INL_H_
#undef GRADUS_SIMD_ORDER_INL_H_
#else
#define GRADUS_SIMD_ORDER_INL_H_
#endif

#include <hwy/highway.h>

#include "simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradus {
namespace HWY_NAMESPACE {

HWY_INLINE Pair load_ordered(const float* from) { return load_pair(from); }
HWY_INLINE Pair load_ordered(const f16* from) { return load_pair(from); }
HWY_INLINE void store_ordered(float* to, Pair v) { store_pair(to, v); }
HWY_INLINE void store_ordered(f16* to, Pair v) { store_pair(to, v); }

HWY_INLINE Pair load_ordered(const bf16* from) {
    const F32 d;
    const hn::RebindToUnsigned<F32> du;
    const hn::Rebind<uint16_t, F32> d16;
    const auto* words = reinterpret_cast<const uint16_t*>(from);
    const auto first = hn::PromoteTo(du, hn::LoadU(d16, words));
    const auto second = hn::PromoteTo(du, hn::LoadU(d16, words + hn::Lanes(d)));
    return {hn::BitCast(d, hn::ShiftLeft<16>(first)), hn::BitCast(d, hn::ShiftLeft<16>(second))};
}

HWY_INLINE void store_ordered(bf16* to, Pair v) {
    const F32 d;
    const hn::RebindToSigned<F32> di;
    const hn::Rebind<uint16_t, F32> d16;
    auto* words = reinterpret_cast<uint16_t*>(to);
    const auto first = hn::ShiftRight<16>(round_to_bf16<NaNs::any>(v.first));
    const auto second = hn::ShiftRight<16>(round_to_bf16<NaNs::any>(v.second));
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, first)), d16, words);
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, second)), d16, words + hn::Lanes(d));
}

template <typename T>
HWY_INLINE Pair load_ordered(const T* from, Full) {
    return load_ordered(from);
}
template <typename T>
HWY_INLINE void store_ordered(T* to, Full, Pair v) {
    store_ordered(to, v);
}
template <typename T>
HWY_INLINE Pair load_ordered(const T* from, Part part) {
    HWY_ALIGN T whole[2 * HWY_MAX_BYTES / sizeof(float)] = {};
    std::memcpy(whole, from, static_cast<size_t>(part.count) * sizeof(T));
    return load_ordered(whole);
}
template <typename T>
HWY_INLINE void store_ordered(T* to, Part part, Pair v) {
    HWY_ALIGN T whole[2 * HWY_MAX_BYTES / sizeof(float)];
    store_ordered(whole, v);
    std::memcpy(to, whole, static_cast<size_t>(part.count) * sizeof(T));
}

}  // namespace HWY_NAMESPACE
}  // namespace gradus
HWY_AFTER_NAMESPACE();

#endif  // GRADUS_SIMD_ORDER_INL_H_
