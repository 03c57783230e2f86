// Element types: names, sizes, and the scalar conversions that everything else is measured against.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "acl/acl_base.h"
#include "base/text.h"

namespace gradus {

enum class DType : int {
    f32 = ACL_FLOAT,
    f16 = ACL_FLOAT16,
    bf16 = ACL_BF16,
    f64 = ACL_DOUBLE,
    i32 = ACL_INT32,
    i64 = ACL_INT64,
    u8 = ACL_UINT8,
    boolean = ACL_BOOL
};

int64_t dtype_size(DType dtype);  // bytes; 0 for types that have none
Text dtype_name(DType dtype);

// 16-bit floats as stored.
struct f16 {
    uint16_t bits;
};
struct bf16 {
    uint16_t bits;
};

template <typename T>
inline constexpr DType kDTypeOf = DType::f32;
template <>
inline constexpr DType kDTypeOf<f16> = DType::f16;
template <>
inline constexpr DType kDTypeOf<bf16> = DType::bf16;

constexpr bool is_float(DType dtype) {
    return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f64;
}
static_assert(is_float(DType::f32) && is_float(DType::f16) && is_float(DType::bf16) && is_float(DType::f64) &&
              !is_float(DType::i32) && !is_float(DType::u8));

// Calls f with a value of the element type; f32, f16 and bf16 only, which the check has made sure of.
template <typename F>
decltype(auto) visit_float(DType dtype, F&& f) {
    if (dtype == DType::f16) return f(f16{});
    if (dtype == DType::bf16) return f(bf16{});
    return f(float{});
}

// f64 as well, which golden alone takes.
template <typename F>
decltype(auto) visit_any_float(DType dtype, F&& f) {
    return dtype == DType::f64 ? f(double{}) : visit_float(dtype, f);
}

// Elements at any address: a tensor may begin at an odd one.
template <typename T>
inline T load_element(const void* from) {
    T x;
    std::memcpy(&x, from, sizeof x);
    return x;
}
template <typename T>
inline void store_element(void* to, T x) {
    std::memcpy(to, &x, sizeof x);
}

// Every NaN as the same one, the quiet one of T without a sign: which of two an operation keeps is the CPU's choice.
template <typename T>
inline T one_nan(T x) {
    return x != x ? std::numeric_limits<T>::quiet_NaN() : x;
}

inline double to_f64(double x) { return x; }
inline double to_f64(float x) { return x; }
inline double to_f64(bf16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }
inline double to_f64(f16 x) {
    const int exponent = x.bits >> 10 & 31, fraction = x.bits & 1023;
    double magnitude;
    if (exponent == 31)
        magnitude = fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
    else if (exponent == 0)
        magnitude = fraction * 0x1p-24;
    else  // the same number with f64's exponent: golden converts every factor of a product
        magnitude =
            std::bit_cast<double>(static_cast<uint64_t>(exponent + 1008) << 52 | static_cast<uint64_t>(fraction) << 42);
    // no branch: of signs that come by chance, half would be foreseen wrongly
    return std::bit_cast<double>(std::bit_cast<uint64_t>(magnitude) | static_cast<uint64_t>(x.bits & 0x8000) << 48);
}

// Rounds once, from f64, to nearest even; overflow gives infinity, NaN stays NaN. `kDigits` counts the significand with
// its leading bit, `kMinExponent` is the exponent of the smallest normal number.
template <int kDigits, int kMinExponent, int kMaxExponent>
double round_to_grid(double x) {
    if (!std::isfinite(x) || x == 0) return x;
    const int unit = std::max(std::ilogb(x), kMinExponent) - (kDigits - 1);
    const double rounded = std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
    return std::fabs(rounded) < std::ldexp(1.0, kMaxExponent + 1) ? rounded : std::copysign(HUGE_VAL, x);
}

template <typename T>
T from_f64(double x) {
    x = one_nan(x);
    if constexpr (std::is_floating_point_v<T>) {
        return static_cast<T>(x);
    } else if constexpr (std::is_same_v<T, bf16>) {
        const auto bits = std::bit_cast<uint32_t>(static_cast<float>(round_to_grid<8, -126, 127>(x)));
        return bf16{static_cast<uint16_t>(bits >> 16)};
    } else {
        const double r = round_to_grid<11, -14, 15>(x);
        const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
        if (std::isnan(r)) return f16{0x7E00};
        if (std::isinf(r)) return f16{static_cast<uint16_t>(sign | 0x7C00)};
        const double magnitude = std::fabs(r);
        if (magnitude < std::ldexp(1.0, -14))
            return f16{static_cast<uint16_t>(sign | static_cast<int>(std::ldexp(magnitude, 24)))};
        const int exponent = std::ilogb(magnitude);
        const int fraction = static_cast<int>(std::ldexp(magnitude, 10 - exponent)) - 1024;
        return f16{static_cast<uint16_t>(sign | (exponent + 15) << 10 | fraction)};
    }
}

// One element of any float type.
inline double load_f64(DType dtype, const std::byte* at) {
    return visit_any_float(dtype, [at]<typename T>(T) { return to_f64(load_element<T>(at)); });
}
inline void store_f64(DType dtype, std::byte* at, double x) {
    visit_any_float(dtype, [=]<typename T>(T) { store_element(at, from_f64<T>(x)); });
}

}  // namespace gradus
