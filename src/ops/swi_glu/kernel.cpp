#include "ops/swi_glu/kernel.h"

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
    const Pair one = set_pair(1.0f);
    const Pair e = exp_nonpositive(negative_abs(a));
    const Pair near = one / (one + e), far = e * near;
    return {if_negative(a, far, near), if_negative(a, near, far)};
}

HWY_INLINE Pair forward(Pair a, Pair b) { return a * sigmoid(a).plus * b; }

struct Gradient {
    Pair a, b;
};
HWY_INLINE Gradient gradient(Pair g, Pair a, Pair b) {
    const Sigmoid s = sigmoid(a);
    const Pair slope = mul_add(a, s.minus, set_pair(1.0f));
    return {g * b * s.plus * slope, g * (a * s.plus)};
}

template <typename T>
void forward_piece(const void* a_, const void* b_, void* y_, int64_t n) noexcept {
    const T *a = static_cast<const T*>(a_), *b = static_cast<const T*>(b_);
    T* y = static_cast<T*>(y_);
    const auto step = static_cast<int64_t>(pair_lanes());
    int64_t i = 0;
    for (; i + step <= n; i += step) store_pair(y + i, forward(load_pair(a + i), load_pair(b + i)));
    if (i < n) store_tail(y + i, n - i, forward(load_tail(a + i, n - i), load_tail(b + i, n - i)));
}

template <typename T>
void grad_piece(const void* g_, const void* a_, const void* b_, void* out_a_, void* out_b_, int64_t n) noexcept {
    const T *g = static_cast<const T*>(g_), *a = static_cast<const T*>(a_), *b = static_cast<const T*>(b_);
    T *out_a = static_cast<T*>(out_a_), *out_b = static_cast<T*>(out_b_);
    const auto step = static_cast<int64_t>(pair_lanes());
    int64_t i = 0;
    for (; i + step <= n; i += step) {
        const Gradient out = gradient(load_pair(g + i), load_pair(a + i), load_pair(b + i));
        store_pair(out_a + i, out.a);
        store_pair(out_b + i, out.b);
    }
    if (i < n) {
        const int64_t rest = n - i;
        const Gradient out = gradient(load_tail(g + i, rest), load_tail(a + i, rest), load_tail(b + i, rest));
        store_tail(out_a + i, rest, out.a);
        store_tail(out_b + i, rest, out.b);
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
