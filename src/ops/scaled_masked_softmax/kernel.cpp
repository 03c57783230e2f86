#include "ops/scaled_masked_softmax/kernel.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "base/gather.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/scaled_masked_softmax/kernel.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simd/dispatch.h"
#include "simd/math-inl.h"
#include "simd/reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradus::scaled_masked_softmax {
namespace HWY_NAMESPACE {
using namespace gradus::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace)

// Elements of a row that are worked on at a time in f32. The longest row the device knows, and whole blocks of
// add_pairs at every width, so that longer rows sum up as if in one piece.
constexpr int64_t kPiece = 4096;

template <typename T>
HWY_INLINE T* row_of(Strip strip, int64_t r) {
    return reinterpret_cast<T*>(strip.data + r * strip.pitch);
}

// z of a piece, as pairs of T lie in lanes, filled up to a whole pair with −inf. Returns the larger of top and z.
template <typename T>
HWY_INLINE Pair scores(const T* x, const uint8_t* mask, int64_t n, Pair scale, float* z, Pair top) {
    const auto step = static_cast<int64_t>(pair_lanes());
    const auto score = [=](int64_t i, auto part) HWY_ATTR {
        const Pair v = if_then_else(zero_bytes<T>(mask + i, part), load(x + i, part) * scale, set_pair(kMasked));
        return fill_up<T>(part, v, set_pair(-std::numeric_limits<float>::infinity()));
    };
    int64_t i = 0;
    for (; i + step <= n; i += step) {
        const Pair v = score(i, Full());
        store_pair(z + i, v);
        top = max_or_nan(top, v);
    }
    if (i == n) return top;
    const Pair v = score(i, Part{n - i});
    store_pair(z + i, v);
    return max_or_nan(top, v);
}

// Replaces z by e = 2^64·exp(z − top), which the sum receives too. A NaN that max passed over comes back here. Memory
// has nothing to do meanwhile: it is asked for the next row (forward, f32, one thread, rows from memory: 1.28 times
// faster).
template <typename T>
HWY_INLINE void exponentials(float* z, int64_t n, Pair top, Sum& sum, const T* next) {
    const auto step = static_cast<int64_t>(pair_lanes());
    add_pairs<1>(sum, (n + step - 1) / step * step, [&](Pair chain, int64_t i) HWY_ATTR {
        hwy::Prefetch(next + i);
        const Pair below = load_pair(z + i) - top;
        const Pair e = std::is_same_v<T, float> ? exp_lifted(below) : exp_lifted_coarse(below);
        store_pair(z + i, e);
        return chain + e;
    });
}

// y may begin where e does: a pair of T is never longer than a pair of f32.
template <typename T>
HWY_INLINE void normalise(const float* e, Pair inverse, T* y, int64_t n) {
    each_pair(n, [=](int64_t i, auto part)
                     HWY_ATTR { store<NaNs::of_16bit_inputs>(y + i, part, load_pair(e + i) * inverse); });
}

// Three sweeps over a row in f32, which stays in the first level of cache; a longer one is computed again piece by
// piece, with the same bits.
template <typename T>
HWY_INLINE void forward_row(const T* x, const uint8_t* mask, T* y, int64_t n, float scale_, bool streaming,
                            const T* next) {
    alignas(64) float row[kPiece];
    const Pair scale = set_pair(scale_);
    const bool kept = n <= kPiece;
    const auto length = [n](int64_t i) { return std::min(kPiece, n - i); };

    Pair top = set_pair(-std::numeric_limits<float>::infinity());
    for (int64_t i = 0; i < n; i += kPiece) top = scores(x + i, mask + i, length(i), scale, row, top);
    top = set_pair(max_of(top));

    Sum sum;
    for (int64_t i = 0; i < n; i += kPiece) {
        if (!kept) scores(x + i, mask + i, length(i), scale, row, top);
        exponentials(row, length(i), top, sum, next + i);
    }
    const Pair inverse = set_pair(1.0f / sum.value());

    for (int64_t i = 0; i < n; i += kPiece) {
        if (!kept) {
            Sum again;
            scores(x + i, mask + i, length(i), scale, row, top);
            exponentials(row, length(i), top, again, next + i);
        }
        normalise(row, inverse, streaming ? reinterpret_cast<T*>(row) : y + i, length(i));
        if (streaming)
            copy_streaming(reinterpret_cast<std::byte*>(y + i), reinterpret_cast<const std::byte*>(row),
                           length(i) * static_cast<int64_t>(sizeof(T)));
    }
}

template <typename T>
HWY_INLINE float dot(const T* g, const T* y, int64_t n) {
    Sum sum;
    const int64_t rest = n % static_cast<int64_t>(pair_lanes()), whole = n - rest;
    add_pairs<4>(sum, whole,
                 [=](Pair chain, int64_t i) HWY_ATTR { return mul_add(load_pair(g + i), load_pair(y + i), chain); });
    if (rest > 0) sum.add(load(g + whole, Part{rest}) * load(y + whole, Part{rest}));
    return sum.value();
}

template <typename T>
struct BackwardRow {
    const T *g, *y;
    const uint8_t* mask;
    T* out;
    const T *next_g, *next_y;  // fetched on the way, as in the forward (bf16, one thread: 1.15 times faster)

    HWY_INLINE void skip(int64_t i) { g += i, y += i, mask += i, out += i, next_g += i, next_y += i; }
};

template <typename T>
HWY_INLINE void gradients(BackwardRow<T> a, T* out, int64_t n, Pair s, Pair scale) {
    each_pair(n, [=](int64_t i, auto part) HWY_ATTR {
        hwy::Prefetch(a.next_g + i);
        hwy::Prefetch(a.next_y + i);
        const Pair y = load(a.y + i, part), t = load(a.g + i, part) * y;
        const Pair d = neg_mul_add(s, y, t) * scale;
        store<NaNs::of_16bit_inputs>(out + i, part, if_then_else_zero(zero_bytes<T>(a.mask + i, part), d));
    });
}

// Two sweeps: the sum over the whole row, masked elements too; then the elements, a piece at a time where a stage
// stands between them and memory.
template <typename T>
HWY_INLINE void backward_row(BackwardRow<T> a, int64_t n, float scale, bool streaming) {
    const Pair s = set_pair(dot(a.g, a.y, n));
    if (!streaming) return gradients(a, a.out, n, s, set_pair(scale));
    alignas(64) T stage[kPiece];
    for (int64_t i = 0; i < n; i += kPiece, a.skip(kPiece)) {
        const int64_t length = std::min(kPiece, n - i);
        gradients(a, stage, length, s, set_pair(scale));
        copy_streaming(reinterpret_cast<std::byte*>(a.out), reinterpret_cast<const std::byte*>(stage),
                       length * static_cast<int64_t>(sizeof(T)));
    }
}

template <typename T>
void forward_rows(const ForwardRows& a) noexcept {
    for (int64_t r = 0; r < a.rows; ++r)
        forward_row(row_of<const T>(a.x, r), row_of<const uint8_t>(a.mask, r), row_of<T>(a.y, r), a.n, a.scale,
                    a.streaming, row_of<const T>(a.x, std::min(r + 1, a.rows - 1)));
}

template <typename T>
void backward_rows(const BackwardRows& a) noexcept {
    for (int64_t r = 0; r < a.rows; ++r) {
        const int64_t next = std::min(r + 1, a.rows - 1);
        backward_row(BackwardRow<T>{row_of<const T>(a.g, r), row_of<const T>(a.y, r), row_of<const uint8_t>(a.mask, r),
                                    row_of<T>(a.out, r), row_of<const T>(a.g, next), row_of<const T>(a.y, next)},
                     a.n, a.scale, a.streaming);
    }
}

ForwardKernel forward_for(DType dtype) {
    return visit_float(dtype, []<typename T>(T) -> ForwardKernel { return &forward_rows<T>; });
}
BackwardKernel backward_for(DType dtype) {
    return visit_float(dtype, []<typename T>(T) -> BackwardKernel { return &backward_rows<T>; });
}

}  // namespace HWY_NAMESPACE
}  // namespace gradus::scaled_masked_softmax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradus::scaled_masked_softmax {

HWY_EXPORT(forward_for);
HWY_EXPORT(backward_for);

ForwardKernel choose_forward(DType dtype, Isa cap) { return GRADUS_CHOOSE(forward_for, cap)(dtype); }
BackwardKernel choose_backward(DType dtype, Isa cap) { return GRADUS_CHOOSE(backward_for, cap)(dtype); }

}  // namespace gradus::scaled_masked_softmax
#endif
