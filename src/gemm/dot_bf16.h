// The product by dots of bf16 pairs, over a kind of vector: the instruction's, or plain loops that do the same.
//   A strips: [k/2, 6, 2], a pair of one row broadcast;  B strips: [k/2, 64, 2], a vector holds pairs of 16 columns
#pragma once

#include <algorithm>
#include <cstring>

#include "gemm/ahead.h"
#include "gemm/gemm.h"
#include "gemm/pack.h"
#include "gemm/pack_pairs.h"

namespace gradus::gemm {
// Without linkage: each file compiles it for its own instruction set, and the linker must not mix them.
namespace {

// A 6 × 64 tile is 24 sums, beside 4 vectors of B and one of A: 29 of 32 registers.
inline constexpr int64_t kDotRows = 6, kDotVectors = 4, kDotColumns = 16 * kDotVectors, kDotBlock = 256;

// The first kUsed rows and 16 · kVectors columns of a tile.
template <typename V, int kUsed, int kVectors>
void dot_tile(int64_t k, const uint16_t* a, const uint16_t* b, Ahead next_a, Ahead next_b, float* c, int64_t stride,
              bool add) {
    typename V::Sum sum[kUsed][kVectors];
#pragma GCC unroll 8
    for (int i = 0; i < kUsed; ++i)
#pragma GCC unroll 8
        for (int j = 0; j < kVectors; ++j) sum[i][j] = V::zero();
    for (int64_t p = 0; p < k; p += 2) {
        next_a.fetch(2), next_b.fetch(2);
        typename V::Pairs row[kVectors];
#pragma GCC unroll 8
        for (int j = 0; j < kVectors; ++j) row[j] = V::load_pairs(b + 32 * j);
#pragma GCC unroll 8
        for (int i = 0; i < kUsed; ++i) {
            const typename V::Pairs x = V::broadcast_pair(a + 2 * i);
#pragma GCC unroll 8
            for (int j = 0; j < kVectors; ++j) sum[i][j] = V::dot(sum[i][j], x, row[j]);
        }
        a += 2 * kDotRows;
        b += 2 * kDotColumns;
    }
#pragma GCC unroll 8
    for (int i = 0; i < kUsed; ++i)
#pragma GCC unroll 8
        for (int j = 0; j < kVectors; ++j) {
            float* const to = c + i * stride + 16 * j;
            V::store(to, add ? V::add(V::load(to), sum[i][j]) : sum[i][j]);
        }
}

// What ends a panel may be a smaller tile: 16 heads of a token are 6, 6 and 4 rows, 32 keys half the columns.
template <typename V, int kVectors>
auto dot_tile_of(int64_t rows) {
    return rows > 4   ? &dot_tile<V, kDotRows, kVectors>
           : rows > 2 ? &dot_tile<V, 4, kVectors>
                      : &dot_tile<V, 2, kVectors>;
}

template <typename V>
void dot_multiply(const Panel& a, const std::byte* packed_a, const Panel& b, const std::byte* packed_b,
                  const Block& block) noexcept {
    if (a.k == 0 && !block.accumulate)
        for (int64_t i = 0; i < block.a_strips * kDotRows; ++i)
            std::memset(block.c + i * block.c_stride, 0,
                        sizeof(float) * static_cast<size_t>(block.b_strips * kDotColumns));
    const Next next(a, packed_a, b, packed_b, block);
    for (int64_t kb = 0; kb * kDotBlock < a.k; ++kb)
        for (int64_t j = 0; j < block.b_strips; ++j) {
            const auto strip_of = [&](const Panel& panel, const std::byte* packed, int64_t strip) {
                return reinterpret_cast<const uint16_t*>(packed + panel.at(kb, strip));
            };
            const uint16_t* const strip_b = strip_of(b, packed_b, block.b_strip + j);
            const bool half = b.rows - (block.b_strip + j) * kDotColumns <= kDotColumns / 2;
            const auto tile_of = half ? &dot_tile_of<V, kDotVectors / 2> : &dot_tile_of<V, kDotVectors>;
            for (int64_t i = 0; i < block.a_strips; ++i)
                tile_of(a.rows - (block.a_strip + i) * kDotRows)(
                    a.length(kb), strip_of(a, packed_a, block.a_strip + i), strip_b, next.of_a(kb, i, j),
                    next.of_b(kb, i, j), block.c + i * kDotRows * block.c_stride + j * kDotColumns, block.c_stride,
                    kb > 0 || block.accumulate);
        }
}

// Elements that are packed while a line comes from memory to be written. Without it packing g took a fifth of
// LossGrad's time where hidden is 256, now a twentieth.
inline constexpr int64_t kWritten = 1024;
inline void fetch_to_write(const uint16_t* first, int64_t count) {
    for (int64_t i = 0; i < count; i += 64 / int64_t{sizeof *first}) __builtin_prefetch(first + i, 1);
}

// A run of a strip by tiles: to[k / 2][row][k % 2].
template <typename V, int64_t kRows>
void dot_pack_run(const StripRun& run) {
    constexpr int64_t kTileRows = std::min(kRows, kTile);
    const auto* const from = static_cast<const Element16*>(run.source.data);
    auto* const to = reinterpret_cast<uint16_t*>(run.strip) + run.first_k * kRows;
    for (int64_t k = 0; k < run.k; k += kTileK) {
        fetch_to_write(to + k * kRows + kWritten, kTileK * kRows);
        for (int64_t row = 0; row < kRows; row += kTileRows) {
            const TileSource source{from + row * run.source.row_stride + k * run.source.column_stride,
                                    run.source.row_stride, run.source.column_stride,
                                    std::clamp<int64_t>(run.rows - row, 0, kTileRows), std::min(kTileK, run.k - k)};
            V::template pack<kRows>(source, to + k * kRows + 2 * row);
        }
    }
}

// The same of a source whose rows lie side by side, eight strips of A or one of B at a time: a line of the source holds
// parts of several strips.
template <typename V, int64_t kRows>
void dot_pack_side_by_side(const Panel& panel, std::byte* packed, const Area& area, const Matrix& source) {
    constexpr int64_t kStrips = kRows == kDotRows ? 8 : 1;
    for (int64_t row = 0; row < area.rows; row += kStrips * kRows)
        for (int64_t done = 0, run; done < area.k; done += run) {
            const int64_t block = (area.first_k + done) / kDotBlock, inside = (area.first_k + done) % kDotBlock;
            run = std::min(kDotBlock - inside, area.k - done);
            const int64_t rows = std::min(kStrips * kRows, area.rows - row), strip = panel.length(block) * kRows;
            const auto* const from = static_cast<const Element16*>(source.data) + row + done * source.column_stride;
            auto* const to =
                reinterpret_cast<uint16_t*>(packed + panel.at(block, (area.first_row + row) / kRows)) + inside * kRows;
            for (int64_t k = 0; k < run; k += kTileK) {
                for (int64_t i = 0; i < ceil_div(rows, kRows); ++i)
                    fetch_to_write(to + i * strip + k * kRows + kWritten, kTileK * kRows);
                V::template pack_side_by_side<kRows>(
                    {from + k * source.column_stride, 1, source.column_stride, rows, std::min(kTileK, run - k)},
                    to + k * kRows, strip);
            }
        }
}

template <typename V, int64_t kRows>
void dot_pack_strips(const Panel& panel, std::byte* packed, const Area& area, const Matrix& source) {
    if (source.row_stride == 1 && source.column_stride != 1)
        return dot_pack_side_by_side<V, kRows>(panel, packed, area, source);
    each_run<uint16_t>(panel, packed, area, source, &dot_pack_run<V, kRows>);
}

template <typename V>
void dot_pack(const Panel& panel, std::byte* packed, const Area& area, const Matrix& source) noexcept {
    panel.strip.rows == kDotRows ? dot_pack_strips<V, kDotRows>(panel, packed, area, source)
                                 : dot_pack_strips<V, kDotColumns>(panel, packed, area, source);
}

template <typename V>
constexpr Path dot_path(const char* name) {
    return {name, DType::bf16, {kDotRows, 2}, {kDotColumns, 2}, kDotBlock, sizeof(uint16_t),
            192,  384,         &dot_pack<V>,  &dot_multiply<V>};
}

}  // namespace
}  // namespace gradus::gemm
