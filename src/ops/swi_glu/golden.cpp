#include "ops/swi_glu/golden.h"

#include <cmath>

namespace gradus::swi_glu {
namespace {

double sigmoid(double a) { return a < 0 ? std::exp(a) / (1 + std::exp(a)) : 1 / (1 + std::exp(-a)); }

}  // namespace

void golden_forward(DType dtype, const void* a_, const void* b_, void* y_, int64_t n) noexcept {
    visit_float(dtype, [&]<typename T>(T) {
        for (int64_t i = 0; i < n; ++i) {
            const double a = to_f64(static_cast<const T*>(a_)[i]), b = to_f64(static_cast<const T*>(b_)[i]);
            static_cast<T*>(y_)[i] = from_f64<T>(a * sigmoid(a) * b);
        }
    });
}

void golden_grad(DType dtype, const void* g_, const void* a_, const void* b_, void* out_a, void* out_b,
                 int64_t n) noexcept {
    visit_float(dtype, [&]<typename T>(T) {
        for (int64_t i = 0; i < n; ++i) {
            const double g = to_f64(static_cast<const T*>(g_)[i]);
            const double a = to_f64(static_cast<const T*>(a_)[i]), b = to_f64(static_cast<const T*>(b_)[i]);
            const double s = sigmoid(a);
            static_cast<T*>(out_a)[i] = from_f64<T>(g * b * (s + s * sigmoid(-a) * a));
            static_cast<T*>(out_b)[i] = from_f64<T>(g * a * s);
        }
    });
}

}  // namespace gradus::swi_glu
