#include "ops/scaled_masked_softmax/kernel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/scaled_masked_softmax/kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simd/dispatch.h"
#include "simd/math-inl.h"
#include "simd/reduce-inl.h"
#include "simd/stream-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradus::scaled_masked_softmax {
namespace HWY_NAMESPACE {
using namespace gradus::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace)

// Elements of a row that are worked on at a time in f32. The longest row the device knows, and whole blocks of
// add_pairs at every width, so that longer rows sum up as if in one piece.
constexpr int64_t kPiece = 4096;

template <typename T>
HWY_INLINE T* row_of(DenseRows dense, int64_t r) {
    return reinterpret_cast<T*>(dense.data + r * dense.pitch);
}

// Where the next row is fetched to: long rows of f32 would drive out the one that is being worked on (forward, 4096
// columns: 1.1 times faster).
template <typename T>
inline constexpr Level kNextRow = std::is_same_v<T, float> ? Level::second : Level::first;

// The row that will be read after row r: the next one, or what follows them.
template <typename T>
HWY_INLINE T* following(const DenseRows& dense, int64_t r, int64_t rows) {
    return r + 1 < rows ? row_of<T>(dense, r + 1) : reinterpret_cast<T*>(dense.following);
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

// y = e·inverse, of exponentials that lie as pairs of T in lanes.
template <bool kPast, typename T>
struct Normalise {
    const float* e;
    T* y;
    Pair inverse;

    template <typename P>
    HWY_INLINE void put_at(int64_t i, P part) const {
        put<kPast, NaNs::of_16bit_inputs>(y + i, part, load_pair(e + i) * inverse);
    }
    HWY_INLINE void all(int64_t n) const {
        each_result<kPast, kCutOfStored<T>>(n, std::array{y}, [this](int64_t i, auto part, const auto& to) HWY_ATTR {
            to.template put<0, NaNs::of_16bit_inputs>(i, part, load_pair(e + i) * inverse);
        });
    }
};

// Replaces z by e = 2^64·exp(z − top), which the sum receives too; `beside` is called once for every pair. A NaN that
// max passed over comes back here.
template <typename T, typename Beside>
HWY_INLINE void exponentials(float* z, int64_t n, Pair top, Sum& sum, const Beside& beside) {
    const auto step = static_cast<int64_t>(pair_lanes());
    add_pairs<1>(sum, (n + step - 1) / step * step, [&](Pair chain, int64_t i) HWY_ATTR {
        beside(i);
        const Pair below = load_pair(z + i) - top;
        const Pair e = std::is_same_v<T, float> ? exp_lifted(below) : exp_lifted_coarse(below);
        store_pair(z + i, e);
        return chain + e;
    });
}

constexpr float kNone = -std::numeric_limits<float>::infinity();

// Three sweeps over a row in f32, which stays in the first level of cache. The third goes beside the second of the next
// row: memory takes results and is asked for another row while there is most to compute, or it would have nothing to do
// then and everything later (f32, one thread, rows from memory: 1.3 times faster).   n ≤ kPiece
template <bool kPast, typename T>
void forward_short(const ForwardRows& a) noexcept {
    alignas(64) float row[2][kPiece];
    const auto step = static_cast<int64_t>(pair_lanes());
    const int64_t n = a.n, whole = n / step * step;
    Normalise<kPast, T> before{row[1], nullptr, set_pair(0.0f)};
    int64_t waiting = 0;  // elements of the row before
    for (int64_t r = 0; r < a.rows; ++r) {
        float* z = row[r % 2];
        const T *x = row_of<const T>(a.x, r), *next = following<const T>(a.x, r, a.rows);
        const Pair top =
            set_pair(max_of(scores(x, row_of<const uint8_t>(a.mask, r), n, set_pair(a.scale), z, set_pair(kNone))));
        Sum sum;
        exponentials<T>(z, n, top, sum, [&](int64_t i) HWY_ATTR {
            fetch_pair<kNextRow<T>>(next, i);
            if (i < waiting) before.put_at(i, Full());
        });
        float total = sum.value();
        if (HWY_UNLIKELY(std::isnan(total))) {  // so is all of the row, and everywhere the same
            total = std::numeric_limits<float>::quiet_NaN();
            std::fill_n(z, (n + step - 1) / step * step, total);
        }
        before = {z, row_of<T>(a.y, r), set_pair(1.0f / total)};
        waiting = !kPast || behind_line(before.y) == 0 ? whole : 0;
        if (waiting == 0)
            before.all(n);
        else if (whole < n)
            before.put_at(whole, Part{n - whole});
    }
    for (int64_t i = 0; i < waiting; i += step) before.put_at(i, Full());
}

// Longer rows are computed three times, piece by piece, and are the same bits.
template <bool kPast, typename T>
void forward_long(const ForwardRows& a) noexcept {
    alignas(64) float z[kPiece];
    const auto length = [n = a.n](int64_t i) { return std::min(kPiece, n - i); };
    const auto nothing = [](int64_t) {};
    for (int64_t r = 0; r < a.rows; ++r) {
        const T* x = row_of<const T>(a.x, r);
        const auto* mask = row_of<const uint8_t>(a.mask, r);
        const auto scores_at = [&](int64_t i, Pair top)
                                   HWY_ATTR { return scores(x + i, mask + i, length(i), set_pair(a.scale), z, top); };
        Pair top = set_pair(kNone);
        for (int64_t i = 0; i < a.n; i += kPiece) top = scores_at(i, top);
        top = set_pair(max_of(top));
        Sum sum;
        for (int64_t i = 0; i < a.n; i += kPiece) {
            scores_at(i, top);
            exponentials<T>(z, length(i), top, sum, nothing);
        }
        const Pair inverse = set_pair(1.0f / sum.value());
        for (int64_t i = 0; i < a.n; i += kPiece) {
            Sum again;
            scores_at(i, top);
            exponentials<T>(z, length(i), top, again, nothing);
            Normalise<kPast, T>{z, row_of<T>(a.y, r) + i, inverse}.all(length(i));
        }
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
};

// Two sweeps: the sum over the whole row, masked elements too; then the elements.
template <bool kPast, typename T>
HWY_INLINE void backward_row(BackwardRow<T> a, int64_t n, float scale_) {
    const Pair s = set_pair(dot(a.g, a.y, n)), scale = set_pair(scale_);
    each_result<kPast>(n, std::array{a.out}, [=](int64_t i, auto part, const auto& to) HWY_ATTR {
        fetch_pair<kNextRow<T>>(a.next_g, i);
        fetch_pair<kNextRow<T>>(a.next_y, i);
        const Pair y = load(a.y + i, part), t = load(a.g + i, part) * y;
        const Pair d = if_then_else_zero(zero_bytes<T>(a.mask + i, part), neg_mul_add(s, y, t) * scale);
        to.template put<0, NaNs::of_16bit_inputs>(i, part, d);
    });
}

template <typename T>
void forward_rows(const ForwardRows& a) noexcept {
    if (a.n > kPiece)
        (a.streaming ? forward_long<true, T> : forward_long<false, T>)(a);
    else
        (a.streaming ? forward_short<true, T> : forward_short<false, T>)(a);
}

template <bool kPast, typename T>
void backward_each(const BackwardRows& a) noexcept {
    for (int64_t r = 0; r < a.rows; ++r) {
        backward_row<kPast>(
            BackwardRow<T>{row_of<const T>(a.g, r), row_of<const T>(a.y, r), row_of<const uint8_t>(a.mask, r),
                           row_of<T>(a.out, r), following<const T>(a.g, r, a.rows), following<const T>(a.y, r, a.rows)},
            a.n, a.scale);
    }
}
template <typename T>
void backward_rows(const BackwardRows& a) noexcept {
    (a.streaming ? backward_each<true, T> : backward_each<false, T>)(a);
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
