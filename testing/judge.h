// How far a result may be from its f64 reference: the lines of docs/numerics.md as code. A tolerance is derived here or
// from what is here, never tuned.
#pragma once

#include <string>
#include <vector>

#include "testing/array.h"

namespace gradus::testing {

inline constexpr double kU = 0x1p-24;  // half an ulp of f32, relative

// One f32 ulp as the promise counts it: relative, and never below the subnormal grid.
double ulp32(double x);
// The grid of a type at x, and x rounded to it once, to nearest even.
double ulp(double x, aclDataType type);
double rounded(double x, aclDataType type);
// Element i is the one quiet NaN that results have, without a sign, whatever the CPU made of which NaN.
bool is_the_nan(const Array& a, int64_t i);
// Row sums and dot products of n terms: (8 + log2 n)·2^-24, times the sum of |terms|.
double sum_factor(double n);

enum class Promise {
    elementwise,  // 16-bit: within 1 ulp of the rounded reference plus slack; f32: within slack
    summed        // within slack before the final rounding
};

// Empty when every element keeps the promise; otherwise a sentence about the worst one. NaN must meet NaN, inf inf.
std::string judge(const Array& got, const std::vector<double>& want, const std::vector<double>& slack, Promise promise);

// CANN's public acceptance rules with a factor 4 to spare: 99 % of the elements, and for elementwise results the mean
// relative error and the share that is exactly the reference rounded once.
std::string judge_by_cann(const Array& got, const std::vector<double>& want, Promise promise);

// Mistakes a kernel could make, for tests that show the judge sees them.
enum class Fault { sign, one_off, missing_tail, truncation, bf16_inside, stale_row };
inline constexpr Fault kFaults[] = {Fault::sign,       Fault::one_off,     Fault::missing_tail,
                                    Fault::truncation, Fault::bf16_inside, Fault::stale_row};
const char* fault_name(Fault fault);
// The reference with the fault in it, in the result's dtype.
Array plant(Fault fault, aclDataType type, const Shape& shape, const std::vector<double>& want);

}  // namespace gradus::testing
