#include <cmath>
#include <limits>

#include "ops/fused_linear_cross_entropy/kernel.h"

namespace gradus::fused_linear_cross_entropy {
namespace {

gemm::Matrix moved(const gemm::Matrix& m, int64_t rows) {
    return {static_cast<const uint16_t*>(m.data) + rows * m.row_stride, m.row_stride, m.column_stride};
}

}  // namespace

Cut cut_of(const gemm::Path& path, int64_t rows, int64_t columns, int threads) {
    constexpr int64_t kFewest = 48;
    Cut cut{path.block_a, path.block_b};
    const int64_t wanted = 3 * static_cast<int64_t>(threads);
    while (cut.rows % 2 == 0 && cut.rows / 2 >= kFewest &&
           ceil_div(rows, cut.rows) * ceil_div(columns, cut.columns) < wanted)
        cut.rows /= 2;
    if (rows < cut.rows) cut.rows = round_up(rows, path.a.rows);
    return cut;
}

void pack_share(const gemm::Path& path, const PackJob& job, int64_t share) noexcept {
    const int64_t first = share * job.share(), rows = std::min(job.share(), job.rows - first);
    const gemm::Matrix source = moved(job.source, first);
    if (job.to_row != nullptr) path.pack(job.by_row, job.to_row, {first, rows, 0, job.columns}, source);
    if (job.to_column != nullptr)
        path.pack(job.by_column, job.to_column, {0, job.columns, first, rows}, source.transposed());
}

void multiply_block(const gemm::Path& path, const Product& product, int64_t first_a, int64_t rows_a, int64_t first_b,
                    int64_t rows_b, float* c, int64_t c_stride, bool accumulate) noexcept {
    const int64_t strip_a = path.a.rows, strip_b = path.b.rows;
    const gemm::Using using_path(path);
    path.multiply(product.a, product.packed_a, product.b, product.packed_b,
                  {first_a / strip_a, ceil_div(rows_a, strip_a), first_b / strip_b, ceil_div(rows_b, strip_b), c,
                   c_stride, accumulate});
}

void pack_gradient(const gemm::Path& path, const PackedGradient& to, const void* g, int64_t stride, int64_t first_token,
                   int64_t tokens, int64_t first_word, int64_t words) noexcept {
    path.pack(to.by_token, to.to_token, {first_token, tokens, first_word, words}, {g, stride, 1});
    path.pack(to.by_word, to.to_word, {first_word, words, first_token, tokens}, {g, 1, stride});
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
