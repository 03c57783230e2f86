#include "ops/nsa_selected_attention/golden.h"

#include <cmath>

namespace gradus::nsa_selected_attention {
namespace {

double element(DType dtype, const std::byte* at) {
    return dtype == DType::f16 ? to_f64(*reinterpret_cast<const f16*>(at)) : to_f64(*reinterpret_cast<const bf16*>(at));
}

void store(DType dtype, std::byte* at, double value) {
    if (dtype == DType::f16)
        *reinterpret_cast<f16*>(at) = from_f64<f16>(value);
    else
        *reinterpret_cast<bf16*>(at) = from_f64<bf16>(value);
}

// Σ_d a[i][j][d] · b[k][l][d]
double dot(DType dtype, const Cube& a, std::byte* const* address, int64_t i, int64_t j, const Cube& b, int64_t k,
           int64_t l, int64_t n) {
    double sum = 0;
    for (int64_t d = 0; d < n; ++d)
        sum += element(dtype, a.at(address, i, j, d)) * element(dtype, b.at(address, k, l, d));
    return sum;
}

// Calls f(n, key) for every key that a row sees, n counting them.
template <typename F>
int64_t each_key(const Extent& e, const Cube& topk, std::byte* const* address, int64_t row, int64_t key_head,
                 const F& f) {
    const Batch* batch = e.batches.data();
    while (row >= batch->query_end) ++batch;
    int64_t n = 0;
    for (int64_t c = 0; c < e.count; ++c) {
        const int64_t block = topk.index(address, row, key_head, c);
        for (int64_t r = 0; r < e.size; ++r) {
            const int64_t j = block * e.size + r;  // inside the batch
            if (j < 0 || j >= batch->key_end - batch->key_begin) continue;
            if (e.causal && j > row - batch->query_begin) continue;
            f(n++, batch->key_begin + j);
        }
    }
    return n;
}

}  // namespace

void golden_forward(const Extent& e, const GoldenForward& v, std::byte* const* address, int64_t row, int64_t head,
                    double* scores) noexcept {
    const int64_t kh = head / e.group;
    double max = -HUGE_VAL, sum = 0;
    const int64_t n = each_key(e, v.topk, address, row, kh, [&](int64_t i, int64_t key) {
        scores[i] = e.scale * dot(e.dtype, v.query, address, row, head, v.key, key, kh, e.depth);
        if (!(scores[i] <= max) && !std::isnan(max)) max = scores[i];
    });
    if (n == 0) max = 0;
    for (int64_t i = 0; i < n; ++i) sum += scores[i] = std::exp(scores[i] - max);
    for (int64_t d = 0; d < e.value_depth; ++d) {
        double out = 0;
        each_key(e, v.topk, address, row, kh, [&](int64_t i, int64_t key) {
            out += scores[i] / sum * element(e.dtype, v.value.at(address, key, kh, d));
        });
        store(e.dtype, v.out.at(address, row, head, d), out);
    }
    for (int64_t copy = 0; copy < kCopies; ++copy) {
        *reinterpret_cast<float*>(v.max.at(address, row, head, copy)) = static_cast<float>(max);
        *reinterpret_cast<float*>(v.sum.at(address, row, head, copy)) = static_cast<float>(sum);
    }
}

void golden_grad(const Extent& e, const GoldenGrad& v, std::byte* const* address, int64_t kh, double* sums,
                 double* scores) noexcept {
    const int64_t width = e.depth + e.value_depth;
    double *const p = scores, *const dp = scores + e.count * e.size;
    std::fill(sums, sums + e.keys * width, 0.0);
    for (int64_t row = 0; row < e.rows; ++row)
        for (int64_t head = kh * e.group; head < (kh + 1) * e.group; ++head) {
            const double max = v.max.f32(address, row, head), sum = v.sum.f32(address, row, head);
            double delta = 0;
            const int64_t n = each_key(e, v.topk, address, row, kh, [&](int64_t i, int64_t key) {
                p[i] =
                    std::exp(e.scale * dot(e.dtype, v.query, address, row, head, v.key, key, kh, e.depth) - max) / sum;
                dp[i] = dot(e.dtype, v.out_grad, address, row, head, v.value, key, kh, e.value_depth);
                delta += p[i] * dp[i];
            });
            const bool nothing = n == 0 || sum == 0;
            if (v.with_out && !nothing)
                delta = dot(e.dtype, v.out_grad, address, row, head, v.out, row, head, e.value_depth);
            for (int64_t d = 0; d < e.depth; ++d) {
                double dq = 0;
                const double q = element(e.dtype, v.query.at(address, row, head, d));
                if (!nothing)
                    each_key(e, v.topk, address, row, kh, [&](int64_t i, int64_t key) {
                        const double ds = p[i] * (dp[i] - delta);
                        dq += e.scale * ds * element(e.dtype, v.key.at(address, key, kh, d));
                        sums[key * width + d] += e.scale * ds * q;
                    });
                store(e.dtype, v.query_grad.at(address, row, head, d), dq);
            }
            for (int64_t d = 0; d < e.value_depth && !nothing; ++d) {
                const double grad = element(e.dtype, v.out_grad.at(address, row, head, d));
                each_key(e, v.topk, address, row, kh,
                         [&](int64_t i, int64_t key) { sums[key * width + e.depth + d] += p[i] * grad; });
            }
        }
    for (int64_t key = 0; key < e.keys; ++key) {
        for (int64_t d = 0; d < e.depth; ++d) store(e.dtype, v.key_grad.at(address, key, kh, d), sums[key * width + d]);
        for (int64_t d = 0; d < e.value_depth; ++d)
            store(e.dtype, v.value_grad.at(address, key, kh, d), sums[key * width + e.depth + d]);
    }
}

}  // namespace gradus::nsa_selected_attention
