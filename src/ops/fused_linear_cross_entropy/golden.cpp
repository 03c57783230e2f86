#include "ops/fused_linear_cross_entropy/golden.h"

#include <cmath>

namespace gradus::fused_linear_cross_entropy {

double golden_element(DType dtype, const std::byte* at) noexcept {
    return visit_float(dtype, [at]<typename T>(T) { return to_f64(*reinterpret_cast<const T*>(at)); });
}

void golden_store(DType dtype, std::byte* at, double value) noexcept {
    visit_float(dtype, [=]<typename T>(T) { *reinterpret_cast<T*>(at) = from_f64<T>(value); });
}

double golden_logit(const GoldenOperands& o, std::byte* const* address, int64_t token, int64_t word) noexcept {
    double sum = 0;
    for (int64_t h = 0; h < o.hidden; ++h)
        sum += golden_element(o.dtype, o.input.at(address, token, h)) *
               golden_element(o.dtype, o.weight.at(address, word, h));
    return sum;
}

GoldenStats golden_stats(const GoldenOperands& o, std::byte* const* address, int64_t token) noexcept {
    double max = -HUGE_VAL;
    for (int64_t v = 0; v < o.words && !std::isnan(max); ++v) {
        const double logit = golden_logit(o, address, token, v);
        if (!(logit <= max)) max = logit;
    }
    double sum = 0;
    for (int64_t v = 0; v < o.words; ++v) sum += std::exp(golden_logit(o, address, token, v) - max);
    return {max, sum};
}

double golden_g(const GoldenOperands& o, std::byte* const* address, const Grid* softmax, const GoldenToken& token,
                int64_t i, int64_t word) noexcept {
    const double p = softmax != nullptr
                         ? static_cast<double>(*reinterpret_cast<const float*>(softmax->at(address, i, word)))
                         : std::exp(golden_logit(o, address, i, word) - token.max) / token.sum;
    return (p - (word == token.hit ? 1 : 0)) * token.grad;
}

void golden_add(DType dtype, const Grid& rows, std::byte* const* address, int64_t i, int64_t hidden, double g,
                double* sums) noexcept {
    for (int64_t h = 0; h < hidden; ++h) sums[h] += g * golden_element(dtype, rows.at(address, i, h));
}

}  // namespace gradus::fused_linear_cross_entropy
