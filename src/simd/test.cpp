// Functions on lanes against f64: every 16-bit argument, and the ranges of the others, on every instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/test.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "simd/dispatch.h"
#include "simd/math-inl.h"
#include "simd/stream-inl.h"

#ifndef GRADUS_SIMD_TEST_FUNCTIONS
#define GRADUS_SIMD_TEST_FUNCTIONS
namespace gradus {
// On arrays of n elements, a multiple of every pair.
struct Functions {
    using One = void (*)(const float* x, float* y, int64_t n);
    using Two = void (*)(const float* a, const float* b, float* y, int64_t n);
    One exp, exp_lifted, exp_lifted_coarse, exp_faded, sigmoid_coarse, clamp;
    Two max_or_nan, min_or_nan;
    void (*times_exp)(const float* u, const float* v, const float* x, float* y, int64_t n);
    void (*to_bf16)(const float* x, bf16* y, int64_t n);
    void (*to_bf16_from_16bit)(const float* x, bf16* y, int64_t n);
    void (*copy_past)(std::byte* to, const std::byte* from, int64_t bytes);
    void (*results_f32)(const float* x, float* same, float* twice, int64_t n);
    void (*results_bf16)(const bf16* x, bf16* same, bf16* twice, int64_t n);
};
}  // namespace gradus
#endif

HWY_BEFORE_NAMESPACE();
namespace gradus {
namespace HWY_NAMESPACE {

template <Pair (*kFunction)(Pair)>
void apply(const float* x, float* y, int64_t n) {
    each_pair(n, [=](int64_t i, auto part) HWY_ATTR { store(y + i, part, kFunction(load(x + i, part))); });
}
template <Pair (*kFunction)(Pair, Pair)>
void apply(const float* a, const float* b, float* y, int64_t n) {
    each_pair(
        n, [=](int64_t i, auto part) HWY_ATTR { store(y + i, part, kFunction(load(a + i, part), load(b + i, part))); });
}
Pair clamp_to_one(Pair x) { return clamp(x, -1.0f, 1.0f); }
void apply_times_exp(const float* u, const float* v, const float* x, float* y, int64_t n) {
    each_pair(n, [=](int64_t i, auto part) HWY_ATTR {
        store(y + i, part, times_exp(load(u + i, part), load(v + i, part), load(x + i, part)));
    });
}
// Lanes as they come: element 2k is lane k of the first vector.
template <NaNs kNaNs>
void apply_to_bf16(const float* x, bf16* y, int64_t n) {
    const auto lanes = static_cast<int64_t>(pair_lanes());
    HWY_ALIGN float even_odd[2 * HWY_MAX_BYTES / sizeof(float)];
    for (int64_t i = 0; i < n; i += lanes) {
        for (int64_t k = 0; k < lanes; ++k) even_odd[k % 2 * lanes / 2 + k / 2] = x[i + k];
        store_pair<kNaNs>(y + i, load_pair(even_odd));
    }
}
void apply_copy(std::byte* to, const std::byte* from, int64_t bytes) { copy_past(to, from, bytes); }
// x and 2·x, past the cache.
template <typename T>
void apply_results(const T* x, T* same, T* twice, int64_t n) {
    each_result<true>(n, std::array{same, twice}, [=](int64_t i, auto part, const auto& to) HWY_ATTR {
        const Pair v = load(x + i, part);
        to.template put<0>(i, part, v);
        to.template put<1>(i, part, v + v);
    });
}

Functions functions() {
    return {&apply<exp>,
            &apply<exp_lifted>,
            &apply<exp_lifted_coarse>,
            &apply<exp_faded>,
            &apply<sigmoid_coarse>,
            &apply<clamp_to_one>,
            &apply<max_or_nan>,
            &apply<min_or_nan>,
            &apply_times_exp,
            &apply_to_bf16<NaNs::any>,
            &apply_to_bf16<NaNs::of_16bit_inputs>,
            &apply_copy,
            &apply_results<float>,
            &apply_results<bf16>};
}

}  // namespace HWY_NAMESPACE
}  // namespace gradus
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gradus {

HWY_EXPORT(functions);

namespace {

constexpr double kU = 0x1p-24;

void on_every_isa(const std::function<void(const Functions&)>& check) {
    for (const Isa isa : cpu_isas()) {
        if (isa > Isa::avx512 && isa_of_target(HWY_STATIC_TARGET) <= Isa::avx512) continue;  // as avx512
        SCOPED_TRACE(isa_name(isa));
        check(GRADUS_CHOOSE(functions, isa)());
    }
}

// Every f16 and bf16, and every `stride`th f32, that `keep` wants; filled up to whole pairs.
std::vector<float> arguments(const std::function<bool(float)>& keep, uint64_t stride = 4093) {
    std::vector<float> all;
    for (uint32_t bits = 0; bits < 65536; ++bits) {
        all.push_back(std::bit_cast<float>(bits << 16));
        all.push_back(static_cast<float>(to_f64(f16{static_cast<uint16_t>(bits)})));
    }
    for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += stride)
        all.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    std::erase_if(all, [&](float x) { return !keep(x); });
    while (all.size() % 64 != 0) all.push_back(all.front());
    return all;
}

std::vector<float> values(Functions::One function, const std::vector<float>& x) {
    std::vector<float> y(x.size());
    function(x.data(), y.data(), static_cast<int64_t>(x.size()));
    return y;
}

// |y − want| ≤ bound·|want|, for all of them; the worst is told.
void expect_within(const std::vector<float>& x, const std::vector<float>& y, const std::function<double(double)>& want,
                   const std::function<double(double)>& bound) {
    double worst = 0, worst_x = 0;
    for (size_t i = 0; i < x.size(); ++i) {
        const double right = want(x[i]), used = std::fabs(y[i] - right) / (right * bound(x[i]));
        if (!(used <= worst)) worst = used, worst_x = x[i];
    }
    EXPECT_LE(worst, 1) << "of the bound, at " << worst_x;
}

const float kInf = std::numeric_limits<float>::infinity(), kNan = std::nanf("");

TEST(Simd, ExpOfNonpositive) {
    on_every_isa([](const Functions& f) {
        const auto lifted = [](double x) { return std::exp(x) * 0x1p64; };
        const auto x = arguments([](float a) { return a <= 0 && a > -130.5f; });
        expect_within(x, values(f.exp_lifted, x), lifted, [](double) { return 2 * kU; });
        expect_within(x, values(f.exp_lifted_coarse, x), lifted,
                      [](double a) { return (4 + 1.25 * std::fabs(a)) * kU; });
        const auto near = arguments([](float a) { return a <= 0 && a > -87.3f; });
        expect_within(
            near, values(f.exp_faded, near), [](double a) { return std::exp(a); }, [](double) { return 2 * kU; });
        const std::vector<float> far(64, -3e38f), none(64, -kInf), nan(64, kNan);
        for (const auto function : {f.exp_lifted, f.exp_lifted_coarse, f.exp_faded}) {
            EXPECT_EQ(values(function, far)[0], 0);
            EXPECT_EQ(values(function, none)[0], 0);
            EXPECT_TRUE(std::isnan(values(function, nan)[0]));
        }
    });
}

TEST(Simd, Exp) {
    on_every_isa([](const Functions& f) {
        const auto x = arguments([](float a) { return a > -87.3f && a < 88.7f; });
        expect_within(
            x, values(f.exp, x), [](double a) { return std::exp(a); }, [](double) { return 2 * kU; });
        EXPECT_EQ(values(f.exp, std::vector<float>(64, 89.0f))[0], kInf);
        EXPECT_EQ(values(f.exp, std::vector<float>(64, -104.0f))[0], 0);
    });
}

TEST(Simd, Sigmoid) {
    on_every_isa([](const Functions& f) {
        const auto x = arguments([](float a) { return a >= -64; });
        expect_within(
            x, values(f.sigmoid_coarse, x), [](double a) { return 1 / (1 + std::exp(-a)); },
            [](double a) { return (8 + (std::isinf(a) ? 0 : 1.25 * std::fabs(a) / (1 + std::exp(a)))) * kU; });
        EXPECT_TRUE(std::isnan(values(f.sigmoid_coarse, std::vector<float>(64, kNan))[0]));
    });
}

// Where e^x alone is subnormal or 0, and where the product is.
TEST(Simd, TimesExp) {
    on_every_isa([](const Functions& f) {
        const auto x = arguments([](float a) { return a < -64 && a > -200; }, 1021);
        for (const float scale : {1e-3f, 1.0f, 1e20f, 3e38f}) {
            std::vector<float> v(x.size(), scale), y(x.size());
            f.times_exp(x.data(), v.data(), x.data(), y.data(), static_cast<int64_t>(x.size()));
            for (size_t i = 0; i < x.size(); ++i) {
                const double a = x[i], want = a * static_cast<double>(scale) * std::exp(a);
                ASSERT_LE(std::fabs(y[i] - want), 8 * kU * std::fabs(want) + 0x1p-149) << a << " * " << scale;
            }
        }
        const std::vector<float> one(64, 1.0f), none(64, -kInf), far(64, -3e38f);
        std::vector<float> y(64);
        f.times_exp(none.data(), one.data(), none.data(), y.data(), 64);
        EXPECT_TRUE(std::isnan(y[0]));
        f.times_exp(far.data(), far.data(), far.data(), y.data(), 64);
        EXPECT_EQ(y[0], 0);
    });
}

// Of two numbers the second one, unless the first is beyond it: so a NaN in second place stays, and one in first place
// goes.
TEST(Simd, MaximumMinimumClamp) {
    const float numbers[] = {kNan, -kNan, -kInf, -2.0f, -0.0f, 0.0f, 0x1p-149f, 2.0f, kInf};
    std::vector<float> a, b;
    for (const float x : numbers)
        for (const float y : numbers) a.push_back(x), b.push_back(y);
    while (a.size() % 64 != 0) a.push_back(0), b.push_back(0);
    on_every_isa([&](const Functions& f) {
        std::vector<float> larger(a.size()), smaller(a.size());
        f.max_or_nan(a.data(), b.data(), larger.data(), static_cast<int64_t>(a.size()));
        f.min_or_nan(a.data(), b.data(), smaller.data(), static_cast<int64_t>(a.size()));
        const auto clamped = values(f.clamp, a);
        const auto same = [](float x, float y) { return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y); };
        for (size_t i = 0; i < a.size(); ++i) {
            EXPECT_TRUE(same(larger[i], a[i] > b[i] ? a[i] : b[i]))
                << "max " << a[i] << " " << b[i] << ": " << larger[i];
            EXPECT_TRUE(same(smaller[i], a[i] < b[i] ? a[i] : b[i]))
                << "min " << a[i] << " " << b[i] << ": " << smaller[i];
            EXPECT_TRUE(same(clamped[i], a[i] < -1  ? -1
                                         : a[i] > 1 ? 1
                                                    : a[i]))
                << "clamp " << a[i] << ": " << clamped[i];
        }
    });
}

TEST(Simd, RoundsToBf16) {
    std::vector<float> x;
    for (uint32_t high = 0; high < 65536; ++high)
        for (const uint32_t low : {0u, 1u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu})
            x.push_back(std::bit_cast<float>(high << 16 | low));
    while (x.size() % 64 != 0) x.push_back(0);
    on_every_isa([&x](const Functions& f) {
        std::vector<bf16> y(x.size()), z(x.size());
        f.to_bf16(x.data(), y.data(), static_cast<int64_t>(x.size()));
        f.to_bf16_from_16bit(x.data(), z.data(), static_cast<int64_t>(x.size()));
        for (size_t i = 0; i < x.size(); ++i) {
            const bool nan = std::isnan(x[i]), from_16bit = std::bit_cast<uint32_t>(x[i]) % 65536 == 0;
            ASSERT_EQ(y[i].bits, nan ? 0x7FC0 : from_f64<bf16>(x[i]).bits) << x[i];
            if (!nan)
                ASSERT_EQ(z[i].bits, y[i].bits) << x[i];
            else if (from_16bit)
                ASSERT_TRUE(std::isnan(to_f64(z[i]))) << i;
        }
    });
}

TEST(Simd, CopyPast) {
    alignas(64) std::byte from[700], to[768];
    for (size_t i = 0; i < sizeof from; ++i) from[i] = static_cast<std::byte>(i * 7 + i / 256);
    on_every_isa([&](const Functions& f) {
        for (const size_t begin : {0, 1, 31, 63})
            for (const size_t bytes : {0, 1, 62, 63, 64, 65, 129, 500}) {
                std::fill(std::begin(to), std::end(to), std::byte{0});
                f.copy_past(to + begin, from + 3, static_cast<int64_t>(bytes));
                EXPECT_EQ(std::memcmp(to + begin, from + 3, bytes), 0) << begin << " " << bytes;
                EXPECT_EQ(to[begin + bytes], std::byte{0});
                if (begin > 0) EXPECT_EQ(to[begin - 1], std::byte{0});
            }
    });
}

// Two rows of results side by side, some whole pages apart, from any element of a line on: every result in its place,
// and nothing beside them.
template <typename T>
void expect_results(void (*results)(const T*, T*, T*, int64_t)) {
    constexpr int64_t kPage = 4096 / sizeof(T), kLine = 64 / sizeof(T), kMost = 3 * kPage / 4;
    std::vector<T> x;
    for (int64_t i = 0; i < kMost; ++i) x.push_back(from_f64<T>(static_cast<double>(i % 251 + 1)));
    std::vector<T> room(static_cast<size_t>(4 * kPage));
    T* const line = room.data() + (-reinterpret_cast<uintptr_t>(room.data()) % 64) / sizeof(T);
    for (const int64_t apart : {kPage, 2 * kPage, kPage + kLine, kPage + 1})
        for (const int64_t begin : {int64_t{0}, int64_t{1}, kLine - 1, kLine})
            for (const int64_t n : {int64_t{0}, int64_t{1}, kLine, 4 * kLine - 1, 4 * kLine, 5 * kLine + 3, kMost}) {
                SCOPED_TRACE(testing::Message() << apart << " apart, from " << begin << ", " << n << " elements");
                std::ranges::fill(room, T{});
                results(x.data(), line + begin, line + begin + apart, n);
                for (int64_t i = -1; i < 2 * kPage + kMost; ++i) {  // the rows' elements begin at 0 and at `apart`
                    const int64_t second = i - apart;
                    const bool same = i >= 0 && i < n, twice = second >= 0 && second < n;
                    const double want = same    ? to_f64(x[static_cast<size_t>(i)])
                                        : twice ? 2 * to_f64(x[static_cast<size_t>(second)])
                                                : 0;
                    if (begin + i >= 0) ASSERT_EQ(to_f64(line[begin + i]), want) << i;
                }
            }
}
TEST(Simd, ResultsPast) {
    on_every_isa([](const Functions& f) {
        expect_results(f.results_f32);
        expect_results(f.results_bf16);
    });
}

}  // namespace
}  // namespace gradus
#endif
