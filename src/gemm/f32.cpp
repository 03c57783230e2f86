// f32 FMA: operands widened when they are packed, in the widest vectors that Highway has.
#include <cstring>
#include <type_traits>

#include "gemm/ahead.h"
#include "gemm/gemm.h"
#include "gemm/pack.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gemm/f32.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simd/dispatch.h"
#include "simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gradus::gemm {
namespace HWY_NAMESPACE {
using namespace gradus::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace)

// A tile of C is kRows × kVectors vectors: as many sums as registers can hold beside one row of B and one number of A.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
constexpr int kRows = 12, kVectors = 2;
#elif HWY_ARCH_ARM
constexpr int kRows = 6, kVectors = 4;
#else
constexpr int kRows = 6, kVectors = 2;
#endif
constexpr int64_t kBlock = 256;  // k: A and B of a tile stay in L1

// Vectors are as long as they are compiled for, or there could be no arrays of them.
constexpr int64_t kColumns = kVectors * static_cast<int64_t>(hn::MaxLanes(F32()));

// Additions in one chain before it is folded. Products of bf16 have 16 bits, so 256 equal ones are still exact; those
// of f16 have 22, and 48 of them may be off by 12·2^-24 already.
template <typename T>
constexpr int64_t kChain = std::is_same_v<T, f16> ? 48 : kBlock;

// Tiles of fewer rows, for what ends a panel: a token's few heads are all that there is of them in attention. The
// smallest takes two strips of B at a time: with one, its sums are too few to hide the latency of an addition.
constexpr int kMost = kRows, kMore = kRows * 2 / 3, kFew = kRows / 3;

// A and B of a tile in one k block: A's elements at a[i · a_row + k · a_k], B's strips at b[s][k · b_k].
struct Operands {
    int64_t k;
    const float* a;
    int64_t a_row, a_k;
    const float* b[2];
    int64_t b_k;
    Ahead next_a, next_b;

    Operands from(int64_t first, int64_t count) const {
        return {count,
                a + first * a_k,
                a_row,
                a_k,
                {b[0] + first * b_k, b[1] + first * b_k},
                b_k,
                next_a.from(first),
                next_b.from(first)};
    }
};

template <int kUsed, int kStrips>
struct Sums {
    HWY_INLINE Sums() {}  // an implicit one has no target
    V32 at[kUsed][kStrips * kVectors];
};

// Σ_k a[i][k]·b[k][j]. Rows of A are reached in fours from a pointer each: base, base + s, base + 2·s, base + 3·s. Of
// packed operands all steps are constants; and two k at a time leave a tenth fewer instructions than that, which shows
// where the host's other threads take half of those that a core can decode.
template <bool kPacked, int kUsed, int kStrips>
HWY_INLINE void run_chain(const Operands& o, Sums<kUsed, kStrips>& sums) {
    constexpr int kFours = (kUsed + 3) / 4;
    const F32 d;
    const int64_t n = static_cast<int64_t>(hn::Lanes(d)), s = kPacked ? 1 : o.a_row, s3 = 3 * s;
    const int64_t a_k = kPacked ? kRows : o.a_k, b_k = kPacked ? kColumns : o.b_k;
#pragma GCC unroll 16
    for (int i = 0; i < kUsed; ++i)
#pragma GCC unroll 16
        for (int j = 0; j < kStrips * kVectors; ++j) sums.at[i][j] = hn::Zero(d);
    const float *a[kFours], *b[2] = {o.b[0], o.b[1]};
    Ahead next_a = o.next_a, next_b = o.next_b;
#pragma GCC unroll 16
    for (int f = 0; f < kFours; ++f) a[f] = o.a + 4 * f * s;
#pragma GCC unroll 2
    for (int64_t p = o.k; p > 0; --p) {
        if constexpr (kPacked) next_a.fetch(), next_b.fetch();
        V32 row[kStrips * kVectors];
#pragma GCC unroll 16
        for (int j = 0; j < kStrips * kVectors; ++j) row[j] = hn::LoadU(d, b[j / kVectors] + j % kVectors * n);
#pragma GCC unroll 16
        for (int i = 0; i < kUsed; ++i) {
            const float* const base = a[i / 4];
            const V32 x = hn::Set(d, i % 4 == 0 ? base[0] : i % 4 == 1 ? base[s] : i % 4 == 2 ? base[2 * s] : base[s3]);
#pragma GCC unroll 16
            for (int j = 0; j < kStrips * kVectors; ++j) sums.at[i][j] = hn::MulAdd(x, row[j], sums.at[i][j]);
        }
#pragma GCC unroll 16
        for (int f = 0; f < kFours; ++f) a[f] += a_k;
#pragma GCC unroll 2
        for (int t = 0; t < kStrips; ++t) b[t] += b_k;
    }
}

template <int kUsed, int kStrips>
HWY_INLINE void put(const Sums<kUsed, kStrips>& sums, float* c, int64_t stride, bool add) {
    const F32 d;
    const int64_t n = static_cast<int64_t>(hn::Lanes(d));
#pragma GCC unroll 16
    for (int i = 0; i < kUsed; ++i)
#pragma GCC unroll 16
        for (int j = 0; j < kStrips * kVectors; ++j) {
            float* to = c + i * stride + j * n;
            hn::StoreU(add ? hn::Add(hn::LoadU(d, to), sums.at[i][j]) : sums.at[i][j], d, to);
        }
}

// One tile over one k block: chains, folded here in L1, then into C.
template <int64_t kLongest, int kUsed, int kStrips, bool kPacked = false>
void tile(const Operands& o, float* c, int64_t stride, bool add) {
    constexpr int64_t kWidth = kStrips * kColumns, kLine = 64 / sizeof(float);
    Sums<kUsed, kStrips> sums;
    for (int i = 0; i < kUsed; ++i)
        for (int64_t j = 0; j < kWidth; j += kLine) __builtin_prefetch(c + i * stride + j, 1);
    if (o.k <= kLongest) {
        run_chain<kPacked>(o, sums);
        return put(sums, c, stride, add);
    }
    HWY_ALIGN float local[kUsed * kWidth];
    run_chain<kPacked>(o.from(0, kLongest), sums);
    put(sums, local, kWidth, false);
    for (int64_t p = kLongest; p < o.k; p += kLongest) {
        run_chain<kPacked>(o.from(p, std::min(kLongest, o.k - p)), sums);
        put(sums, local, kWidth, true);
    }
    const F32 d;
    for (int i = 0; i < kUsed; ++i)
        for (int64_t j = 0; j < kWidth; j += static_cast<int64_t>(hn::Lanes(d))) {
            float* to = c + i * stride + j;
            const V32 sum = hn::Load(d, local + i * kWidth + j);
            hn::StoreU(add ? hn::Add(hn::LoadU(d, to), sum) : sum, d, to);
        }
}

// How many of the next rows of A make a tile. Packed rows stay in their strip; others may leave it, so that no small
// tile is left over where two of the middle size will do: 16 heads are 8 and 8.
HWY_INLINE int rows_of_tile(int64_t rows, bool packed) {
    if (rows <= kFew) return kFew;
    if (rows <= kMore) return kMore;
    return !packed && rows > kMost && rows <= 2 * kMore ? kMore : kMost;
}

template <typename T>
void multiply(const Panel& a, const std::byte* packed_a, const Panel& b, const std::byte* packed_b,
              const Block& block) noexcept {
    if (a.k == 0 && !block.accumulate)
        for (int64_t i = 0; i < block.a_strips * kRows; ++i)
            std::memset(block.c + i * block.c_stride, 0,
                        sizeof(float) * static_cast<size_t>(block.b_strips * kColumns));
    const bool packed = a.k_step == 0;
    const int64_t a_row = packed ? 1 : a.row_step, a_k = packed ? kRows : a.k_step;
    const int64_t b_k = b.k_step == 0 ? kColumns : b.k_step;
    const int64_t rows = std::min(block.a_strips * kRows, a.rows - block.a_strip * kRows);
    const bool all_packed = packed && b.k_step == 0;
    const auto most = all_packed ? &tile<kChain<T>, kMost, 1, true> : &tile<kChain<T>, kMost, 1>;
    const Next next(a, packed_a, b, packed_b, block);
    for (int64_t kb = 0; kb * kBlock < a.k; ++kb) {
        const bool add = kb > 0 || block.accumulate;
        const int64_t length = a.length(kb);
        const auto strip_b = [&](int64_t j) {
            return reinterpret_cast<const float*>(packed_b + b.at(kb, block.b_strip + j));
        };
        const auto run = [&](auto function, int64_t i, int64_t j, bool pair) {
            const auto* from =
                reinterpret_cast<const float*>(packed_a + a.at(kb, block.a_strip + (packed ? i / kRows : 0)));
            function({length,
                      packed ? from : from + i * a_row,
                      a_row,
                      a_k,
                      {strip_b(j), strip_b(j + pair)},
                      b_k,
                      all_packed ? next.of_a(kb, i / kRows, j) : Ahead{},
                      all_packed ? next.of_b(kb, i / kRows, j) : Ahead{}},
                     block.c + i * block.c_stride + j * kColumns, block.c_stride, add);
        };
        int64_t few = rows;                             // where the smallest tile begins
        for (int64_t j = 0; j < block.b_strips; ++j) {  // a strip of B stays in L1, the block of A in L2
            for (int64_t i = 0; i < few;) {
                const int used = rows_of_tile(rows - i, packed);
                if (used == kFew)
                    few = i;
                else
                    run(used == kMost ? most : &tile<kChain<T>, kMore, 1>, i, j, false);
                i += used;
            }
        }
        for (int64_t j = 0; few < rows && j < block.b_strips; j += 2) {
            const bool pair = j + 1 < block.b_strips;
            run(pair ? &tile<kChain<T>, kFew, 2> : &tile<kChain<T>, kFew, 1>, few, j, pair);
        }
    }
}

// n elements of unit stride, in order.
template <typename T>
HWY_INLINE void widen(const T* from, int64_t n, float* to) {
    int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
    const F32 d;
    using Half = std::conditional_t<std::is_same_v<T, f16>, hwy::float16_t, hwy::bfloat16_t>;
    const hn::Rebind<Half, F32> dh;
    const int64_t step = static_cast<int64_t>(hn::Lanes(d));
    for (; i + step <= n; i += step)
        hn::StoreU(hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const Half*>(from + i))), d, to + i);
#endif
    for (; i < n; ++i) to[i] = static_cast<float>(to_f64(load_element<T>(from + i)));
}

// to[p][i] = from[i][p] for four i and n p. A strip's rows are four floats of 16 bytes each, so that loads and stores
// are whole vectors: 2.4 times as fast as one number at a time (B, AVX-512).
template <int64_t kStripRows, int64_t kRun>
HWY_INLINE void transpose_four(const float (*from)[kRun], int64_t n, float* to) {
    int64_t p = 0;
#if HWY_TARGET != HWY_SCALAR
    const hn::FixedTag<float, 4> d;
    const hn::FixedTag<double, 2> pairs;
    const auto join = [=](auto low, auto high, auto* upper) HWY_ATTR {
        const auto x = hn::BitCast(pairs, low), y = hn::BitCast(pairs, high);
        *upper = hn::BitCast(d, hn::InterleaveUpper(pairs, x, y));
        return hn::BitCast(d, hn::InterleaveLower(pairs, x, y));
    };
    for (; p + 4 <= n; p += 4, to += 4 * kStripRows) {
        const auto a = hn::LoadU(d, from[0] + p), b = hn::LoadU(d, from[1] + p);
        const auto c = hn::LoadU(d, from[2] + p), e = hn::LoadU(d, from[3] + p);
        auto second = a, fourth = a;
        const auto first = join(hn::InterleaveLower(d, a, b), hn::InterleaveLower(d, c, e), &second);
        const auto third = join(hn::InterleaveUpper(d, a, b), hn::InterleaveUpper(d, c, e), &fourth);
        hn::StoreU(first, d, to);
        hn::StoreU(second, d, to + kStripRows);
        hn::StoreU(third, d, to + 2 * kStripRows);
        hn::StoreU(fourth, d, to + 3 * kStripRows);
    }
#endif
    for (; p < n; ++p, to += kStripRows)
        for (int64_t i = 0; i < 4; ++i) to[i] = from[i][p];
}

// Strips as in Panel with groups of one, to[k][row]: a transposition through L1.
template <typename T, int64_t kStripRows>
void pack_run(const StripRun& run) {
    constexpr int64_t kRun = 64;
    float* to = reinterpret_cast<float*>(run.strip) + run.first_k * kStripRows;
    const auto* from = static_cast<const T*>(run.source.data);
    const int64_t row_stride = run.source.row_stride, k_stride = run.source.column_stride;
    HWY_ALIGN float wide[kStripRows][kRun];
    if (run.rows < kStripRows) std::memset(wide, 0, sizeof wide);
    for (int64_t k = 0; k < run.k; k += kRun, to += kRun * kStripRows) {
        const int64_t n = std::min(kRun, run.k - k);
        for (int64_t i = 0; i < run.rows; ++i) {
            const T* row = from + i * row_stride + k * k_stride;
            T dense[kRun];
            if (k_stride != 1)
                for (int64_t p = 0; p < n; ++p) dense[p] = row[p * k_stride];
            widen(k_stride == 1 ? row : dense, n, wide[i]);
        }
        int64_t i = 0;
        for (; i + 4 <= kStripRows; i += 4) transpose_four<kStripRows, kRun>(wide + i, n, to + i);
        for (; i < kStripRows; ++i)
            for (int64_t p = 0; p < n; ++p) to[p * kStripRows + i] = wide[i][p];
    }
}

// The same where the source has its rows side by side: runs of them are widened together and dealt out to the strips.
template <typename T, int64_t kStripRows>
void pack_side_by_side(const Panel& panel, std::byte* packed, const Area& area, const Matrix& source) {
    constexpr int64_t kSide = 192 / kStripRows * kStripRows, kDepth = 8;
    static_assert(kBlock % kDepth == 0);
    HWY_ALIGN float wide[kDepth][kSide];
    for (int64_t row = 0; row < area.rows; row += kSide) {
        const int64_t rows = std::min(kSide, area.rows - row);
        if (rows < kSide) std::memset(wide, 0, sizeof wide);
        for (int64_t k = 0; k < area.k;) {
            const int64_t at = area.first_k + k, inside = at % kBlock;
            const int64_t n = std::min({kDepth, kBlock - inside, area.k - k});
            for (int64_t p = 0; p < n; ++p)
                widen(static_cast<const T*>(source.data) + row + (k + p) * source.column_stride, rows, wide[p]);
            for (int64_t i = 0; i < rows; i += kStripRows) {
                auto* to =
                    reinterpret_cast<float*>(packed + panel.at(at / kBlock, (area.first_row + row + i) / kStripRows));
                for (int64_t p = 0; p < n; ++p)
                    std::memcpy(to + (inside + p) * kStripRows, wide[p] + i, kStripRows * sizeof(float));
            }
            k += n;
        }
    }
}

template <typename T>
void pack(const Panel& panel, std::byte* packed, const Area& area, const Matrix& source) noexcept {
    const bool is_a = panel.strip.rows == kRows;
    if (source.row_stride == 1 && source.column_stride != 1)
        return is_a ? pack_side_by_side<T, kRows>(panel, packed, area, source)
                    : pack_side_by_side<T, kColumns>(panel, packed, area, source);
    each_run<T>(panel, packed, area, source,
                [is_a](const StripRun& run) { is_a ? pack_run<T, kRows>(run) : pack_run<T, kColumns>(run); });
}

template <typename T>
constexpr Path kPath = {isa_name(isa_of_target(HWY_TARGET)),
                        kDTypeOf<T>,
                        {kRows, 1},
                        {kColumns, 1},
                        kBlock,
                        sizeof(float),
                        192,
                        192,
                        &pack<T>,
                        &multiply<T>};

const Path* path_for(DType dtype) { return dtype == DType::f16 ? &kPath<f16> : &kPath<bf16>; }

}  // namespace HWY_NAMESPACE
}  // namespace gradus::gemm
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradus::gemm {

HWY_EXPORT(path_for);

const Path& path_f32(DType dtype, Isa cap) { return *GRADUS_CHOOSE(path_for, cap)(dtype); }

}  // namespace gradus::gemm
#endif
