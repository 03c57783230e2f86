#include "ops/swi_glu/golden.h"

#include <cmath>

namespace gradus::swi_glu {
namespace {

using std::exp;

template <typename Number>
Number sigmoid(Number a) {
    return value_of(a) < 0 ? exp(a) / (1 + exp(a)) : 1 / (1 + exp(-a));
}

}  // namespace

void golden_forward(const GoldenTypes& types, const void* a_, const void* b_, std::byte* y, int64_t n) noexcept {
    const Mistake wrong = types.how.mistake;
    visit_golden(types.from, types.how.precision, [&]<typename T, typename Number>(T, Number) {
        for (int64_t i = 0; i < n; ++i) {
            const Number a = to_f64(static_cast<const T*>(a_)[i]), b = to_f64(static_cast<const T*>(b_)[i]);
            const Number of = wrong.is(kTimesGate) ? Number(wrong.amount * a) : a;
            const Number s = wrong.is(kNoGate) ? Number(1) : sigmoid(of), factor = wrong.is(kNoFactor) ? Number(1) : a;
            store_f64(types.to, y + i * dtype_size(types.to), result_of(factor * s * b));
        }
    });
}

void golden_grad(const GoldenTypes& types, const void* g_, const void* a_, const void* b_, std::byte* out_a,
                 std::byte* out_b, int64_t n) noexcept {
    visit_golden(types.from, types.how.precision, [&]<typename T, typename Number>(T, Number) {
        const int64_t item = dtype_size(types.to);
        const Mistake wrong = types.how.mistake;
        // dy/da / b
        const auto slope = [wrong](Number a, Number s) -> Number {
            if (wrong.is(kNoSlope)) return s;
            if (wrong.is(kOnlySlope)) return s * sigmoid(-a) * a;
            if (wrong.is(kParenthesis)) return s * (1 - s * a);
            if (wrong.is(kPlusSlope)) return s + s * (1 + s) * a;
            return s + s * sigmoid(-a) * a;
        };
        for (int64_t i = 0; i < n; ++i) {
            const Number g = to_f64(static_cast<const T*>(g_)[i]);
            const Number a = to_f64(static_cast<const T*>(a_)[i]), b = to_f64(static_cast<const T*>(b_)[i]);
            const Number s = sigmoid(a);
            store_f64(types.to, out_a + i * item, result_of(g * b * slope(a, s)));
            store_f64(types.to, out_b + i * item, result_of(wrong.is(kNoGate) ? Number(g * a) : Number(g * a * s)));
        }
    });
}

}  // namespace gradus::swi_glu
