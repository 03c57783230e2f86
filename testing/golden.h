// What golden and magnitude must do, whatever the operator computes, and the helpers of tests in f64.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "testing/call.h"

namespace gradus::testing {

bool is_float(aclDataType type);
// Every float tensor as f64 with the same values; or the float outputs alone.
Array widened(const Array& array);
Call widened(Call call);
Call with_wide_results(Call call);
Call::Results run_as(const char* precision, Call call);

// How near an output of the fast implementation is to golden, in terms of its magnitude.
struct Kept {
    double terms;       // of the sum that makes an element, multiplied out
    int roundings = 0;  // stated ones, in half units of the 16-bit type
};

// f64 refused in fast, with a hint; taken for all or for all outputs in golden and magnitude, with the same answers
// through any view and for any number of threads; magnitude at least |value|; fast within `kept` of golden. `good`
// gives calls of one problem, in f32, f16 or bf16.
void expect_golden_rules(const std::function<Call()>& good, const std::map<std::string, Kept>& kept);

// Empty if f64 results are a formula's, whose sums of so many terms may round in another order: within terms·2^-52 of
// their magnitude.
std::string judge_f64(const Array& got, const std::vector<double>& want, const Array& magnitude, double terms);
// The same for magnitudes, which only add what is positive.
std::string judge_magnitude(const Array& got, const std::vector<double>& want, double terms);

// A gradient in f64 is the slope of f at an array, at every `step`th element: by central differences of fourth order,
// within 1e-8.
void expect_derivative(const Array& at, const Array& gradient, int64_t step,
                       const std::function<double(const Array& moved)>& f);
// Σ results·weights of an output in golden, f64.
double weighted(const Call& call, const std::string& output, const Array& weights);

}  // namespace gradus::testing
