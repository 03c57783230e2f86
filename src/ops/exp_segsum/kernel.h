// Both operators on one T×T matrix, some of its rows at a time: a matrix need not be in one piece, nor in the cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"
#include "base/dtype.h"

namespace gradus::exp_segsum {

// Arrays of the kernels are a whole number of the widest vectors long.
inline constexpr int64_t kPadding = 64;
constexpr int64_t padded(int64_t size) { return (size + kPadding - 1) / kPadding * kPadding; }

// Rows are handed over in groups that begin at a multiple of this, so that cutting a matrix anywhere changes no bit.
inline constexpr int64_t kRowGroup = 4;

// The forward cuts a matrix of more rows than this into panels, which threads share.
inline constexpr int64_t kPanelRows = 256;

// out[i][j] = exp(x[j+1] + … + x[i])
struct ForwardColumns {
    double* value;  // [padded(T)]: of every column, x[j+1] + … + x[i], or e to that power, at the row or the anchor
    double* step;   // [padded(T)]: x[i], or e^x[i]: what row i adds, or multiplies by
    float* anchor;  // [padded(T)]: 2^32·value in f32
    bool past = false;      // rows go past the cache; they begin with lines then, and are whole ones
    bool products = false;  // which of the two
    bool tame = false;      // products that f32 can hold from anchor to anchor, if e^x[i] do not fade too fast
    bool anchored = false;  // whether the rows since the last anchor are `since` times it
    double since = 1;
    double least =
        0;  // a product below it is 0 in f32 and remains so: it is made 0, since underflow is slow on many CPUs
};
struct ForwardKernel {
    // Before the rows from `first` on, a multiple of kPanelRows. x: [T]
    void (*begin)(const void* x, int64_t size, int64_t first, ForwardColumns& columns) noexcept;
    // Rows [first, first + count), in ascending order from call to call; first is a multiple of kRowGroup. to: [count,
    // T], rows `pitch` elements apart. A row that is no multiple of kPadding spills into what follows it, the last one
    // too.
    void (*rows)(int64_t first, int64_t count, int64_t size, ForwardColumns& columns, void* to, int64_t pitch) noexcept;
    bool past;  // whether `rows` can write past the cache
    // Past the cache, from a stage.
    void (*copy)(std::byte* to, const std::byte* from, int64_t bytes) noexcept;
};

// out[k] = Σ_{i ≥ k} Σ_{j < k} g[i][j]·y[i][j]
struct BackwardColumns {
    double* sum;     // [padded(T)]: Σ g·y of every column over the rows so far
    double* result;  // [T]
    double before;   // Σ of `sum` over the columns left of the next group of rows
};
struct MatrixRows {
    const void* at;  // row `first`, dense
    int64_t pitch;   // elements from row to row
    int64_t width;   // elements that may be read of a row: T, or more where the row is a copy

    // Elements that may be read from the beginning of a row which is followed by `rows` others.
    int64_t readable(int64_t rows) const { return pitch == width ? (rows + 1) * width : width; }
};
struct BackwardKernel {
    // Rows [first, first + count), in descending order from call to call; the first call begins a matrix.
    void (*rows)(const MatrixRows& g, const MatrixRows& y, int64_t first, int64_t count, int64_t size,
                 BackwardColumns& columns) noexcept;
    // The result of a matrix from those of its panels, each computed as if it were all there is: panel p has the rows
    // from p·rows on, and sums[p] of its columns, `pitch` apart. result: [T]
    void (*join)(double* sums, int64_t pitch, int64_t rows, int64_t size, double* result) noexcept;
    // out: [T], `step` elements apart
    void (*store)(const BackwardColumns& columns, int64_t size, void* out, int64_t step) noexcept;
};

ForwardKernel choose_forward(DType dtype, Isa cap);
BackwardKernel choose_backward(DType dtype, Isa cap);

}  // namespace gradus::exp_segsum
