#include "ops/scaled_masked_softmax/golden.h"

#include <cmath>

#include "base/golden.h"

namespace gradus::scaled_masked_softmax {
namespace {

using std::exp;

template <typename T>
T* at(DenseRows dense, int64_t row) {
    return reinterpret_cast<T*>(dense.data + row * dense.pitch);
}

template <typename T, typename Number>
void forward(const ForwardRows& a) noexcept {
    const int64_t item = dtype_size(a.result);
    const Number scale = a.scale;
    const Mistake& wrong = a.mistake;
    for (int64_t r = 0; r < a.rows; ++r) {
        const T* x = at<const T>(a.x, r);
        const uint8_t* mask = at<const uint8_t>(a.mask, r);
        std::byte* y = at<std::byte>(a.y, r);
        const auto z = [&](int64_t i) { return mask[i] != 0 ? exact<Number>(kMasked) : Number(to_f64(x[i])) * scale; };
        Number top = -HUGE_VAL;
        for (int64_t i = 0; i < a.n; ++i)
            if (value_of(top) < value_of(z(i))) top = z(i);
        Sum<Number> total{};
        for (int64_t i = 0; i < a.n; ++i)
            for (int n = wrong.times(kPartOfSum, i); n > 0; --n) total += exp(z(i) - top);
        if (wrong.is(kAddedToSum)) total += Number(wrong.amount);
        const Number sum = wrong.is(kNotDivided) ? Number(1) : Number(total);
        for (int64_t i = 0; i < a.n; ++i) store_f64(a.result, y + i * item, result_of(exp(z(i) - top) / sum));
    }
}

template <typename T, typename Number>
void backward(const BackwardRows& a) noexcept {
    const int64_t item = dtype_size(a.result);
    const Mistake& wrong = a.mistake;
    const Number scale = wrong.is(kNoScale) ? 1 : a.scale;
    for (int64_t r = 0; r < a.rows; ++r) {
        const T *g_row = at<const T>(a.g, r), *y_row = at<const T>(a.y, r);
        const uint8_t* mask = at<const uint8_t>(a.mask, r);
        std::byte* out = at<std::byte>(a.out, r);
        Sum<Number> total{};
        for (int64_t i = 0; i < a.n; ++i) {
            if (wrong.is(kUnmaskedSum) && mask[i] != 0) continue;
            for (int n = wrong.times(kPartOfSum, i); n > 0; --n)
                total += Number(to_f64(g_row[i])) * Number(to_f64(y_row[i]));
        }
        if (wrong.is(kAddedToSum)) total += Number(wrong.amount);
        Number sum = total;
        if (wrong.is(kNoSum)) sum = 0;
        if (wrong.is(kPlusSum)) sum = -sum;
        for (int64_t i = 0; i < a.n; ++i) {
            const Number g = to_f64(g_row[i]), y = wrong.is(kNoFactor) ? 1 : to_f64(y_row[i]);
            store_f64(a.result, out + i * item, mask[i] != 0 ? 0.0 : result_of((g * y - sum * y) * scale));
        }
    }
}

}  // namespace

ForwardKernel golden_forward(DType dtype, Precision precision) {
    return visit_golden(dtype, precision,
                        []<typename T, typename Number>(T, Number) -> ForwardKernel { return &forward<T, Number>; });
}
BackwardKernel golden_backward(DType dtype, Precision precision) {
    return visit_golden(dtype, precision,
                        []<typename T, typename Number>(T, Number) -> BackwardKernel { return &backward<T, Number>; });
}

}  // namespace gradus::scaled_masked_softmax
