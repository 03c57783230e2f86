// The numbers that golden computes with: f64, f64 that carries its magnitude along, or f64 rounded to fewer bits all
// along. A golden source is written once, for all.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/config.h"
#include "base/dtype.h"

namespace gradus {

// A number and Σ|terms| of the sum that made it: how large an error can be rounding. magnitude ≥ |value| of everything
// but exact(). docs/numerics.md has the rules, each of which is one function here.
struct Magnitude {
    double value = 0, magnitude = 0;

    Magnitude() = default;
    Magnitude(double x) : value(x), magnitude(std::fabs(x)) {}  // NOLINT(google-explicit-constructor): an element
    Magnitude(double x, double m) : value(x), magnitude(m) {}

    Magnitude operator-() const { return {-value, magnitude}; }
    Magnitude& operator+=(const Magnitude& other) {
        value += other.value, magnitude += other.magnitude;
        return *this;
    }
    friend Magnitude operator+(Magnitude a, const Magnitude& b) { return a += b; }
    friend Magnitude operator-(Magnitude a, const Magnitude& b) { return a += -b; }
    friend Magnitude operator*(const Magnitude& a, const Magnitude& b) {
        return {a.value * b.value, a.magnitude * b.magnitude};
    }
    // The relative errors of both add up: M(a/b) / |a/b| = M(a) / |a| + M(b) / |b| − 1.
    friend Magnitude operator/(const Magnitude& a, const Magnitude& b) {
        const double quotient = a.value / b.value, divisor = std::fabs(b.value);
        const double excess = b.magnitude == divisor ? 0 : std::fabs(quotient) * (b.magnitude / divisor - 1);
        return {quotient, a.magnitude / divisor + excess};
    }
    // An error of s is a relative one of exp(s). What has faded to 0 stays 0, however large s is.
    friend Magnitude exp(const Magnitude& s) {
        const double result = std::exp(s.value);
        return {result, result == 0 ? 0 : result * (1 + s.magnitude)};
    }
    // A relative error of s is one of log(s).
    friend Magnitude log(const Magnitude& s) {
        const double result = std::log(s.value), size = std::fabs(s.value);
        return {result, std::fabs(result) + (s.magnitude == size ? 0 : s.magnitude / size - 1)};
    }
};

// What a kernel of less precision rounds besides its factors.
enum class Rounds { factors, products, sums, truncates };

// A number as a kernel of less precision has it: every result of an operation is rounded to kDigits bits (from the
// least exponent of a normal number on); products and sums not before they are used, for a product may be added as it
// is, and a sum goes on. Rounds::products: as a kernel that writes products down before it adds them up. Rounds::sums:
// every step of a sum is rounded. Rounds::truncates: so it is, and all that towards zero.
template <int kDigits, int kLeast, Rounds kRounds>
struct Narrow {
    struct Product {
        double value;
    };
    struct Sum {
        double value = 0;

        Sum& operator+=(double x) {
            value = kRounds >= Rounds::sums ? rounded(value + x) : value + x;
            return *this;
        }
        Sum& operator+=(const Sum& x) { return *this += x.value; }
        Sum& operator+=(const Narrow& x) { return *this += x.value; }
        Sum& operator+=(const Product& x) { return *this += kRounds == Rounds::products ? rounded(x.value) : x.value; }
    };
    double value = 0;

    Narrow() = default;
    Narrow(double x) : value(x) {}                  // NOLINT(google-explicit-constructor): an element, as it is given
    Narrow(Product x) : value(rounded(x.value)) {}  // NOLINT(google-explicit-constructor)
    Narrow(Sum x) : value(rounded(x.value)) {}      // NOLINT(google-explicit-constructor)

    static double rounded(double x) {
        constexpr double kSmallest = std::bit_cast<double>(static_cast<uint64_t>(kLeast + 1023) << 52);
        constexpr double kTop = std::bit_cast<double>(static_cast<uint64_t>(2 - kLeast + 1023) << 52);
        constexpr bool kTruncates = kRounds == Rounds::truncates;
        if (std::fabs(x) < kSmallest) {
            constexpr double kShift = 1.5 * kSmallest * std::bit_cast<double>(uint64_t{1023 + 53 - kDigits} << 52);
            const double nearest = x + kShift - kShift;
            constexpr double kUnit = kSmallest * std::bit_cast<double>(uint64_t{1023 + 1 - kDigits} << 52);
            return kTruncates && std::fabs(nearest) > std::fabs(x) ? nearest - std::copysign(kUnit, x) : nearest;
        }
        if (!std::isfinite(x)) return x;
        constexpr int kDropped = 53 - kDigits;
        uint64_t bits = std::bit_cast<uint64_t>(x);
        if (!kTruncates) bits += (uint64_t{1} << (kDropped - 1)) - 1 + (bits >> kDropped & 1);
        const double result = std::bit_cast<double>(bits >> kDropped << kDropped);
        return std::fabs(result) < kTop ? result : std::copysign(HUGE_VAL, x);
    }

    Narrow operator-() const { return -value; }
    friend Narrow operator+(const Narrow& a, const Narrow& b) { return rounded(a.value + b.value); }
    friend Narrow operator-(const Narrow& a, const Narrow& b) { return rounded(a.value - b.value); }
    friend Product operator*(const Narrow& a, const Narrow& b) { return {a.value * b.value}; }
    friend Narrow operator/(const Narrow& a, const Narrow& b) { return rounded(a.value / b.value); }
    friend Narrow exp(const Narrow& x) { return rounded(std::exp(x.value)); }
    friend Narrow log(const Narrow& x) { return rounded(std::log(x.value)); }
    friend double value_of(const Narrow& x) { return x.value; }
    friend double result_of(const Narrow& x) { return x.value; }
};

// What a number is added up in.
template <typename Number>
struct SumOf {
    using Type = Number;
};
template <int kDigits, int kLeast, Rounds kRounds>
struct SumOf<Narrow<kDigits, kLeast, kRounds>> {
    using Type = typename Narrow<kDigits, kLeast, kRounds>::Sum;
};
template <typename Number>
using Sum = typename SumOf<Number>::Type;

// Whether every step of a sum is rounded, so that its order counts.
template <typename Number>
inline constexpr bool kRoundsSums = false;
template <int kDigits, int kLeast, Rounds kRounds>
inline constexpr bool kRoundsSums<Narrow<kDigits, kLeast, kRounds>> = kRounds >= Rounds::sums;

inline double value_of(double x) { return x; }
inline double value_of(const Magnitude& x) { return x.value; }

// What is written of a number.
inline double result_of(double x) { return x; }
inline double result_of(const Magnitude& x) { return x.magnitude; }

// A number that the contract gives and nothing rounds: its error is 0.
template <typename Number>
Number exact(double x) {
    if constexpr (std::is_same_v<Number, Magnitude>)
        return {x, 0};
    else
        return x;
}

// Calls f with a value of the element type and one of the number to compute with. A narrow arithmetic is there for f64
// elements alone, which phase one makes sure of.
template <typename F>
decltype(auto) visit_golden(DType dtype, Precision precision, F&& f) {
    switch (precision) {
        case Precision::f32:
            return f(double{}, Narrow<24, -126, Rounds::sums>{});
        case Precision::bf16:
            return f(double{}, Narrow<8, -126, Rounds::factors>{});
        case Precision::f16:
            return f(double{}, Narrow<11, -14, Rounds::factors>{});
        case Precision::bf16_products:
            return f(double{}, Narrow<8, -126, Rounds::products>{});
        case Precision::f16_products:
            return f(double{}, Narrow<11, -14, Rounds::products>{});
        case Precision::bf16_sums:
            return f(double{}, Narrow<8, -126, Rounds::sums>{});
        case Precision::f16_sums:
            return f(double{}, Narrow<11, -14, Rounds::sums>{});
        case Precision::f32_truncated:
            return f(double{}, Narrow<24, -126, Rounds::truncates>{});
        case Precision::bf16_truncated:
            return f(double{}, Narrow<8, -126, Rounds::truncates>{});
        case Precision::f16_truncated:
            return f(double{}, Narrow<11, -14, Rounds::truncates>{});
        default:
            return visit_any_float(dtype, [&]<typename T>(T element) -> decltype(auto) {
                return precision == Precision::magnitude ? f(element, Magnitude{}) : f(element, double{});
            });
    }
}

// What is computed, of which elements into which.
struct GoldenTypes {
    Golden how;
    DType from, to;
};

inline int64_t number_size(Precision precision) {
    return static_cast<int64_t>(precision == Precision::magnitude ? sizeof(Magnitude) : sizeof(double));
}

}  // namespace gradus
