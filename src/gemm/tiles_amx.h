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

inline constexpr int64_t kTile = 16, kTileK = 32, kTileElements = kTile * kTileK;
// k between two folds into C. The instruction sums its 32 k in two chains of 16 before it adds them, so that a chain is
// 16 such additions, of one product or of four, and equal terms err by less than 8·2^-24.
template <typename T>
inline constexpr int64_t kTileBlock = std::is_same_v<T, f16> ? 128 : 512;

// One k block of operands: where the tiles of a strip begin, and how far the second plane is (0: there is none).
struct TileStrips {
    const uint16_t *a[2], *b[2];
    int64_t k, plane;
};

// Sums of 32 × 32 (or less, if a strip is missing) into `sums`, row stride 32. Loads stand between products: from L2,
// B0 A0 C00 A1 C10 B1 C01 C11 runs at 0.6 of the peak, four loads first at 0.5.
template <typename Tiles, int kA, int kB>
inline void tile_sums(Tiles& tiles, const TileStrips& strips, float* sums) {
    tiles.zero();
    const int planes = strips.plane > 0 ? 4 : 1;
    for (int64_t k = 0; k < strips.k * kTile; k += kTileElements)
        for (int plane = planes - 1; plane >= 0; --plane) {
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
        }
    tiles.store(sums);
}

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

template <typename T>
inline void tile_put(const TileStrips& strips, int64_t rows, int64_t columns, float* sums, float* c, int64_t stride,
                     bool add) {
    for (int64_t i = 0; i < rows; ++i) {
        float* const row = sums + i * 2 * kTile;
        if constexpr (std::is_same_v<T, f16>) {
            float check = 0;
            for (int64_t j = 0; j < columns; ++j) check += row[j] - row[j];  // NaN if one is not finite
            for (int64_t j = 0; std::isnan(check) && j < columns; ++j)
                if (std::isnan(row[j]))
                    row[j] = exact_sum(strips.a[i / kTile], strips.b[j / kTile], strips, i % kTile, j % kTile);
        }
        for (int64_t j = 0; j < columns; ++j) c[i * stride + j] = add ? c[i * stride + j] + row[j] : row[j];
    }
}

template <typename Tiles, typename T>
void tile_multiply(const Panel& a, const std::byte* packed_a, const Panel& b, const std::byte* packed_b,
                   const Block& block) noexcept {
    constexpr int64_t kBlock = kTileBlock<T>;
    if (a.k == 0 && !block.accumulate)
        for (int64_t i = 0; i < block.a_strips * kTile; ++i)
            std::memset(block.c + i * block.c_stride, 0, sizeof(float) * static_cast<size_t>(block.b_strips * kTile));
    Tiles tiles;  // configured for this block of work, released at its end
    alignas(64) float sums[4 * kTile * kTile];
    for (int64_t kb = 0; kb * kBlock < a.k; ++kb)
        for (int64_t j = 0; j < block.b_strips; j += 2)
            for (int64_t i = 0; i < block.a_strips; i += 2) {
                const bool two_a = i + 1 < block.a_strips, two_b = j + 1 < block.b_strips;
                const int64_t k = a.length(kb), plane = std::is_same_v<T, f16> ? k * kTile : 0;
                const auto strip = [kb](const Panel& panel, const std::byte* packed, int64_t s) {
                    return reinterpret_cast<const uint16_t*>(packed + panel.at(kb, s));
                };
                const TileStrips strips{
                    {strip(a, packed_a, block.a_strip + i), strip(a, packed_a, block.a_strip + i + two_a)},
                    {strip(b, packed_b, block.b_strip + j), strip(b, packed_b, block.b_strip + j + two_b)},
                    k,
                    plane};
                if (two_a && two_b)
                    tile_sums<Tiles, 2, 2>(tiles, strips, sums);
                else if (two_a)
                    tile_sums<Tiles, 2, 1>(tiles, strips, sums);
                else if (two_b)
                    tile_sums<Tiles, 1, 2>(tiles, strips, sums);
                else
                    tile_sums<Tiles, 1, 1>(tiles, strips, sums);
                tile_put<T>(strips, two_a ? 2 * kTile : kTile, two_b ? 2 * kTile : kTile, sums,
                            block.c + i * kTile * block.c_stride + j * kTile, block.c_stride,
                            kb > 0 || block.accumulate);
            }
}

// A and B have strips of 16 rows both; their groups tell them apart.
template <typename Tiles, typename T>
void tile_pack(const Panel& panel, std::byte* packed, const Part& part, const Matrix& source) noexcept {
    const bool is_a = panel.strip.group == kTileK;
    each_piece<uint16_t>(panel, packed, part, source, [is_a](const Piece& piece) {
        if constexpr (std::is_same_v<T, f16>)
            is_a ? pack_split<kTile, kTileK>(piece) : pack_split<kTile, 2>(piece);
        else
            is_a ? pack_bf16<kTile, kTileK>(piece) : pack_bf16<kTile, 2>(piece);
    });
}

template <typename Tiles, typename T>
constexpr Path tile_path(const char* name) {
    return {name,
            kDTypeOf<T>,
            {kTile, kTileK},
            {kTile, 2},
            kTileBlock<T>,
            std::is_same_v<T, f16> ? 4 : 2,
            &tile_pack<Tiles, T>,
            &tile_multiply<Tiles, T>};
}

}  // namespace
}  // namespace gradus::gemm
