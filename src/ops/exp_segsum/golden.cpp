#include "ops/exp_segsum/golden.h"

#include <cmath>

namespace gradus::exp_segsum {
namespace {

template <typename T>
void forward_begin(const void* x, int64_t size, ForwardColumns& columns) noexcept {
    for (int64_t j = 0; j < size; ++j) {
        columns.value[j] = 0;
        columns.step[j] = to_f64(static_cast<const T*>(x)[j]);
    }
}

template <typename T>
void forward_rows(int64_t first, int64_t count, int64_t size, const ForwardColumns& columns, void* to,
                  int64_t pitch) noexcept {
    for (int64_t i = first; i < first + count; ++i)
        for (int64_t j = 0; j < size; ++j) {
            if (j < i) columns.value[j] += columns.step[i];
            static_cast<T*>(to)[(i - first) * pitch + j] = from_f64<T>(j < i    ? std::exp(columns.value[j])
                                                                       : j == i ? 1
                                                                                : 0);
        }
}

template <typename T>
void backward_rows(const MatrixRows& g, const MatrixRows& y, int64_t first, int64_t count, int64_t size,
                   BackwardColumns& columns) noexcept {
    if (first + count == size)
        for (int64_t j = 0; j < size; ++j) columns.sum[j] = 0;
    for (int64_t i = first + count - 1; i >= first; --i) {
        const T* g_row = static_cast<const T*>(g.at) + (i - first) * g.pitch;
        const T* y_row = static_cast<const T*>(y.at) + (i - first) * y.pitch;
        columns.result[i] = 0;
        for (int64_t j = 0; j < i; ++j) columns.result[i] += columns.sum[j] += to_f64(g_row[j]) * to_f64(y_row[j]);
    }
}

template <typename T>
void backward_store(const BackwardColumns& columns, int64_t size, void* out, int64_t step) noexcept {
    for (int64_t j = 0; j < size; ++j) static_cast<T*>(out)[j * step] = from_f64<T>(columns.result[j]);
}

}  // namespace

ForwardKernel golden_forward(DType dtype) {
    return visit_float(dtype, []<typename T>(T) -> ForwardKernel { return {&forward_begin<T>, &forward_rows<T>}; });
}
BackwardKernel golden_backward(DType dtype) {
    return visit_float(dtype, []<typename T>(T) -> BackwardKernel { return {&backward_rows<T>, &backward_store<T>}; });
}

}  // namespace gradus::exp_segsum
