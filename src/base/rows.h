// Rows: how an operator walks over several views of one shape at once, and hands its kernel dense pieces of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/batch.h"
#include "base/gather.h"
#include "base/tensor_view.h"

namespace gradus {

struct RowOperand {
    TensorView view;
    int slot;  // which address
    bool written;
};

// Rows of `length` elements, and the walk from row to row.
struct Rows {
    struct Operand {
        int slot = 0;
        bool written = false;
        int64_t item = 0, step = 0;  // step: elements between neighbours in a row
    };

    int operands = 0;
    int64_t length = 0;
    Batch outer;
    std::array<Operand, Batch::kMost> operand{};

    bool dense(int i) const { return operand[static_cast<size_t>(i)].step == 1 || length == 1; }
    bool all_dense() const;
    // Byte offset of element `column` of row `row` in operand i.
    int64_t at(int i, int64_t row, int64_t column) const {
        const Operand& o = operand[static_cast<size_t>(i)];
        return outer.at(i, row) + column * o.step * o.item;
    }
};

// An elementwise operator cut into tiles by its size alone: few long rows or many short ones, about kTileElements each.
struct Tiles {
    static constexpr int64_t kTileElements = 32768;
    static constexpr int64_t kStage = 1024;  // elements of one operand that are copied into a dense piece at a time

    Rows rows;
    int64_t tile_rows = 0, tile_columns = 0, column_tiles = 0, count = 0;
    bool streaming = false;  // the kernel writes its results past the cache
};
// The operands have elements. Large results are streamed where the kernel writes them itself.
Tiles tiles_of(std::span<const RowOperand> operands, bool large);

// Calls kernel(pointers, n) for dense pieces that together make up the tile. An operand that is not dense is copied to
// a stack buffer and back.
template <typename Kernel>
void run_tile(const Tiles& tiles, int64_t tile, std::byte* const* address, const Kernel& kernel) noexcept {
    const Rows& rows = tiles.rows;
    constexpr int64_t kStageBytes = Tiles::kStage * 4;
    alignas(64) std::byte stage[Batch::kMost][kStageBytes];
    std::array<std::byte*, Batch::kMost> dense{}, real{};
    std::array<bool, Batch::kMost> staged{};
    bool any_staged = false;
    int64_t most = Tiles::kStage;  // elements that every stage has room for: f64 has half
    for (int i = 0; i < rows.operands; ++i) {
        const auto& operand = rows.operand[static_cast<size_t>(i)];
        any_staged |= staged[static_cast<size_t>(i)] = !rows.dense(i);
        most = std::min(most, kStageBytes / operand.item);
    }
    const int64_t row_begin = tile / tiles.column_tiles * tiles.tile_rows;
    const int64_t row_end = std::min(row_begin + tiles.tile_rows, rows.outer.count);
    const int64_t begin = tile % tiles.column_tiles * tiles.tile_columns;
    const int64_t end = std::min(begin + tiles.tile_columns, rows.length);
    const int64_t piece = any_staged ? most : end - begin;
    for (int64_t row = row_begin; row < row_end; ++row) {
        for (int64_t column = begin; column < end; column += piece) {
            const int64_t n = std::min(piece, end - column);
            for (int i = 0; i < rows.operands; ++i) {
                const size_t k = static_cast<size_t>(i);
                const auto& operand = rows.operand[k];
                real[k] = address[operand.slot] + rows.at(i, row, column);
                dense[k] = staged[k] ? stage[k] : real[k];
                if (staged[k] && !operand.written) gather(dense[k], real[k], operand.step, n, operand.item);
            }
            kernel(dense, n);
            for (int i = 0; i < rows.operands; ++i) {
                const size_t k = static_cast<size_t>(i);
                const auto& operand = rows.operand[k];
                if (staged[k] && operand.written) scatter(real[k], operand.step, dense[k], n, operand.item);
            }
        }
    }
    if (tiles.streaming) stream_fence();
}

}  // namespace gradus
