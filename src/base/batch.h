// Tensors that are walked together: where the i-th of their independent parts (rows, matrices) begins in each of them.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/tensor_view.h"

namespace gradus {

struct Batch {
    static constexpr int kMost = 6;  // tensors
    struct Dim {
        int64_t size = 1;
        std::array<int64_t, kMost> stride{};  // bytes; of tensors that are not there 0
    };

    int rank = 0;  // after merging dims that follow each other in every tensor; none is of size 1
    int64_t count = 1;
    std::array<Dim, kMaxRank> dim{};      // outermost first
    std::array<int64_t, kMost> offset{};  // bytes

    // Bytes from the address of tensor t to its part.
    int64_t at(int t, int64_t part) const;
    // Whether the parts of tensor t lie one behind the other, `bytes` each.
    bool packed(int t, int64_t bytes) const;
    // Takes the innermost dim out of the walk; one of size 1 where there is none.
    Dim pop();
};

// Dims of all views, outermost first: the listed ones, or the first `rank`. Sizes are equal there.
Batch batch_of(std::span<const TensorView* const> views, std::span<const int> dims);
Batch batch_of(std::span<const TensorView* const> views, int rank);

}  // namespace gradus
