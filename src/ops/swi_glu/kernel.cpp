#include "ops/swi_glu/kernel.h"

#include <algorithm>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/swi_glu/kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simd/dispatch.h"
#include "simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradus::swi_glu {
namespace HWY_NAMESPACE {
using namespace gradus::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace)

struct Sigmoid {
    Pair plus, minus;  // σ(a), σ(−a)
};

// Both from e = exp(−|a|), so that neither cancels: 1/(1 + e) on the side of a's sign, e/(1 + e) on the other.
HWY_INLINE Sigmoid sigmoid(Pair a) {
    const Pair one = set_pair(1.0f), e = exp_nonpositive(negative_abs(a));
    const Pair near = one / (one + e), far = e * near;
    return {if_negative(a, far, near), if_negative(a, near, far)};
}

// 16-bit types: σ of a stage is kept in L1 and read back by a second loop. In one loop the chain from a to the rounded
// results is too long for the CPU to overlap (gradient, bf16, AVX2, in cache: 0.75 ns a pair in one loop, 0.62 in two).
// f32 waits for memory anyway, and one loop keeps all its streams going.
template <typename T>
inline constexpr int64_t kStage = std::is_same_v<T, float> ? INT64_MAX : 512;

// Calls f(i, part, σ) for all elements of a. For 16-bit types σ(−a) is 1 − σ(a), which is 0 from a = 18 on: an error
// below 2^-19 in 1 + a·σ(−a), too small for 16 bits to show.   a: [n], n ≤ kStage
template <typename T, typename F>
HWY_INLINE void with_sigmoid(const T* a, int64_t n, const F& f) {
    if constexpr (std::is_same_v<T, float>) {
        each_pair(n, [&](int64_t i, auto part) HWY_ATTR { f(i, part, sigmoid(load(a + i, part))); });
    } else {
        HWY_ALIGN float stage[kStage<T> + HWY_MAX_BYTES];
        each_pair(n, [&](int64_t i, auto part) HWY_ATTR { store_pair(stage + i, sigmoid_coarse(load(a + i, part))); });
        each_pair(n, [&](int64_t i, auto part) HWY_ATTR {
            const Pair plus = load_pair(stage + i);
            f(i, part, Sigmoid{plus, set_pair(1.0f) - plus});
        });
    }
}

template <typename T>
void forward_piece(const void* a_, const void* b_, void* y_, int64_t n) noexcept {
    for (int64_t begin = 0; begin < n; begin += std::min(n - begin, kStage<T>)) {
        const T *a = static_cast<const T*>(a_) + begin, *b = static_cast<const T*>(b_) + begin;
        T* y = static_cast<T*>(y_) + begin;
        with_sigmoid(a, std::min(n - begin, kStage<T>), [=](int64_t i, auto part, Sigmoid s) HWY_ATTR {
            store<NaNs::of_16bit_inputs>(y + i, part, load(a + i, part) * s.plus * load(b + i, part));
        });
    }
}

template <typename T>
void grad_piece(const void* g_, const void* a_, const void* b_, void* out_a_, void* out_b_, int64_t n) noexcept {
    for (int64_t begin = 0; begin < n; begin += std::min(n - begin, kStage<T>)) {
        const T *g = static_cast<const T*>(g_) + begin, *a = static_cast<const T*>(a_) + begin;
        const T* b = static_cast<const T*>(b_) + begin;
        T *out_a = static_cast<T*>(out_a_) + begin, *out_b = static_cast<T*>(out_b_) + begin;
        with_sigmoid(a, std::min(n - begin, kStage<T>), [=](int64_t i, auto part, Sigmoid s) HWY_ATTR {
            const Pair vg = load(g + i, part), va = load(a + i, part), vb = load(b + i, part);
            const Pair slope = mul_add(va, s.minus, set_pair(1.0f));
            store<NaNs::of_16bit_inputs>(out_a + i, part, vg * vb * s.plus * slope);
            store<NaNs::of_16bit_inputs>(out_b + i, part, vg * (va * s.plus));
        });
    }
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
