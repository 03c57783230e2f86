// Every path against the product in f64: sizes around every tile, all strides, all tails.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "testing/product.h"

namespace gradus::gemm {
namespace {

constexpr double kU = 0x1p-24;

// docs/numerics.md: (8 + log2 n)·2^-24·Σ|terms|.
void expect_product(const std::vector<float>& got, const Values& a, const Values& b, double start = 0) {
    for (int64_t i = 0; i < a.rows; ++i)
        for (int64_t j = 0; j < b.rows; ++j) {
            double want = start, sum = std::fabs(start);
            for (int64_t k = 0; k < a.columns; ++k) {
                want += a.at(i, k) * b.at(j, k);
                sum += std::fabs(a.at(i, k) * b.at(j, k));
            }
            const double n = static_cast<double>(std::max<int64_t>(a.columns, 1));
            ASSERT_NEAR(got[static_cast<size_t>(i * b.rows + j)], want, (8 + std::log2(n)) * kU * sum + 1e-38)
                << i << " " << j;
        }
}

TEST(Gemm, Tails) {
    std::mt19937_64 engine(1);
    std::normal_distribution<double> normal;
    const auto f = [&] { return normal(engine); };
    for (const NamedPath& p : paths())
        for (const int64_t m : {1, 5, 6, 7, 15, 16, 17, 33})
            for (const int64_t n : {1, 2, 15, 16, 17, 31, 33, 64, 65})
                for (const int64_t k : {0, 1, 2, 3, 31, 32, 33, 63, 65, 255, 256, 257}) {
                    SCOPED_TRACE(p.name + " " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k));
                    if (k > 64 && m > 7 && n > 17 && (m + n + k) % 3 != 0) continue;
                    const Values a(p.path->dtype, m, k, false, 1, f), b(p.path->dtype, n, k, false, 1, f);
                    expect_product(product(*p.path, a, b), a, b);
                    if (HasFatalFailure()) return;
                }
}

TEST(Gemm, Strides) {
    std::mt19937_64 engine(2);
    std::normal_distribution<double> normal;
    const auto f = [&] { return normal(engine); };
    for (const NamedPath& p : paths())
        for (const bool ta : {false, true})
            for (const bool tb : {false, true})
                for (const int64_t step : {1, 3})
                    for (const auto& [m, n, k] :
                         {std::tuple<int64_t, int64_t, int64_t>{97, 193, 577}, {200, 50, 390}}) {
                        SCOPED_TRACE(p.name + (ta ? " aT" : " a") + (tb ? " bT" : " b") + std::to_string(step));
                        const Values a(p.path->dtype, m, k, ta, step, f), b(p.path->dtype, n, k, tb, step, f);
                        expect_product(product(*p.path, a, b), a, b);
                        if (HasFatalFailure()) return;
                    }
}

// What is already in C is added to, and the sum of a row depends on nothing but k.
TEST(Gemm, Accumulates) {
    std::mt19937_64 engine(3);
    std::normal_distribution<double> normal;
    const auto f = [&] { return normal(engine); };
    for (const NamedPath& p : paths()) {
        const Values a(p.path->dtype, 40, 300, false, 1, f), b(p.path->dtype, 70, 300, false, 1, f);
        SCOPED_TRACE(p.name);
        expect_product(product(*p.path, a, b, true), a, b, 1);
        const std::vector<float> whole = product(*p.path, a, b);
        Values row = a;
        row.rows = 1;
        EXPECT_TRUE(std::equal(whole.begin(), whole.begin() + 70, product(*p.path, row, b).begin()));
    }
}

// f32 operands where they lie, A by rows or by columns, B packed or by rows of k: the same bits as packed ones.
TEST(Gemm, AsItLies) {
    std::mt19937_64 engine(5);
    std::normal_distribution<double> normal;
    const auto f = [&] { return normal(engine); };
    constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
    for (const NamedPath& p : paths()) {
        const Path& path = *p.path;
        if (!path.takes_f32()) continue;
        for (const int64_t m : {1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 17, 24, 29, 64})
            for (const int64_t n : {3, 33, 130})
                for (const int64_t k : {0, 1, 31, 64, 300}) {
                    SCOPED_TRACE(p.name + " " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k));
                    const Values a(path.dtype, m, k, false, 1, f), b(path.dtype, n, k, false, 1, f);
                    const std::vector<float> want = product(path, a, b);
                    // whole strips are read; what is not there is NaN, and must not be seen
                    const int64_t rows = round_up(m, path.a.rows), columns = round_up(n, path.b.rows) + 5;
                    std::vector<float> across(static_cast<size_t>(rows * (k + 3) + 1), kNaN),
                        along(static_cast<size_t>((k + 1) * (rows + 3)), kNaN),
                        right(static_cast<size_t>((k + 1) * columns), kNaN);
                    for (int64_t t = 0; t < k; ++t) {
                        for (int64_t i = 0; i < m; ++i)
                            across[static_cast<size_t>(i * (k + 3) + t)] =
                                along[static_cast<size_t>(t * (rows + 3) + i)] = static_cast<float>(a.at(i, t));
                        for (int64_t j = 0; j < n; ++j)
                            right[static_cast<size_t>(t * columns + j)] = static_cast<float>(b.at(j, t));
                    }
                    Packed pb(path, false, Values(path.dtype, n, k + 7, false, 1, f));  // of which k are multiplied
                    path.pack(pb.panel, pb.memory.data.get(), {0, n, 0, k}, b.matrix());
                    const std::pair<Panel, const float*> lefts[] = {
                        {path.as_it_lies(path.a, m, k, k + 3, 1), across.data()},
                        {path.as_it_lies(path.a, m, k, 1, rows + 3), along.data()}};
                    const std::pair<Panel, const std::byte*> rights[] = {
                        {pb.panel, pb.memory.data.get()},
                        {path.as_it_lies(path.b, n, k, 1, columns), reinterpret_cast<const std::byte*>(right.data())}};
                    for (const auto& [left, from] : lefts)
                        for (const auto& [panel, data] : rights) {
                            const int64_t stride = panel.strips() * path.b.rows;
                            std::vector<float> c(static_cast<size_t>(rows * stride), kNaN);
                            path.multiply(left, reinterpret_cast<const std::byte*>(from), panel, data,
                                          {0, left.strips(), 0, panel.strips(), c.data(), stride, false});
                            for (int64_t i = 0; i < m; ++i)
                                for (int64_t j = 0; j < n; ++j)
                                    ASSERT_EQ(c[static_cast<size_t>(i * stride + j)],
                                              want[static_cast<size_t>(i * n + j)])
                                        << i << " " << j;
                        }
                }
    }
}

// Equal terms are the worst case of a chain: every addition errs the same way.
TEST(Gemm, EqualTerms) {
    std::mt19937_64 engine(4);
    std::normal_distribution<double> normal;
    for (const NamedPath& p : paths()) {
        for (int round = 0; round < 50; ++round) {
            const double x = normal(engine), y = normal(engine);
            const Values a(p.path->dtype, 1, 4096, false, 1, [=] { return x; });
            const Values b(p.path->dtype, 1, 4096, false, 1, [=] { return y; });
            SCOPED_TRACE(p.name);
            expect_product(product(*p.path, a, b), a, b);
        }
    }
}

// f16 numbers are exactly two bf16 ones, subnormals and the largest included; infinities and NaN stay.
TEST(Gemm, SpecialValues) {
    for (const NamedPath& p : paths()) {
        const bool half = p.path->dtype == DType::f16;
        SCOPED_TRACE(p.name);
        const std::vector<double> values = {0x1p-24, 0x1.ffcp-15, 65504, 1.0009765625, -0.33325195312, 0};
        size_t next = 0;
        const Values a(p.path->dtype, 6, 1, false, 1, [&] { return values[next++]; });
        const Values b(p.path->dtype, 1, 1, false, 1, [] { return 1.0; });
        const std::vector<float> got = product(*p.path, a, b);
        for (int64_t i = 0; i < (half ? 6 : 5); ++i) EXPECT_EQ(got[static_cast<size_t>(i)], a.at(i, 0)) << i;
        for (const double special : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
            int64_t n = 0;
            const Values x(p.path->dtype, 20, 70, false, 1, [&] { return n++ == 75 ? special : 1.0; });
            const Values y(p.path->dtype, 3, 70, false, 1, [] { return 2.0; });
            const std::vector<float> c = product(*p.path, x, y);
            for (int64_t i = 0; i < 60; ++i) {
                if (i / 3 != 1)
                    EXPECT_EQ(c[static_cast<size_t>(i)], 140) << i;
                else if (std::isnan(special))
                    EXPECT_TRUE(std::isnan(c[static_cast<size_t>(i)]));
                else
                    EXPECT_EQ(c[static_cast<size_t>(i)], special);
            }
        }
    }
}

#if defined(__x86_64__)
// Of 16-bit words; a rest of nothing has any sign.
bool same_numbers(const Memory& x, const Memory& y) {
    const auto word = [](const Memory& memory, int64_t i) {
        const auto bits = load_element<uint16_t>(memory.data.get() + 2 * i);
        return bits == 0x8000 ? 0 : bits;
    };
    for (int64_t i = 0; i < y.size / 2; ++i)
        if (word(x, i) != word(y, i)) return false;
    return true;
}

// Vectors pack what plain loops do, word by word: packing needs AVX-512 alone, so that of AMX is tested without AMX,
// too.
TEST(Gemm, PacksAsTheStandIn) {
    if (!cpu_has(Isa::avx512)) GTEST_SKIP() << "no AVX-512";
    std::mt19937_64 engine(7);
    std::normal_distribution<double> normal;
    const auto f = [&] { return normal(engine); };
    const std::pair<const Path*, const Path*> both[] = {
        {&path_avx512_bf16(), &path_avx512_bf16_stand_in()},
        {&path_amx(DType::bf16), &path_amx_stand_in(DType::bf16)},
        {&path_amx(DType::f16), &path_amx_stand_in(DType::f16)},
    };
    for (const auto& [path, plain] : both)
        for (const bool is_a : {true, false})
            for (const bool transposed : {false, true})
                for (const int64_t step : {1, 3})
                    for (const int64_t rows : {1, 5, 6, 7, 16, 17, 31, 64, 65, 100})
                        for (const int64_t k : {1, 2, 3, 31, 32, 33, 63, 255, 257, 300}) {
                            const Values v(path->dtype, rows, k, transposed, step, f);
                            Packed got(*path, is_a, v), want(*plain, is_a, v);
                            pack(*path, got, v, 96, 64);
                            pack(*plain, want, v, 96, 64);
                            ASSERT_TRUE(same_numbers(got.memory, want.memory))
                                << path->name << (is_a ? " A " : " B ") << (transposed ? "across " : "") << step << " "
                                << rows << "x" << k;
                        }
}
#endif

// Zen 4 has the dots and they are fast; Intel's are slow, with AMX beside them or without; asking for them gets them.
TEST(Gemm, TableOfPaths) {
    const Cpu zen4{[](Isa isa) { return isa <= Isa::avx512_bf16; }, false};
    const Cpu emerald{[](Isa) { return true; }, true};
    const Cpu without_amx{[](Isa isa) { return isa <= Isa::avx512_bf16; }, true};
    const Cpu zen3{[](Isa isa) { return isa <= Isa::avx2; }, false};
    const auto needs = [](const Cpu& cpu, DType dtype, Isa cap = Isa::amx) {
        return choice_for(dtype, cap, cpu).needs;
    };
#if defined(__x86_64__)
    EXPECT_EQ(needs(zen4, DType::bf16), Isa::avx512_bf16);
    EXPECT_EQ(needs(emerald, DType::bf16), Isa::amx);
    EXPECT_EQ(needs(emerald, DType::f16), Isa::amx);
    EXPECT_EQ(needs(emerald, DType::bf16, Isa::avx512_bf16), Isa::avx512_bf16);
#endif
    EXPECT_EQ(needs(zen4, DType::f16), Isa::scalar);
    EXPECT_EQ(needs(zen4, DType::bf16, Isa::avx512), Isa::scalar);
    EXPECT_EQ(needs(emerald, DType::f16, Isa::avx512_bf16), Isa::scalar);
    EXPECT_EQ(needs(without_amx, DType::bf16), Isa::scalar);
    EXPECT_EQ(needs(zen3, DType::bf16), Isa::scalar);
}

// Numbers near the least normal one: bf16 instructions take subnormal inputs and sums as zero, which is below any error
// that is promised for products as large as 2^-100; f32 keeps them.
TEST(Gemm, SubnormalSums) {
    for (const NamedPath& p : paths()) {
        if (p.path->dtype != DType::bf16) continue;
        SCOPED_TRACE(p.name);
        for (const double x : {0x1p-60, 0x1p-64, 0x1p-70}) {
            const Values a(DType::bf16, 2, 64, false, 1, [=] { return x; }),
                b(DType::bf16, 2, 64, false, 1, [=] { return x; });
            const double want = 64 * x * x;
            for (const float got : product(*p.path, a, b)) EXPECT_NEAR(got, want, 64 * 0x1p-126);
        }
    }
}

}  // namespace
}  // namespace gradus::gemm
