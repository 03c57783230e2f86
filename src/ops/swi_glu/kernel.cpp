#include "ops/swi_glu/kernel.h"

#include <algorithm>
#include <array>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/swi_glu/kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simd/dispatch.h"
#include "simd/math-inl.h"
#include "simd/stream-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradus::swi_glu {
namespace HWY_NAMESPACE {
using namespace gradus::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace)

struct Sigmoid {
    Pair plus, minus;  // σ(a), σ(−a)
};

// f32: both from e = exp(−|a|), so that neither cancels: 1/(1 + e) on the side of a's sign, e/(1 + e) on the other.
// 16-bit types: σ(−a) is 1 − σ(a), which is 0 from a = 18 on: an error below 2^-19 in 1 + a·σ(−a), too small for 16
// bits to show.
template <typename T>
HWY_INLINE Sigmoid sigmoid(Pair a) {
    const Pair one = set_pair(1.0f);
    if constexpr (!std::is_same_v<T, float>) {
        const Pair plus = sigmoid_coarse(a);
        return {plus, one - plus};
    }
    const Pair e = exp_faded(negative_abs(a)), near = one / (one + e), far = e * near;
    return {if_negative(a, far, near), if_negative(a, near, far)};
}

// Below this σ(a) is e^a and σ(−a) is 1 to f32; further down σ is subnormal, and then 0, while its products may be
// neither. So few elements are there that they are computed again.
constexpr float kFar = -64.0f;

// The formulas once σ is known; kFarToo: some a may be below kFar.
template <bool kFarToo>
HWY_INLINE Pair forward_of(Pair a, Pair b, const Sigmoid& s) {
    const Pair y = a * s.plus * b;
    if constexpr (!kFarToo) return y;
    const PairMask far = below(a, kFar);
    if (HWY_LIKELY(!any_of(far))) return y;
    return if_then_else(far, times_exp(a, b, a), y);
}

struct Gradient {
    Pair a, b;
};
template <bool kFarToo>
HWY_INLINE Gradient gradient_of(Pair g, Pair a, Pair b, const Sigmoid& s) {
    const Pair gb = g * b, t = a * s.plus;
    const Gradient d = {gb * mul_add(t, s.minus, s.plus), g * t};
    if constexpr (!kFarToo) return d;
    const PairMask far = below(a, kFar);
    if (HWY_LIKELY(!any_of(far))) return d;
    return {if_then_else(far, times_exp(a + set_pair(1.0f), gb, a), d.a), if_then_else(far, times_exp(a, g, a), d.b)};
}

#if GRADUS_AVX512
template <typename T>
inline constexpr bool kTwoLoops = false;
#else
// 16-bit types: σ of a stage is kept in L1 and read back by a second loop. In one loop the chain from a to the rounded
// results is too long for the CPU to overlap (gradient, bf16, AVX2, in cache: 0.75 ns a pair in one loop, 0.62 in two).
// f32 waits for memory anyway, and one loop keeps all its streams going.
template <typename T>
inline constexpr bool kTwoLoops = !std::is_same_v<T, float>;
#endif

// Calls run(begin, count, σ, far too) for pieces of a row that has its results at `out`; σ(i, a) is that of element
// begin + i. The first piece ends where a line of the results begins, so that both loops cut a row into the same pairs.
template <typename T, typename Run>
HWY_INLINE void with_sigmoid(const T* a, const T* out, int64_t n, const Run& run) {
    if constexpr (!kTwoLoops<T>)
        return run(
            0, n, [](int64_t, Pair va) HWY_ATTR { return sigmoid<T>(va); }, std::true_type());
    constexpr int64_t kStage = 512;
    HWY_ALIGN float stage[kStage + HWY_MAX_BYTES];
    const auto staged = [from = static_cast<const float*>(stage)](int64_t i, Pair) HWY_ATTR {
        const Pair plus = load_pair(from + i);
        return Sigmoid{plus, set_pair(1.0f) - plus};
    };
    const int64_t head = (kLineBytes - behind_line(out)) % kLineBytes / int64_t{sizeof(T)};
    int64_t count = 0, most = head > 0 ? head : kStage;
    for (int64_t begin = 0; begin < n; begin += count, most = kStage) {
        count = std::min(n - begin, most);
        Pair least = set_pair(0.0f);
        each_pair(count, [&](int64_t i, auto part) HWY_ATTR {
            const Pair va = load(a + begin + i, part);
            least = min_or_nan(va, least);
            store_pair(stage + i, sigmoid_coarse(va));
        });
        if (any_of(below(least, kFar)))
            run(begin, count, staged, std::true_type());
        else
            run(begin, count, staged, std::false_type());
    }
}

template <typename T, bool kPast>
HWY_INLINE void forward_row(const T* a_, const T* b_, T* y_, int64_t n) {
    with_sigmoid(a_, y_, n, [=](int64_t begin, int64_t count, auto sigma, auto far_too) HWY_ATTR {
        const T *a = a_ + begin, *b = b_ + begin;
        each_result<kPast>(count, std::array{y_ + begin}, [&](int64_t i, auto part, const auto& to) HWY_ATTR {
            if constexpr (kPast) fetch_ahead(a + i), fetch_ahead(b + i);
            const Pair va = load(a + i, part);
            const Pair y = forward_of<far_too()>(va, load(b + i, part), sigma(i, va));
            to.template put<0, NaNs::of_16bit_inputs>(i, part, y);
        });
    });
}

template <typename T, bool kPast>
HWY_INLINE void grad_row(const T* g_, const T* a_, const T* b_, T* out_a, T* out_b, int64_t n) {
    with_sigmoid(a_, out_a, n, [=](int64_t begin, int64_t count, auto sigma, auto far_too) HWY_ATTR {
        const T *g = g_ + begin, *a = a_ + begin, *b = b_ + begin;
        const std::array out = {out_a + begin, out_b + begin};
        each_result<kPast>(count, out, [&](int64_t i, auto part, const auto& to) HWY_ATTR {
            if constexpr (kPast) fetch_ahead(g + i), fetch_ahead(a + i), fetch_ahead(b + i);
            const Pair va = load(a + i, part);
            const Gradient d = gradient_of<far_too()>(load(g + i, part), va, load(b + i, part), sigma(i, va));
            to.template put<0, NaNs::of_16bit_inputs>(i, part, d.a);
            to.template put<1, NaNs::of_16bit_inputs>(i, part, d.b);
        });
    });
}

template <typename T>
void forward_piece(const void* a, const void* b, void* y, int64_t n, bool past) noexcept {
    const auto row = past ? forward_row<T, true> : forward_row<T, false>;
    row(static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(y), n);
}

template <typename T>
void grad_piece(const void* g, const void* a, const void* b, void* out_a, void* out_b, int64_t n, bool past) noexcept {
    const auto row = past ? grad_row<T, true> : grad_row<T, false>;
    row(static_cast<const T*>(g), static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(out_a),
        static_cast<T*>(out_b), n);
}

ForwardKernel forward_for(DType dtype) {
    return visit_float(dtype, []<typename T>(T) -> ForwardKernel { return &forward_piece<T>; });
}
GradKernel grad_for(DType dtype) {
    return visit_float(dtype, []<typename T>(T) -> GradKernel { return &grad_piece<T>; });
}

}  // namespace HWY_NAMESPACE
}  // namespace gradus::swi_glu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradus::swi_glu {

HWY_EXPORT(forward_for);
HWY_EXPORT(grad_for);

ForwardKernel choose_forward(DType dtype, Isa cap) { return GRADUS_CHOOSE(forward_for, cap)(dtype); }
GradKernel choose_grad(DType dtype, Isa cap) { return GRADUS_CHOOSE(grad_for, cap)(dtype); }

}  // namespace gradus::swi_glu
#endif
