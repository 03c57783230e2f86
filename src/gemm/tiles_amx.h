// The product by tiles of 16 rows × 64 bytes, over a kind of tiles: AMX's eight, or plain loops that do the same.
//   A strips: [k/32, 16, 32], a tile of 16 rows and 32 k;  B strips: [k/2, 16, 2], a tile of 16 pairs of k and 16
//   columns
// f16 comes as two bf16 planes, A = A1 + A2, B = B1 + B2, and its product as four: the least of them, A2·B2, is up to
// 2^-18 of the result, more than is promised to be lost.
#pragma once

#include <cmath>
#include <cstring>

#include "gemm/gemm.h"
#include "gemm/pack_pairs.h"

namespace gradus::gemm {
// Without linkage: each file compiles it for its own instruction set, and the linker must not mix them.
namespace {

// k between two folds into C: two strips of B, 16 KiB, stay in L1 beside the passing A (from L2, bf16: 0.67 of the
// peak, with 512 k 0.61). The instruction sums its 32 k in two chains of 16 before it adds them; a chain is 8 such
// additions of one product or 16 of four, and equal terms err by less than 8·2^-24.
template <typename T>
inline constexpr int64_t kTileBlock = std::is_same_v<T, f16> ? 128 : 256;

// One k block of operands: where the tiles of a strip begin, and how far the second plane is (0: there is none).
struct TileStrips {
    const uint16_t *a[2], *b[2];
    int64_t k, plane;
};

// inf · 0 of an absent rest is NaN where f16 itself has inf: such elements are computed again from whole numbers.
inline float whole(const uint16_t* strip, int64_t plane, int64_t at) {
    const auto wide = [](uint16_t x) { return std::bit_cast<float>(static_cast<uint32_t>(x) << 16); };
    return wide(strip[at]) + wide(strip[at + plane]);
}
inline float exact_sum(const uint16_t* a, const uint16_t* b, const TileStrips& strips, int64_t i, int64_t j) {
    float sum = 0;
    for (int64_t k = 0; k < strips.k; ++k)
        sum += whole(a, strips.plane, k / kTileK * kTileElements + i * kTileK + k % kTileK) *
               whole(b, strips.plane, (k / 2 * kTile + j) * 2 + k % 2);
    return sum;
}

[[gnu::noinline]] inline void repair(const TileStrips& strips, int64_t i, int64_t columns, float* row) {
    for (int64_t j = 0; j < columns; ++j)
        if (std::isnan(row[j]))
            row[j] = exact_sum(strips.a[i / kTile], strips.b[j / kTile], strips, i % kTile, j % kTile);
}

// The next k block of an operand on its way into L2, so many lines a step of the tiles: beyond L2 nothing comes as fast
// as tiles are multiplied (512×384×4096: 0.42 of the peak without). It may run over the end, which no prefetch minds.
class NextBlock {
  public:
    NextBlock() = default;
    NextBlock(const Panel& panel, const std::byte* packed, int64_t strip, int64_t strips, int64_t kb, int64_t steps) {
        if ((kb + 1) * panel.k_block >= panel.k) return;
        // strips of one k block lie one after another
        const int64_t bytes = strips * panel.length(kb + 1) * panel.strip.rows * panel.item;
        at_ = packed + panel.at(kb + 1, strip);
        step_ = ceil_div(bytes / 64, steps) * 64;
    }
    void step() {
        for (const std::byte* const end = at_ + step_; at_ < end; at_ += 64) __builtin_prefetch(at_, 0, 2);
    }

  private:
    const std::byte* at_ = nullptr;
    int64_t step_ = 0;
};

// A tile's place in C.
struct TileResult {
    float* c;
    int64_t stride;
    bool add, fetch;  // fetch: C comes from memory
};

// 32 × 32 sums (or less, if a strip is missing) into C. Loads stand between products: from L2, B0 A0 C00 A1 C10 B1 C01
// C11 runs at 0.6 of the peak, four loads first at 0.5. To fold the sums into C while the next tiles multiply was
// slower: their loads come at the same offsets in a page as its stores, and wait for them.
template <typename Tiles, typename T, int kA, int kB>
[[gnu::noinline]] void tile_product(const TileStrips& strips, const TileResult& result, NextBlock& ahead_a,
                                    NextBlock& ahead_b) {
    constexpr int kPlanes = std::is_same_v<T, f16> ? 4 : 1;
    constexpr int64_t kRows = kA * kTile, kColumns = kB * kTile;
    alignas(64) float sums[4 * kTile * kTile];  // row stride 32
    Tiles tiles;
    NextBlock a = ahead_a, b = ahead_b;
    for (int64_t i = 0; result.fetch && i < kRows; ++i)
        for (int64_t j = 0; j < kColumns; j += kTile) __builtin_prefetch(result.c + i * result.stride + j, 1);
    tiles.zero();
    for (int64_t k = 0; k < strips.k * kTile; k += kTileElements)
        for (int plane = kPlanes - 1; plane >= 0; --plane) {
            const int64_t at_a = k + (plane >> 1) * strips.plane, at_b = k + (plane & 1) * strips.plane;
            tiles.load_b0(strips.b[0] + at_b);
            tiles.load_a0(strips.a[0] + at_a);
            tiles.dot_00();
            if constexpr (kA > 1) {
                tiles.load_a1(strips.a[1] + at_a);
                tiles.dot_10();
            }
            if constexpr (kB > 1) {
                tiles.load_b1(strips.b[1] + at_b);
                tiles.dot_01();
                if constexpr (kA > 1) tiles.dot_11();
            }
            a.step(), b.step();
        }
    tiles.store(sums);
    ahead_a = a, ahead_b = b;
    for (int64_t i = 0; i < kRows; ++i) {
        float* const row = sums + i * 2 * kTile;
        if constexpr (std::is_same_v<T, f16>)
            if (!Tiles::template finite<kColumns>(row)) repair(strips, i, kColumns, row);
        Tiles::template put<kColumns>(row, result.c + i * result.stride, result.add);
    }
}

template <typename Tiles, typename T>
void tile_multiply(const Panel& a, const std::byte* packed_a, const Panel& b, const std::byte* packed_b,
                   const Block& block) noexcept {
    constexpr int64_t kBlock = kTileBlock<T>;
    if (a.k == 0 && !block.accumulate)
        for (int64_t i = 0; i < block.a_strips * kTile; ++i)
            std::memset(block.c + i * block.c_stride, 0, sizeof(float) * static_cast<size_t>(block.b_strips * kTile));
    for (int64_t kb = 0; kb * kBlock < a.k; ++kb) {
        const int64_t k = a.length(kb), plane = std::is_same_v<T, f16> ? k * kTile : 0;
        const auto strip = [kb](const Panel& panel, const std::byte* packed, int64_t s) {
            return reinterpret_cast<const uint16_t*>(packed + panel.at(kb, s));
        };
        const int64_t steps =
            k / kTileK * (plane > 0 ? 4 : 1) * ceil_div(block.a_strips, 2) * ceil_div(block.b_strips, 2);
        NextBlock ahead_a(a, packed_a, block.a_strip, block.a_strips, kb, steps);
        NextBlock ahead_b(b, packed_b, block.b_strip, block.b_strips, kb, steps);
        for (int64_t j = 0; j < block.b_strips; j += 2)
            for (int64_t i = 0; i < block.a_strips; i += 2) {
                const bool two_a = i + 1 < block.a_strips, two_b = j + 1 < block.b_strips;
                const TileStrips strips{
                    {strip(a, packed_a, block.a_strip + i), strip(a, packed_a, block.a_strip + i + two_a)},
                    {strip(b, packed_b, block.b_strip + j), strip(b, packed_b, block.b_strip + j + two_b)},
                    k,
                    plane};
                const TileResult result{block.c + i * kTile * block.c_stride + j * kTile, block.c_stride,
                                        kb > 0 || block.accumulate, kb == 0 && block.accumulate};
                const auto function = two_a   ? two_b ? &tile_product<Tiles, T, 2, 2> : &tile_product<Tiles, T, 2, 1>
                                        : two_b ? &tile_product<Tiles, T, 1, 2>
                                              : &tile_product<Tiles, T, 1, 1>;
                function(strips, result, ahead_a, ahead_b);
            }
    }
}

// Walks along the source: a strip after the other where k has unit stride, else all strips of 32 k. The groups of A and
// B tell them apart.
template <typename Tiles, typename T>
void tile_pack(const Panel& panel, std::byte* packed, const Area& area, const Matrix& source) noexcept {
    const bool is_a = panel.strip.group == kTileK;
    const int64_t strips = ceil_div(area.rows, kTile), tiles = ceil_div(area.k, kTileK);
    const auto one = [&](int64_t strip, int64_t tile) {
        const int64_t k = area.first_k + tile * kTileK, kb = k / panel.k_block;
        auto* const to = reinterpret_cast<uint16_t*>(packed + panel.at(kb, area.first_row / kTile + strip)) +
                         (k - kb * panel.k_block) * kTile;
        const TileSource from{static_cast<const Element16*>(source.data) + strip * kTile * source.row_stride +
                                  tile * kTileK * source.column_stride,
                              source.row_stride, source.column_stride, std::min(kTile, area.rows - strip * kTile),
                              std::min(kTileK, area.k - tile * kTileK)};
        Tiles::template pack<T>(from, is_a, to, to + panel.length(kb) * kTile);
    };
    if (source.column_stride == 1)
        for (int64_t strip = 0; strip < strips; ++strip)
            for (int64_t tile = 0; tile < tiles; ++tile) one(strip, tile);
    else
        for (int64_t tile = 0; tile < tiles; ++tile)
            for (int64_t strip = 0; strip < strips; ++strip) one(strip, tile);
}

template <typename Tiles, typename T>
constexpr Path tile_path(const char* name) {
    return {name,
            kDTypeOf<T>,
            {kTile, kTileK},
            {kTile, 2},
            kTileBlock<T>,
            std::is_same_v<T, f16> ? 4 : 2,
            256,
            384,
            &tile_pack<Tiles, T>,
            &tile_multiply<Tiles, T>,
            &Tiles::enter,
            &Tiles::leave};
}

}  // namespace
}  // namespace gradus::gemm
