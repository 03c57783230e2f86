// The numbers that golden computes with: f64, or f64 that carries its magnitude along. A golden source is written once,
// for both.
#pragma once

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
        const double value = a.value / b.value, divisor = std::fabs(b.value);
        const double excess = b.magnitude == divisor ? 0 : std::fabs(value) * (b.magnitude / divisor - 1);
        return {value, a.magnitude / divisor + excess};
    }
    // An error of s is a relative one of exp(s). What has faded to 0 stays 0, however large s is.
    friend Magnitude exp(const Magnitude& s) {
        const double value = std::exp(s.value);
        return {value, value == 0 ? 0 : value * (1 + s.magnitude)};
    }
    // A relative error of s is one of log(s).
    friend Magnitude log(const Magnitude& s) {
        const double value = std::log(s.value), size = std::fabs(s.value);
        return {value, std::fabs(value) + (s.magnitude == size ? 0 : s.magnitude / size - 1)};
    }
};

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

// Calls f with a value of the element type and one of the number to compute with.
template <typename F>
decltype(auto) visit_golden(DType dtype, Precision precision, F&& f) {
    return visit_any_float(dtype, [&]<typename T>(T element) -> decltype(auto) {
        return precision == Precision::magnitude ? f(element, Magnitude{}) : f(element, double{});
    });
}

// What is computed, of which elements into which.
struct GoldenTypes {
    Precision precision;
    DType from, to;
};

inline int64_t number_size(Precision precision) {
    return static_cast<int64_t>(precision == Precision::magnitude ? sizeof(Magnitude) : sizeof(double));
}

}  // namespace gradus
