// Plain loops in the place of the bf16 instructions: the same packing, blocks, tails and parts, on any CPU.
#include "gemm/dot_bf16.h"
#include "gemm/tiles_amx.h"

namespace gradus::gemm {
namespace {

float wide(uint16_t x) { return std::bit_cast<float>(static_cast<uint32_t>(x) << 16); }

uint16_t element(const TileSource& s, int64_t row, int64_t k) {
    if (row >= s.rows || k >= s.k) return 0;
    return load_element<uint16_t>(s.from + row * s.row_stride + k * s.k_stride);
}

struct PlainVector {
    struct Sum {
        float at[16];
    };
    struct Pairs {
        uint16_t at[32];
    };

    static Sum zero() { return {}; }
    static Pairs load_pairs(const uint16_t* from) {
        Pairs pairs;
        std::memcpy(pairs.at, from, sizeof pairs.at);
        return pairs;
    }
    static Pairs broadcast_pair(const uint16_t* from) {
        Pairs pairs;
        for (int i = 0; i < 32; ++i) pairs.at[i] = from[i % 2];
        return pairs;
    }
    static Sum dot(Sum sum, const Pairs& x, const Pairs& y) {
        for (int i = 0; i < 16; ++i)
            for (int p = 2 * i; p < 2 * i + 2; ++p) sum.at[i] += wide(x.at[p]) * wide(y.at[p]);
        return sum;
    }
    static Sum load(const float* from) {
        Sum sum;
        std::memcpy(sum.at, from, sizeof sum.at);
        return sum;
    }
    static Sum add(Sum x, const Sum& y) {
        for (int i = 0; i < 16; ++i) x.at[i] += y.at[i];
        return x;
    }
    static void store(float* to, const Sum& x) { std::memcpy(to, x.at, sizeof x.at); }

    template <int64_t kRows>
    static void pack(const TileSource& source, uint16_t* to) {
        for (int64_t k = 0; k < round_up(source.k, 2); ++k)
            for (int64_t i = 0; i < std::min(kRows, kTile); ++i)
                to[(k / 2 * kRows + i) * 2 + k % 2] = element(source, i, k);
    }
    template <int64_t kRows>
    static void pack_side_by_side(const TileSource& source, uint16_t* to, int64_t strip) {
        for (int64_t k = 0; k < round_up(source.k, 2); ++k)
            for (int64_t i = 0; i < round_up(source.rows, kRows); ++i)
                to[i / kRows * strip + (k / 2 * kRows + i % kRows) * 2 + k % 2] = element(source, i, k);
    }
};

// As the instruction's manual has it: the even and the odd k of a tile in a chain each, from zero; their sum goes to C.
class PlainTiles {
  public:
    template <typename T>
    static void pack(const TileSource& source, bool is_a, uint16_t* first, uint16_t* second) {
        for (int64_t i = 0; i < kTile; ++i)
            for (int64_t k = 0; k < kTileK; ++k) {
                const int64_t at = is_a ? i * kTileK + k : (k / 2 * kTile + i) * 2 + k % 2;
                const uint16_t x = element(source, i, k);
                first[at] = x;
                if constexpr (std::is_same_v<T, f16>) first[at] = split(x).high, second[at] = split(x).low;
            }
    }

    static void enter() noexcept {}
    static void leave() noexcept {}
    void zero() { std::memset(sum_, 0, sizeof sum_); }
    void load_a0(const uint16_t* from) { std::memcpy(a_[0], from, sizeof a_[0]); }
    void load_a1(const uint16_t* from) { std::memcpy(a_[1], from, sizeof a_[1]); }
    void load_b0(const uint16_t* from) { std::memcpy(b_[0], from, sizeof b_[0]); }
    void load_b1(const uint16_t* from) { std::memcpy(b_[1], from, sizeof b_[1]); }
    void dot_00() { dot(0, 0); }
    void dot_01() { dot(0, 1); }
    void dot_10() { dot(1, 0); }
    void dot_11() { dot(1, 1); }
    void store(float* sums) const {
        for (int64_t i = 0; i < 2 * kTile; ++i)
            for (int64_t j = 0; j < 2 * kTile; ++j)
                sums[i * 2 * kTile + j] = sum_[i / kTile][j / kTile][i % kTile][j % kTile];
    }
    template <int64_t kColumns>
    static bool finite(const float* sums) {
        return std::all_of(sums, sums + kColumns, [](float x) { return std::isfinite(x); });
    }
    template <int64_t kColumns>
    static void put(const float* sums, float* c, bool add) {
        for (int64_t j = 0; j < kColumns; ++j) c[j] = add ? c[j] + sums[j] : sums[j];
    }

  private:
    void dot(int x, int y) {
        for (int64_t m = 0; m < kTile; ++m) {
            float chain[2 * kTile] = {};
            for (int64_t k = 0; k < kTile; ++k)
                for (int64_t n = 0; n < 2 * kTile; ++n)
                    chain[n] += wide(a_[x][m * kTileK + 2 * k + n % 2]) * wide(b_[y][k * 2 * kTile + n]);
            for (int64_t n = 0; n < kTile; ++n) sum_[x][y][m][n] += chain[2 * n] + chain[2 * n + 1];
        }
    }

    float sum_[2][2][kTile][kTile];
    uint16_t a_[2][kTileElements], b_[2][kTileElements];
};

}  // namespace

const Path& path_avx512_bf16_stand_in() {
    static constexpr Path path = dot_path<PlainVector>("plain loops for AVX512_BF16");
    return path;
}

const Path& path_amx_stand_in(DType dtype) {
    static constexpr Path of_f16 = tile_path<PlainTiles, f16>("plain loops for AMX_BF16, f16 in two parts");
    static constexpr Path of_bf16 = tile_path<PlainTiles, bf16>("plain loops for AMX_BF16");
    return dtype == DType::f16 ? of_f16 : of_bf16;
}

}  // namespace gradus::gemm
