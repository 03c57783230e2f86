// The specification: plain loops in f64, elements as given, one rounding at the end. Shares nothing with kernel.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/golden.h"

namespace gradus::exp_segsum {

// A matrix or, with one row, a vector; strides in bytes.
struct GoldenMatrix {
    std::byte* at;
    int64_t row, column;
};

// One matrix of T×T. sums: T numbers, as large as the precision has them
void golden_forward(const GoldenTypes& types, int64_t size, const GoldenMatrix& x, const GoldenMatrix& out,
                    void* sums) noexcept;
void golden_backward(const GoldenTypes& types, int64_t size, const GoldenMatrix& g, const GoldenMatrix& y,
                     const GoldenMatrix& out, void* sums) noexcept;

}  // namespace gradus::exp_segsum
