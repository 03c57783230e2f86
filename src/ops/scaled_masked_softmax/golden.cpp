#include "ops/scaled_masked_softmax/golden.h"

#include <algorithm>
#include <cmath>

namespace gradus::scaled_masked_softmax {
namespace {

template <typename T>
T* at(Strip strip, int64_t row) {
    return reinterpret_cast<T*>(strip.data + row * strip.pitch);
}

template <typename T>
void forward(const ForwardRows& a) noexcept {
    for (int64_t r = 0; r < a.rows; ++r) {
        const T* x = at<const T>(a.x, r);
        const uint8_t* mask = at<const uint8_t>(a.mask, r);
        T* y = at<T>(a.y, r);
        const auto z = [&](int64_t i) { return mask[i] != 0 ? double{kMasked} : to_f64(x[i]) * a.scale; };
        double top = -HUGE_VAL, sum = 0;
        for (int64_t i = 0; i < a.n; ++i) top = std::max(top, z(i));
        for (int64_t i = 0; i < a.n; ++i) sum += std::exp(z(i) - top);
        for (int64_t i = 0; i < a.n; ++i) y[i] = from_f64<T>(std::exp(z(i) - top) / sum);
    }
}

template <typename T>
void backward(const BackwardRows& a) noexcept {
    for (int64_t r = 0; r < a.rows; ++r) {
        const T *g = at<const T>(a.g, r), *y = at<const T>(a.y, r);
        const uint8_t* mask = at<const uint8_t>(a.mask, r);
        T* out = at<T>(a.out, r);
        double sum = 0;
        for (int64_t i = 0; i < a.n; ++i) sum += to_f64(g[i]) * to_f64(y[i]);
        for (int64_t i = 0; i < a.n; ++i) {
            const double d = to_f64(g[i]) * to_f64(y[i]) - sum * to_f64(y[i]);
            out[i] = from_f64<T>(mask[i] != 0 ? 0.0 : d * a.scale);
        }
    }
}

}  // namespace

ForwardKernel golden_forward(DType dtype) {
    return visit_float(dtype, []<typename T>(T) -> ForwardKernel { return &forward<T>; });
}
BackwardKernel golden_backward(DType dtype) {
    return visit_float(dtype, []<typename T>(T) -> BackwardKernel { return &backward<T>; });
}

}  // namespace gradus::scaled_masked_softmax
