#include "base/rows.h"

#include <numeric>

namespace gradus {
namespace {

constexpr int64_t kShortRow = 32;  // below this a row costs more to start than to compute

// Any dim may become the row: the one in which the written operand is dense, or the longest where that one is too short
// to be worth a loop.
Rows rows_of(std::span<const RowOperand> operands) {
    const TensorView* lead = &operands[0].view;  // its order is the walk's: writes want to be sequential most of all
    std::array<const TensorView*, Batch::kMost> views;
    for (size_t k = 0; k < operands.size(); ++k) {
        views[k] = &operands[k].view;
        if (operands[k].written) lead = views[k];
    }
    std::array<int, kMaxRank> all;
    std::iota(all.begin(), all.end(), 0);
    const auto order = std::span(all).first(static_cast<size_t>(lead->rank));
    std::ranges::sort(order, [lead](int a, int b) {
        return lead->step(a) != lead->step(b) ? lead->step(a) > lead->step(b) : a < b;  // stable, without allocating
    });

    Rows rows{.operands = static_cast<int>(operands.size()),
              .outer = batch_of(std::span(views).first(operands.size()), order)};
    const auto dims = std::span(rows.outer.dim).first(static_cast<size_t>(rows.outer.rank));
    if (!dims.empty() && dims.back().size < kShortRow) {
        const auto longest = std::ranges::max_element(dims, {}, &Batch::Dim::size);
        std::rotate(longest, longest + 1, dims.end());
    }
    const Batch::Dim row = rows.outer.pop();
    rows.length = row.size;
    for (size_t k = 0; k < operands.size(); ++k) {
        const int64_t item = dtype_size(operands[k].view.dtype);
        rows.operand[k] = {operands[k].slot, operands[k].written, item, row.stride[k] / item};
    }
    return rows;
}

}  // namespace

bool Rows::all_dense() const {
    for (int i = 0; i < operands; ++i)
        if (!dense(i)) return false;
    return true;
}

Tiles tiles_of(std::span<const RowOperand> operands, bool large) {
    Tiles tiles{.rows = rows_of(operands), .streaming = large};
    const Rows& rows = tiles.rows;
    for (int i = 0; i < rows.operands; ++i)
        if (rows.operand[static_cast<size_t>(i)].written && !rows.dense(i)) tiles.streaming = false;
    // Operands that run against the grain are gathered a stage at a time for many rows, so that the lines touched by
    // one row are still in the cache for the next.
    tiles.tile_columns = std::min(rows.length, rows.all_dense() ? Tiles::kTileElements : Tiles::kStage);
    tiles.tile_rows = std::max<int64_t>(1, Tiles::kTileElements / tiles.tile_columns);
    tiles.column_tiles = (rows.length + tiles.tile_columns - 1) / tiles.tile_columns;
    tiles.count = (rows.outer.count + tiles.tile_rows - 1) / tiles.tile_rows * tiles.column_tiles;
    return tiles;
}

}  // namespace gradus
