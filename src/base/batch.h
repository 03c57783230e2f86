// The dims in front of what an operator works on: where the i-th of the independent parts of each tensor begins.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/tensor_view.h"

namespace gradus {

struct Batch {
    static constexpr int kMost = 6;  // tensors
    struct Tensor {
        int64_t offset = 0;                      // bytes
        std::array<int64_t, kMaxRank> stride{};  // bytes
    };

    int rank = 0;  // after merging dims that follow each other in every tensor
    int64_t count = 0;
    std::array<int64_t, kMaxRank> size{};
    std::array<Tensor, kMost> tensor{};

    // Bytes from the address of tensor t to its part.
    int64_t at(int t, int64_t part) const;
    // Whether the parts of tensor t lie one behind the other, `bytes` each.
    bool packed(int t, int64_t bytes) const;
};

// The first `rank` dims of all views, whose sizes are equal there.
Batch batch_of(std::span<const TensorView* const> views, int rank);

}  // namespace gradus
