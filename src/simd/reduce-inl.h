// Folding lanes into one number, and bytes of a mask into lanes.
#if defined(GRADUS_SIMD_REDUCE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADUS_SIMD_REDUCE_INL_H_
#undef GRADUS_SIMD_REDUCE_INL_H_
#else
#define GRADUS_SIMD_REDUCE_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradus {
namespace HWY_NAMESPACE {

// Of lanes that hold a NaN, that or another: who cares looks for it beside.
HWY_INLINE float max_of(Pair v) {
    const V32 most = max_or_nan(v.first, v.second);
#if HWY_TARGET == HWY_EMU128  // whose MaxOfLanes begins with the lowest number that is finite
    HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
    hn::Store(most, F32(), lanes);
    return *std::max_element(lanes, lanes + hn::Lanes(F32()));
#else
    return hn::GetLane(hn::MaxOfLanes(F32(), most));
#endif
}
HWY_INLINE float sum_of(Pair v) { return hn::GetLane(hn::SumOfLanes(F32(), hn::Add(v.first, v.second))); }

// A sum of any length whose error does not grow with it: what an addition rounds away is kept beside the total.
class Sum {
  public:
    HWY_INLINE Sum() : total_(set_pair(0.0f)), lost_(set_pair(0.0f)) {}  // an implicit one has no target
    HWY_INLINE void add(Pair x) {
        const Pair sum = total_ + x, part = sum - total_;
        lost_ = lost_ + ((total_ - (sum - part)) + (x - part));
        total_ = sum;
    }
    HWY_INLINE float value() const {
        const float total = sum_of(total_), lost = sum_of(lost_);
        return std::isnan(lost) ? total : total + lost;  // an infinite total has lost inf − inf
    }

  private:
    Pair total_, lost_;
};

// Adds n elements, whole pairs of them; add(chain, i) returns chain plus the terms at i. kChains = 4 hides the latency
// of additions where there is little else to do, 1 takes the fewest registers. At most 8 roundings on a chain, then
// trees: no more than 8 + log2 n roundings meet in one result at any width.
template <int kChains, typename Add>
HWY_INLINE void add_pairs(Sum& sum, int64_t n, const Add& add) {
    const auto step = static_cast<int64_t>(pair_lanes());
    const int64_t block = (kChains == 4 ? 16 : 8) * step;
    for (int64_t i = 0; i < n;) {
        const int64_t end = HWY_MIN(n, i + block);
        Pair a = set_pair(0.0f);
        if constexpr (kChains == 4) {
            Pair b = a, c = a, d = a;
            for (; i + 4 * step <= end; i += 4 * step) {
                a = add(a, i);
                b = add(b, i + step);
                c = add(c, i + 2 * step);
                d = add(d, i + 3 * step);
            }
            a = (a + b) + (c + d);
        }
        for (; i < end; i += step) a = add(a, i);
        sum.add(a);
    }
}

// Which of the bytes that belong to a pair of T are 0, in the lanes that load_pair puts its elements into.
#if GRADUS_AVX512
template <typename T>
HWY_INLINE PairMask zero_bytes(const uint8_t* from, Full) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    if constexpr (std::is_same_v<T, bf16>) {  // two bytes a lane: the even element's, then the odd one's
        const __m512i words = _mm512_cvtepu16_epi32(bytes);
        return {hn::Mask<F32>{_mm512_testn_epi32_mask(words, _mm512_set1_epi32(0xFF))},
                hn::Mask<F32>{_mm512_testn_epi32_mask(words, _mm512_set1_epi32(0xFF00))}};
    } else {
        const uint32_t zero = _mm256_testn_epi8_mask(bytes, bytes);
        return {hn::Mask<F32>{static_cast<__mmask16>(zero)}, hn::Mask<F32>{static_cast<__mmask16>(zero >> 16)}};
    }
}
#else
template <typename T>
HWY_INLINE PairMask zero_bytes(const uint8_t* from, Full) {
    const F32 d;
    const hn::RebindToUnsigned<F32> du;
    const auto zero = hn::Zero(du);
    if constexpr (std::is_same_v<T, bf16>) {  // two bytes a lane: the even element's, then the odd one's
        const hn::RebindToSigned<F32> di;
        const hn::Rebind<uint16_t, F32> d16;
        const auto words = hn::PromoteTo(du, hn::LoadU(d16, reinterpret_cast<const uint16_t*>(from)));
        return {hn::RebindMask(d, hn::Eq(hn::And(words, hn::Set(du, 0xFFu)), zero)),
                hn::RebindMask(d, hn::Gt(hn::Set(di, 0x100), hn::BitCast(di, words)))};
    } else {
        const hn::Rebind<uint8_t, F32> d8;
        return {hn::RebindMask(d, hn::Eq(hn::PromoteTo(du, hn::LoadU(d8, from)), zero)),
                hn::RebindMask(d, hn::Eq(hn::PromoteTo(du, hn::LoadU(d8, from + hn::Lanes(d))), zero))};
    }
}
#endif
template <typename T>
HWY_INLINE PairMask zero_bytes(const uint8_t* from, Part part) {
    HWY_ALIGN uint8_t whole[2 * HWY_MAX_BYTES / sizeof(float)] = {};
    std::memcpy(whole, from, static_cast<size_t>(part.count));
    return zero_bytes<T>(whole, Full());
}

// v, and `rest` in the lanes behind the tail.
template <typename T>
HWY_INLINE Pair fill_up(Full, Pair v, Pair) {
    return v;
}
template <typename T>
HWY_INLINE Pair fill_up(Part part, Pair v, Pair rest) {
    HWY_ALIGN uint8_t behind[2 * HWY_MAX_BYTES / sizeof(float)] = {};
    std::memset(behind + part.count, 1, sizeof behind - static_cast<size_t>(part.count));
    return if_then_else(zero_bytes<T>(behind, Full()), v, rest);
}

}  // namespace HWY_NAMESPACE
}  // namespace gradus
HWY_AFTER_NAMESPACE();

#endif  // GRADUS_SIMD_REDUCE_INL_H_
