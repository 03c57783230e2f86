// Views of one or two dims without their address, and how tokens and words are cut.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/tensor_view.h"

namespace gradus::fused_linear_cross_entropy {

// Element [i, j] of an argument; strides in elements.
struct Grid {
    int slot = 0;
    DType dtype = DType::f32;
    int64_t offset = 0, item = 0, row = 0, column = 0;

    Grid() = default;
    Grid(int argument, const TensorView& view)
        : slot(argument),
          dtype(view.dtype),
          offset(view.offset),
          item(dtype_size(view.dtype)),
          row(view.step(0)),
          column(view.rank > 1 ? view.step(1) : 0) {}

    std::byte* at(std::byte* const* address, int64_t i, int64_t j = 0) const {
        return address[slot] + (offset + i * row + j * column) * item;
    }
    float f32(std::byte* const* address, int64_t i) const { return *reinterpret_cast<const float*>(at(address, i)); }
    void put(std::byte* const* address, int64_t i, float value) const {
        *reinterpret_cast<float*>(at(address, i)) = value;
    }
    // int32 or int64
    int64_t index(std::byte* const* address, int64_t i) const {
        const std::byte* from = at(address, i);
        return item == 8 ? *reinterpret_cast<const int64_t*>(from) : *reinterpret_cast<const int32_t*>(from);
    }
    void put_index(std::byte* const* address, int64_t i, int64_t value) const {
        if (item == 8)
            *reinterpret_cast<int64_t*>(at(address, i)) = value;
        else
            *reinterpret_cast<int32_t*>(at(address, i)) = static_cast<int32_t>(value);
    }
};

// Tokens and words are packed so many at a time: chunks and panels. Both follow from the shape alone.
struct Extent {
    int64_t tokens = 0, hidden = 0, words = 0;
    int64_t chunk = 1, panel = 1;

    int64_t chunks() const { return (tokens + chunk - 1) / chunk; }
    int64_t panels() const { return (words + panel - 1) / panel; }
    int64_t chunk_length(int64_t c) const { return std::min(chunk, tokens - c * chunk); }
    int64_t panel_length(int64_t p) const { return std::min(panel, words - p * panel); }
};

}  // namespace gradus::fused_linear_cross_entropy
