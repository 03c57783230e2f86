// Results on their way out: into the cache, or past it straight from registers, whole lines at a time. Reads,
// arithmetic and writes then go on side by side, where a copy from a stage made them take turns (SwiGluGrad f32: 0.73
// of the memory's speed from a stage, 0.95 from registers).
#if defined(GRADUS_SIMD_STREAM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GRADUS_SIMD_STREAM_INL_H_
#undef GRADUS_SIMD_STREAM_INL_H_
#else
#define GRADUS_SIMD_STREAM_INL_H_
#endif

#include <hwy/highway.h>

#if HWY_ARCH_X86
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradus {
namespace HWY_NAMESPACE {

constexpr int64_t kLineBytes = 64;

template <typename T>
HWY_INLINE int64_t behind_line(const T* at) {
    return static_cast<int64_t>(reinterpret_cast<uintptr_t>(at) % kLineBytes);
}

// Past the cache; `to` is the beginning of a line, or of the part of one that the vectors before have left. Fenced by
// stream_fence() before other threads may look.
template <NaNs kNaNs = NaNs::any>
HWY_INLINE void stream_pair(float* to, Pair v) {
    const F32 d;
    hn::Stream(v.first, d, to);
    hn::Stream(v.second, d, to + hn::Lanes(d));
}
template <NaNs kNaNs = NaNs::any, typename T>
HWY_INLINE void stream_pair(T* to, Pair v) {
    hn::Stream(pack_pair<kNaNs>(to, v), hn::RebindToUnsigned<F32>(), reinterpret_cast<uint32_t*>(to));
}

// A whole pair goes past the cache or not; a part of one never does.
template <bool kPast, NaNs kNaNs = NaNs::any, typename T>
HWY_INLINE void put(T* to, Full, Pair v) {
    if constexpr (kPast)
        stream_pair<kNaNs>(to, v);
    else
        store_pair<kNaNs>(to, v);
}
template <bool kPast, NaNs kNaNs = NaNs::any, typename T>
HWY_INLINE void put(T* to, Part part, Pair v) {
    store<kNaNs>(to, part, v);
}

// Tells the memory of the lines that the pair at from[i] lies in: all of them, where a pair of f32 is two. They go to
// the first level of cache, or only to the second one. The address may be nobody's: it is a number here.
enum class Level { first, second };
template <Level kLevel = Level::first, typename T>
HWY_INLINE void fetch_pair(const T* from, int64_t i) {
#if HWY_TARGET != HWY_SCALAR  // which never waits for memory
    constexpr int kLocality = kLevel == Level::first ? 3 : 2;
    const auto at = reinterpret_cast<uintptr_t>(from) + static_cast<uintptr_t>(i) * sizeof(T);
    const size_t bytes = pair_lanes() * sizeof(T);
    for (size_t line = 0; line < bytes; line += kLineBytes)
        __builtin_prefetch(reinterpret_cast<const void*>(at + line), 0, kLocality);
#else
    static_cast<void>(from), static_cast<void>(i);
#endif
}
// What is read once, from the first element to the last, is asked for this far ahead.
template <typename T>
HWY_INLINE void fetch_ahead(const T* from) {
    constexpr int64_t kAhead = 1024 / sizeof(T);
    fetch_pair(from, kAhead);
}

// Like memcpy, past the cache: whole lines only, since a line that is written in part is read first after all.
HWY_INLINE void copy_past(std::byte* to, const std::byte* from, int64_t bytes) {
    const int64_t head = std::min(bytes, -behind_line(to) & (kLineBytes - 1));
    const int64_t end = head + (bytes - head) / kLineBytes * kLineBytes;
    std::memcpy(to, from, static_cast<size_t>(head));
#if HWY_TARGET == HWY_SCALAR && HWY_ARCH_X86  // where Highway has lanes of one byte
    for (int64_t i = head; i < end; i += 16)
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                         _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
#else
    const hn::ScalableTag<uint8_t> d;
    for (int64_t i = head; i < end; i += static_cast<int64_t>(hn::Lanes(d)))
        hn::Stream(hn::LoadU(d, reinterpret_cast<const uint8_t*>(from + i)), d, reinterpret_cast<uint8_t*>(to + i));
#endif
    std::memcpy(to + end, from + end, static_cast<size_t>(bytes - end));
}

// Whether there was a NaN among results, for an addition each: to make them one NaN on the way costs more (a tenth of
// bf16 SwiGLU's gradient). Infinities of both signs look like one.
class Seen {
  public:
    HWY_INLINE Seen() : sum_(hn::Zero(F32())) {}  // an implicit one has no target
    HWY_INLINE void look_at(Pair v) { sum_ = hn::Add(sum_, hn::Add(v.first, v.second)); }
    HWY_INLINE bool nan() const { return !hn::AllFalse(F32(), hn::IsNaN(sum_)); }

  private:
    V32 sum_;
};
// Results as they should be, where there may be a NaN among them: all are the same one.
template <typename T, size_t kRows>
HWY_NOINLINE void settle_nans(int64_t n, const std::array<T*, kRows>& row) {
    for (T* to : row)
        each_pair(n, [=](int64_t i, auto part) HWY_ATTR { store(to + i, part, one_nan(load(to + i, part))); });
}

// Where a loop over rows puts its results.
template <bool kPast_, typename T, size_t kRows>
struct Places {
    static constexpr bool kPast = kPast_;
    std::array<T*, kRows> row;
    int64_t first;  // what `row` points to
    Seen& seen;

    template <size_t kRow, NaNs kNaNs = NaNs::any, typename P>
    HWY_INLINE void put(int64_t i, P part, Pair v) const {
        seen.look_at(v);
        HWY_NAMESPACE::put<kPast, kNaNs>(row[kRow] + (i - first), part, v);
    }
};

// Where it puts a short stretch of them that begins at `first`: those of the first row past the cache, those of the
// others on a stage each.
template <typename T, size_t kRows>
struct Turn {
    static constexpr bool kPast = true;
    static constexpr int64_t kBytes = 4 * kLineBytes, kElements = kBytes / int64_t{sizeof(T)};
    T* row;
    T (*stage)[kElements];
    int64_t first;
    Seen& seen;

    template <size_t kRow, NaNs kNaNs = NaNs::any>
    HWY_INLINE void put(int64_t i, Full, Pair v) const {
        seen.look_at(v);
        if constexpr (kRow == 0)
            stream_pair<kNaNs>(row + i, v);
        else
            store_pair<kNaNs>(stage[kRow - 1] + (i - first), v);
    }
};

// Memory takes lines of several rows by turns slowly where the rows lie whole pages apart, like the halves of x in
// LLaMA-3-8B (SwiGluGrad, Zen 3: 1.2 times faster in turns of four lines; elsewhere it costs up to a tenth).
template <typename T, size_t kRows>
HWY_INLINE bool pages_apart(const std::array<T*, kRows>& row) {
    constexpr uintptr_t kPage = 4096;
    for (const T* other : row)
        if (reinterpret_cast<uintptr_t>(other) % kPage != reinterpret_cast<uintptr_t>(row[0]) % kPage) return false;
    return kRows > 1;
}
// The results from i on, while there are whole turns; where it ended. row + i begins a line.
template <typename T, size_t kRows, typename F>
HWY_INLINE int64_t in_turns(int64_t i, int64_t n, const std::array<T*, kRows>& row, Seen& seen, const F& f) {
    using Taken = Turn<T, kRows>;
    alignas(kLineBytes) T stage[kRows][Taken::kElements];  // one more than is used, as kRows may be 1
    for (; i + Taken::kElements <= n; i += Taken::kElements) {
        const Taken turn{row[0], stage, i, seen};
        for (int64_t j = i; j < i + Taken::kElements; j += static_cast<int64_t>(pair_lanes())) f(j, Full(), turn);
        for (size_t k = 1; k < kRows; ++k)
            copy_past(reinterpret_cast<std::byte*>(row[k] + i), reinterpret_cast<const std::byte*>(stage[k - 1]),
                      Taken::kBytes);
    }
    return i;
}

// Elements before the first line that begins in all rows, −1 if there is none.
template <typename T, size_t kRows>
HWY_INLINE int64_t head_of(const std::array<T*, kRows>& row) {
    constexpr int64_t kItem = sizeof(T);
    const int64_t behind = behind_line(row[0]);
    for (const T* other : row)
        if (behind_line(other) != behind) return -1;
    return behind % kItem == 0 ? (kLineBytes - behind) % kLineBytes / kItem : -1;
}

// Where a loop may begin its pairs: at any element, which changes no bit of an elementwise result; or where each_pair
// does, since it reads what was stored as pairs of bf16, whose elements are not in order.
enum class Cut { anywhere, in_pairs };
template <typename T>
inline constexpr Cut kCutOfStored = std::is_same_v<T, bf16> ? Cut::in_pairs : Cut::anywhere;

// Past the cache a loop begins at a line of the results, once a short head is done; results that do not share their
// lines, or cannot, take turns on a stage.
template <bool kPast, Cut kCut, typename T, size_t kRows, typename F>
HWY_INLINE void put_each(int64_t n, const std::array<T*, kRows>& row, Seen& seen, const F& f) {
    const auto step = static_cast<int64_t>(pair_lanes());
    const Places<false, T, kRows> cached{row, 0, seen};
    if constexpr (!kPast || HWY_TARGET == HWY_SCALAR)  // which has no such stores
        return each_pair(n, [&](int64_t i, auto part) HWY_ATTR { f(i, part, cached); });
    const int64_t line = head_of(row);
    if (line >= 0 && (kCut == Cut::anywhere || line % step == 0)) {
        const Places<true, T, kRows> past{row, 0, seen};
        const int64_t head = std::min(line, n);
        int64_t i = 0;
        for (; i < head; i = std::min(i + step, head)) f(i, Part{std::min(step, head - i)}, cached);
        if (pages_apart(row)) i = in_turns(i, n, row, seen, f);
        for (; i + step <= n; i += step) f(i, Full(), past);
        if (i < n) f(i, Part{n - i}, cached);
        return;
    }
    constexpr int64_t kStage = 1024;
    alignas(kLineBytes) T stage[kRows][kStage];
    for (int64_t begin = 0; begin < n; begin += kStage) {
        const int64_t count = std::min(kStage, n - begin);
        Places<false, T, kRows> staged{{}, begin, seen};
        for (size_t k = 0; k < kRows; ++k) staged.row[k] = stage[k];
        each_pair(count, [&](int64_t i, auto part) HWY_ATTR { f(begin + i, part, staged); });
        for (size_t k = 0; k < kRows; ++k)
            copy_past(reinterpret_cast<std::byte*>(row[k] + begin), reinterpret_cast<const std::byte*>(stage[k]),
                      count * int64_t{sizeof(T)});
    }
}

// each_pair for a loop with results of n elements each: f(i, part, places).
template <bool kPast, Cut kCut = Cut::anywhere, typename T, size_t kRows, typename F>
HWY_INLINE void each_result(int64_t n, const std::array<T*, kRows>& row, const F& f) {
    Seen seen;
    put_each<kPast, kCut>(n, row, seen, f);
    if (HWY_UNLIKELY(seen.nan())) settle_nans(n, row);
}

}  // namespace HWY_NAMESPACE
}  // namespace gradus
HWY_AFTER_NAMESPACE();

#endif  // GRADUS_SIMD_STREAM_INL_H_
