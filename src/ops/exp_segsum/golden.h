// The specification: plain loops in f64, elements as given, one rounding at the end. Shares nothing with kernel.cpp.
// A matrix is taken by blocks of columns, each of which is independent of the others but for the backward's last sum.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/golden.h"

namespace gradus::exp_segsum {

inline constexpr int64_t kGoldenColumns = 256;  // of a block

// Mistakes that golden makes on purpose; bench.cpp has their names.
enum {
    kFromColumn = 1,
    kBeforeRow,
    kNoExp,
    kPartOfSum,
    kRowsAfter,
    kDiagonalToo,
    kOneColumn,
    kPartOfRows,
    kPartOfColumns
};

// A matrix or, with one row, a vector; strides in bytes.
struct GoldenMatrix {
    std::byte* at;
    int64_t row, column;
};

// Columns [begin, end) of a matrix of T×T. sums: end − begin numbers, as large as the precision has them
void golden_forward(const GoldenTypes& types, int64_t size, int64_t begin, int64_t end, const GoldenMatrix& x,
                    const GoldenMatrix& out, void* sums) noexcept;
// What columns [begin, end) add to every result. parts: T numbers
void golden_backward(const GoldenTypes& types, int64_t size, int64_t begin, int64_t end, const GoldenMatrix& g,
                     const GoldenMatrix& y, void* sums, void* parts) noexcept;
// The results, of the parts of all blocks. parts: [blocks, T]
void golden_backward_store(const GoldenTypes& types, int64_t size, int64_t blocks, const void* parts,
                           const GoldenMatrix& out) noexcept;

}  // namespace gradus::exp_segsum
