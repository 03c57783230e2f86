// Sequences cut into blocks of keys, and which keys a row sees.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/arithmetic.h"
#include "base/strided.h"

namespace gradus::nsa_selected_attention {

inline constexpr int64_t kMostCount = 128, kCopies = 8;  // blocks of a row; copies of max and sum

struct Sequence {
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

// Sizes, and the sequences in order. Heads of the query that share a head of the key: group.
struct Problem {
    int64_t rows, keys, heads, key_heads, group, depth, value_depth, size, count;
    bool causal;
    double scale;
    DType dtype;
    std::vector<Sequence> sequences;
    int64_t blocks = 0;  // of all sequences; the last one of a sequence may be shorter

    void set_sequences(std::span<const int64_t> query_ends, std::span<const int64_t> key_ends) {
        Sequence next{0, 0, 0, 0, 0};
        for (size_t b = 0; b < query_ends.size(); ++b) {
            next.query_end = query_ends[b], next.key_end = key_ends[b];
            sequences.push_back(next);
            blocks += blocks_of(next);
            next = {next.query_end, 0, next.key_end, 0, blocks};
        }
    }

    int64_t blocks_of(const Sequence& sequence) const { return ceil_div(sequence.key_end - sequence.key_begin, size); }
    const Sequence& sequence_of_row(int64_t row) const {
        return *std::upper_bound(sequences.begin(), sequences.end(), row,
                                 [](int64_t r, const Sequence& b) { return r < b.query_end; });
    }
    const Sequence& sequence_of_block(int64_t block) const {
        return *std::prev(std::upper_bound(sequences.begin(), sequences.end(), block,
                                           [](int64_t k, const Sequence& b) { return k < b.first_block; }));
    }

    // A block of which the row sees nothing, or which is none, has visible = 0.
    SelectedBlock selected(const Sequence& sequence, int64_t row, int64_t index) const {
        const int64_t length = sequence.key_end - sequence.key_begin, first = index * size;
        if (index < 0 || first >= length) return {0, 0, 0, 0};
        const int64_t all = std::min(size, length - first);
        const int64_t seen = causal ? std::clamp<int64_t>(row - sequence.query_begin - first + 1, 0, all) : all;
        return {sequence.first_block + index, sequence.key_begin + first, all, seen};
    }
    // Keys of a block of the whole list.
    SelectedBlock block_at(int64_t block) const {
        const Sequence& sequence = sequence_of_block(block);
        const int64_t first = (block - sequence.first_block) * size;
        const int64_t all = std::min(size, sequence.key_end - sequence.key_begin - first);
        return {block, sequence.key_begin + first, all, all};
    }
    // What a row selected and sees, in the order of the list; a block listed twice is there twice.
    void select(const Strided& topk, std::byte* const* address, int64_t row, int64_t key_head, Selection& to) const {
        const Sequence& sequence = sequence_of_row(row);
        to.count = 0;
        for (int64_t c = 0; c < count; ++c) {
            const SelectedBlock one = selected(sequence, row, topk.index(address, row, key_head, c));
            if (one.visible > 0) to.at[to.count++] = one;
        }
    }
};

}  // namespace gradus::nsa_selected_attention
