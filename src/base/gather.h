// Moving elements without looking at them: gather and scatter between strides; and when results bypass the cache.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gradus {

// count elements of `item` bytes (1, 2, 4 or 8); the step counts elements.
void gather(std::byte* dense, const std::byte* strided, int64_t step, int64_t count, int64_t item) noexcept;
void scatter(std::byte* strided, int64_t step, const std::byte* dense, int64_t count, int64_t item) noexcept;

// The same for several rows at once; steps count elements. Where rows lie closer together than the elements of a row, a
// cache line serves all rows that have a part in it.
struct RowCopy {
    int64_t rows, count, item;
    int64_t dense_row;                  // from one dense row to the next
    int64_t strided_row, strided_step;  // from row to row, and within one
};
void gather_rows(std::byte* dense, const std::byte* strided, const RowCopy& copy) noexcept;
void scatter_rows(std::byte* strided, const std::byte* dense, const RowCopy& copy) noexcept;

// Results larger than this are written past the cache; below, the next operator wants to find them there.
inline constexpr int64_t kStreamingBytes = 32 << 20;

// What kernels have written past the cache (simd/stream-inl.h) comes before whatever this thread writes afterwards.
void stream_fence() noexcept;

}  // namespace gradus
