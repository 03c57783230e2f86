#include "base/rows.h"

namespace gradus {
namespace {

constexpr int64_t kShortRow = 32;  // below this a row costs more to start than to compute

struct Dim {
    int64_t size;
    std::array<int64_t, Rows::kMost> stride;  // elements
};

}  // namespace

bool Rows::all_dense() const {
    for (int i = 0; i < operands; ++i)
        if (!dense(i)) return false;
    return true;
}

int64_t Rows::at(int i, int64_t row, int64_t column) const {
    const Operand& o = operand[static_cast<size_t>(i)];
    int64_t offset = o.offset + column * o.step * o.item;
    for (int d = rank - 1; d > 0; --d) {
        const auto k = static_cast<size_t>(d);
        offset += row % size[k] * o.stride[k];
        row /= size[k];
    }
    return offset + row * o.stride[0];
}

Rows rows_of(std::span<const RowOperand> operands) {
    Rows rows;
    rows.operands = static_cast<int>(operands.size());
    const TensorView& shape = operands[0].view;
    size_t lead = 0;  // the operand whose order of memory the walk follows: writes want to be sequential most of all
    for (size_t k = 0; k < operands.size(); ++k) {
        const RowOperand& from = operands[k];
        rows.operand[k].slot = from.slot;
        rows.operand[k].written = from.written;
        rows.operand[k].item = dtype_size(from.view.dtype);
        rows.operand[k].offset = from.view.offset * rows.operand[k].item;
        if (from.written) lead = k;
    }
    if (shape.empty()) return rows;

    std::array<Dim, kMaxRank> dims;
    int rank = 0;
    for (int d = 0; d < shape.rank; ++d) {
        if (shape.of(d) == 1) continue;
        Dim& dim = dims[static_cast<size_t>(rank++)];
        dim.size = shape.of(d);
        for (size_t k = 0; k < operands.size(); ++k) dim.stride[k] = operands[k].view.step(d);
    }
    std::stable_sort(dims.begin(), dims.begin() + rank,
                     [lead](const Dim& a, const Dim& b) { return a.stride[lead] > b.stride[lead]; });
    int merged = 0;  // dims[0..merged] are final
    for (int d = 1; d < rank; ++d) {
        Dim& outer = dims[static_cast<size_t>(merged)];
        const Dim& inner = dims[static_cast<size_t>(d)];
        bool follows = true;
        for (size_t k = 0; k < operands.size(); ++k) follows &= outer.stride[k] == inner.stride[k] * inner.size;
        if (follows)
            outer = {outer.size * inner.size, inner.stride};
        else
            dims[static_cast<size_t>(++merged)] = inner;
    }
    rank = rank == 0 ? 0 : merged + 1;
    if (rank == 0) dims[static_cast<size_t>(rank++)] = {1, {}};  // a single element
    if (rank > 1 && dims[static_cast<size_t>(rank - 1)].size < kShortRow) {
        const auto longest = std::max_element(dims.begin(), dims.begin() + rank,
                                              [](const Dim& a, const Dim& b) { return a.size < b.size; });
        std::rotate(longest, longest + 1, dims.begin() + rank);
    }
    const Dim& row = dims[static_cast<size_t>(rank - 1)];
    rows.length = row.size;
    rows.rank = rank - 1;
    rows.count = 1;
    for (size_t k = 0; k < operands.size(); ++k) rows.operand[k].step = row.stride[k];
    for (int d = 0; d < rows.rank; ++d) {
        const Dim& dim = dims[static_cast<size_t>(d)];
        rows.size[static_cast<size_t>(d)] = dim.size;
        rows.count *= dim.size;
        for (size_t k = 0; k < operands.size(); ++k)
            rows.operand[k].stride[static_cast<size_t>(d)] = dim.stride[k] * rows.operand[k].item;
    }
    return rows;
}

Tiles tiles_of(const Rows& rows, bool streaming) {
    Tiles tiles{.rows = rows, .streaming = streaming};
    if (rows.count == 0) return tiles;
    // Operands that run against the grain are gathered a stage at a time for many rows, so that the lines touched by
    // one row are still in the cache for the next.
    tiles.tile_columns = std::min(rows.length, rows.all_dense() ? Tiles::kTileElements : Tiles::kStage);
    tiles.tile_rows = std::max<int64_t>(1, Tiles::kTileElements / tiles.tile_columns);
    tiles.column_tiles = (rows.length + tiles.tile_columns - 1) / tiles.tile_columns;
    tiles.count = (rows.count + tiles.tile_rows - 1) / tiles.tile_rows * tiles.column_tiles;
    return tiles;
}

}  // namespace gradus
