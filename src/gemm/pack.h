// Walking over an area of a panel: which strip, which k block, which run of the source. Every path packs with it.
#pragma once

#include "gemm/gemm.h"

namespace gradus::gemm {

// Up to strip.rows rows of a strip and a run of k inside one k block.
struct StripRun {
    std::byte* strip;  // of this k block
    int64_t first_k;   // where the run begins in it
    int64_t rows, k;   // of the source
    Matrix source;
};

// Calls f(run) for all runs of an area, strip by strip. T: element of the source
template <typename T, typename F>
inline void each_run(const Panel& panel, std::byte* packed, const Area& area, const Matrix& source, const F& f) {
    const int64_t last_k = area.first_k + area.k;
    for (int64_t row = 0; row < area.rows; row += panel.strip.rows) {
        const int64_t strip = (area.first_row + row) / panel.strip.rows;
        for (int64_t k = area.first_k; k < last_k;) {
            const int64_t block = k / panel.k_block, inside = k - block * panel.k_block;
            const int64_t run = std::min(panel.k_block - inside, last_k - k);
            const T* from = static_cast<const T*>(source.data) + row * source.row_stride +
                            (k - area.first_k) * source.column_stride;
            f(StripRun{packed + panel.at(block, strip),
                       inside,
                       std::min(panel.strip.rows, area.rows - row),
                       run,
                       {from, source.row_stride, source.column_stride}});
            k += run;
        }
    }
}

}  // namespace gradus::gemm
