// Views of three dims without their address, batches cut into blocks of keys, and which keys a row sees.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/tensor_view.h"

namespace gradus::nsa_selected_attention {

inline constexpr int64_t kMostCount = 128, kCopies = 8;  // blocks of a row; copies of max and sum

// Element [i, j, k] of an argument; strides in elements.
struct Cube {
    int slot = 0;
    DType dtype = DType::f32;
    int64_t offset = 0, item = 0, row = 0, head = 0, column = 0;

    Cube() = default;
    Cube(int argument, const TensorView& view)
        : slot(argument),
          dtype(view.dtype),
          offset(view.offset),
          item(dtype_size(view.dtype)),
          row(view.step(0)),
          head(view.step(1)),
          column(view.step(2)) {}

    std::byte* at(std::byte* const* address, int64_t i, int64_t j, int64_t k = 0) const {
        return address[slot] + (offset + i * row + j * head + k * column) * item;
    }
    float f32(std::byte* const* address, int64_t i, int64_t j) const { return load_element<float>(at(address, i, j)); }
    int32_t index(std::byte* const* address, int64_t i, int64_t j, int64_t k) const {
        return load_element<int32_t>(at(address, i, j, k));
    }
};

struct Batch {
    int64_t query_begin, query_end, key_begin, key_end, first_block;
};

// A block of keys, [key, key + rows), and how many of its first ones the row in question sees.
struct SelectedBlock {
    int64_t block, key, rows, visible;
    bool whole() const { return visible == rows; }
};

struct Selection {
    SelectedBlock at[kMostCount];
    int64_t count = 0;
    std::span<const SelectedBlock> all() const { return {at, static_cast<size_t>(count)}; }
};

// Sizes, and the batches in order. Heads of the query that share a head of the key: group.
struct Extent {
    int64_t rows, keys, heads, key_heads, group, depth, value_depth, size, count;
    bool causal;
    double scale;
    DType dtype;
    std::vector<Batch> batches;
    int64_t blocks = 0;  // of all batches; the last one of a batch may be shorter

    void set_batches(std::span<const int64_t> query_ends, std::span<const int64_t> key_ends) {
        Batch next{0, 0, 0, 0, 0};
        for (size_t b = 0; b < query_ends.size(); ++b) {
            next.query_end = query_ends[b], next.key_end = key_ends[b];
            batches.push_back(next);
            blocks += blocks_of(next);
            next = {next.query_end, 0, next.key_end, 0, blocks};
        }
    }

    int64_t blocks_of(const Batch& batch) const { return (batch.key_end - batch.key_begin + size - 1) / size; }
    const Batch& batch_of_row(int64_t row) const {
        return *std::upper_bound(batches.begin(), batches.end(), row,
                                 [](int64_t r, const Batch& b) { return r < b.query_end; });
    }
    const Batch& batch_of_block(int64_t block) const {
        return *std::prev(std::upper_bound(batches.begin(), batches.end(), block,
                                           [](int64_t k, const Batch& b) { return k < b.first_block; }));
    }

    // A block of which the row sees nothing, or which is none, has visible = 0.
    SelectedBlock selected(const Batch& batch, int64_t row, int64_t index) const {
        const int64_t length = batch.key_end - batch.key_begin, first = index * size;
        if (index < 0 || first >= length) return {0, 0, 0, 0};
        const int64_t all = std::min(size, length - first);
        const int64_t seen = causal ? std::clamp<int64_t>(row - batch.query_begin - first + 1, 0, all) : all;
        return {batch.first_block + index, batch.key_begin + first, all, seen};
    }
    // Keys of a block of the whole list.
    SelectedBlock block_at(int64_t block) const {
        const Batch& batch = batch_of_block(block);
        const int64_t first = (block - batch.first_block) * size;
        const int64_t all = std::min(size, batch.key_end - batch.key_begin - first);
        return {block, batch.key_begin + first, all, all};
    }
    // What a row selected and sees, in the order of the list; a block listed twice is there twice.
    void select(const Cube& topk, std::byte* const* address, int64_t row, int64_t key_head, Selection& to) const {
        const Batch& batch = batch_of_row(row);
        to.count = 0;
        for (int64_t c = 0; c < count; ++c) {
            const SelectedBlock one = selected(batch, row, topk.index(address, row, key_head, c));
            if (one.visible > 0) to.at[to.count++] = one;
        }
    }
};

}  // namespace gradus::nsa_selected_attention
