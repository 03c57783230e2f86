// What both operators do with gemm/: blocks of keys packed once for all rows that select them, heads and scores as left
// operands, and sums over many products.
#pragma once

#include <cstring>

#include "base/gather.h"
#include "base/scratch.h"
#include "gemm/gemm.h"
#include "ops/nsa_selected_attention/kernel.h"
#include "ops/nsa_selected_attention/selection.h"

namespace gradus::nsa_selected_attention {

inline constexpr int64_t kFold = 8;  // products that are added up in f32 before they go to the f64 total

// Rows i of a head: [rows, columns], and the same with columns as rows.
inline gemm::Matrix rows_of(const Strided& view, std::byte* const* address, int64_t row, int64_t head) {
    return {view.at(address, row, head), view.step[0], view.step[2]};
}
// Heads of one row: [heads, columns].
inline gemm::Matrix heads_of(const Strided& view, std::byte* const* address, int64_t row, int64_t head) {
    return {view.at(address, row, head), view.step[1], view.step[2]};
}

struct Operand {
    gemm::Panel panel;
    const std::byte* data;
};

// A whole matrix of 16-bit numbers, packed.
inline Operand packed(const gemm::Path& path, const gemm::Panel& panel, std::byte* to, int64_t k,
                      const gemm::Matrix& from) {
    path.pack(panel, to, {0, panel.rows, 0, k}, from);
    return {panel, to};
}

// c (+)= a·b^T, of b the first `columns` rows; inside a gemm::Using.
inline void multiply(const gemm::Path& path, const Operand& a, const Operand& b, int64_t columns, float* c,
                     int64_t stride, bool accumulate) {
    path.multiply(a.panel, a.data, b.panel, b.data,
                  {0, a.panel.strips(), 0, ceil_div(columns, b.panel.strip.rows), c, stride, accumulate});
}

// On a path that takes f32, heads are widened and multiplied as they lie. From one to the next it is an odd number of
// cache lines, so that a column of them does not fall into a few sets of the cache.
inline int64_t wide_stride(const gemm::Path& path, int64_t depth) {
    constexpr int64_t kLine = 16;
    const int64_t lines = round_up(round_up(depth, path.b.rows), kLine) / kLine;
    return (lines + 1 - lines % 2) * kLine;
}

// n elements of a head, dense: in 16 bits, or widened. line: n elements of scratch
inline void copy_head(const RowFunctions& f, const std::byte* from, int64_t step, int64_t n, bool wide, std::byte* to,
                      std::byte* line) {
    if (step != 1 && n > 1) {
        gather(wide ? line : to, from, step, n, 2);
        if (wide) f.widen(line, n, reinterpret_cast<float*>(to));
    } else if (wide) {
        f.widen(from, n, reinterpret_cast<float*>(to));
    } else {
        std::memcpy(to, from, static_cast<size_t>(n) * 2);
    }
}

// A sum of products, [rows, columns]: f32 for kFold of them, then f64, so that no chain gets long.
struct Total {
    float* c;
    double* total;
    int64_t rows, columns, stride;  // stride of c; total is dense
    bool begun = false;             // total holds a sum
    int64_t pending = 0;

    bool accumulate() const { return pending > 0; }  // what the next product is to do with c
    void added(const RowFunctions& f) {
        if (++pending == kFold) fold(f);
    }
    void fold(const RowFunctions& f) {
        if (pending > 0) add_rows(f, rows);
        pending = 0;
    }
    // The first rows of c; the others get nothing.
    void add_rows(const RowFunctions& f, int64_t count) {
        for (int64_t i = 0; i < count; ++i) f.add(total + i * columns, c + i * stride, columns, begun);
        if (!begun) std::fill(total + count * columns, total + rows * columns, 0.0);
        begun = true;
    }
};

// Whether a row's heads would leave most of a tile empty, so that several rows had better share a product. Tiles of f32
// come in smaller sizes.
inline bool few_heads(const gemm::Path& path, int64_t group) { return !path.takes_f32() && 2 * group <= path.a.rows; }

// Sums of several rows, [heads, columns] each, of a thread.
struct SumScratch {
    Piece<Total> totals;
    Piece<float> c;
    Piece<double> total;
    int64_t heads = 0, columns = 0, room = 0;  // room: floats of c for a row
    int64_t most_rows = 1;                     // that one product serves

    // Where several rows share a product, it is added to the totals of each; otherwise products add to c, a row at a
    // time.
    void book(Scratch& scratch, const gemm::Path& path, int64_t rows, int64_t group, int64_t n, int64_t most,
              int slots) {
        heads = group, columns = n;
        room = round_up(group, path.a.rows) * round_up(n, path.b.rows);
        if (few_heads(path, group)) most_rows = most;
        totals = scratch.book<Total>(rows, slots);
        total = scratch.book<double>(rows * group * n, slots);
        c = scratch.book<float>(
            most_rows == 1 ? rows * room : round_up(most * group, path.a.rows) * round_up(n, path.b.rows), slots);
    }
};

class Totals {
  public:
    Totals(const SumScratch& scratch, const gemm::Path& path, const RowFunctions& f, std::byte* workspace, int slot,
           int64_t rows)
        : path_(path), f_(f), together_(scratch.most_rows > 1), totals_(scratch.totals.at(workspace, slot)) {
        for (int64_t row = 0; row < rows; ++row)
            totals_[row] = {scratch.c.at(workspace, slot) + (together_ ? 0 : row * scratch.room),
                            scratch.total.at(workspace, slot) + row * scratch.heads * scratch.columns, scratch.heads,
                            scratch.columns, round_up(scratch.columns, path.b.rows)};
    }

    // a·b^T, of which the i-th row of heads belongs to row_of(i).
    template <typename F>
    void add(const Operand& a, const Operand& b, int64_t rows, const F& row_of) {
        Total& first = totals_[row_of(0)];
        multiply(path_, a, b, first.columns, first.c, first.stride, !together_ && first.accumulate());
        if (!together_) return first.added(f_);
        for (int64_t i = 0; i < rows; ++i) {
            Total& to = totals_[row_of(i)];
            Total part = to;
            part.c += i * to.rows * to.stride;
            part.add_rows(f_, to.rows);
            to.begun = true;
        }
    }
    // [heads, columns], or null where nothing was added.
    const double* finish(int64_t row) {
        totals_[row].fold(f_);
        return totals_[row].begun ? totals_[row].total : nullptr;
    }

  private:
    const gemm::Path& path_;
    const RowFunctions& f_;
    bool together_;
    Total* totals_;
};

// n elements of a row into the result's view; line: n elements of scratch.
inline void put_row(const RowFunctions& f, const double* total, int64_t n, double factor, std::byte* to, int64_t step,
                    std::byte* line) {
    if (step == 1 || n == 1) return f.finish(total, n, factor, to);
    f.finish(total, n, factor, line);
    scatter(to, step, line, n, 2);
}
inline void put_zeros(std::byte* to, int64_t n, int64_t step) {
    for (int64_t i = 0; i < n; ++i) store_element<uint16_t>(to + i * step * 2, 0);
}

}  // namespace gradus::nsa_selected_attention
