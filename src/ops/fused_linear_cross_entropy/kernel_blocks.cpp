#include <cmath>
#include <limits>

#include "ops/fused_linear_cross_entropy/kernel.h"

namespace gradus::fused_linear_cross_entropy {
namespace {

gemm::Matrix moved(const gemm::Matrix& m, int64_t rows) {
    return {static_cast<const uint16_t*>(m.data) + rows * m.row_stride, m.row_stride, m.column_stride};
}

}  // namespace

void pack_share(const gemm::Path& path, const PackJob& job, int64_t share) noexcept {
    const int64_t first = share * kWords, rows = std::min(kWords, job.panel.rows - first);
    path.pack(job.panel, job.to, {first, rows, 0, job.k}, moved(job.source, first));
}

void multiply_block(const gemm::Path& path, const Product& product, int64_t first_a, int64_t rows_a, int64_t first_b,
                    int64_t rows_b, float* c, int64_t c_stride, bool accumulate) noexcept {
    const int64_t strip_a = path.a.rows, strip_b = path.b.rows;
    path.multiply(product.a, product.packed_a, product.b, product.packed_b,
                  {first_a / strip_a, blocks_of(rows_a, strip_a), first_b / strip_b, blocks_of(rows_b, strip_b), c,
                   c_stride, accumulate});
}

void pack_gradient(const gemm::Path& path, const PackedGradient& to, const void* g, int64_t first_token, int64_t tokens,
                   int64_t first_word, int64_t words) noexcept {
    path.pack(to.by_token, to.to_token, {first_token, tokens, first_word, words}, {g, kWords, 1});
    path.pack(to.by_word, to.to_word, {first_word, words, first_token, tokens}, {g, 1, kWords});
}

// Sums of many blocks in f64: rising maxima would otherwise round the sum anew in every block.
void Running::fold(float block_max, float block_sum) noexcept {
    if (std::isnan(max)) return;
    if (std::isnan(block_max)) {
        max = block_max, sum = block_max;
        return;
    }
    if (block_max > max) {
        const double scale = std::exp(static_cast<double>(max) - static_cast<double>(block_max));
        sum = sum * scale + static_cast<double>(block_sum);
        max = block_max;
    } else if (block_sum > 0 || std::isnan(block_sum)) {
        const double scale = block_max == max ? 1 : std::exp(static_cast<double>(block_max) - static_cast<double>(max));
        sum += static_cast<double>(block_sum) * scale;
    }
}

}  // namespace gradus::fused_linear_cross_entropy
