#include "base/gather.h"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gradus {
namespace {

// memcpy of a constant size is one move, and asks nothing of alignment.
template <size_t kItem>
void move_items(std::byte* to, int64_t to_step, const std::byte* from, int64_t from_step, int64_t count) noexcept {
    for (int64_t i = 0; i < count; ++i)
        std::memcpy(to + i * to_step * int64_t{kItem}, from + i * from_step * int64_t{kItem}, kItem);
}

void move_strided(std::byte* to, int64_t to_step, const std::byte* from, int64_t from_step, int64_t count,
                  int64_t item) noexcept {
    if (item == 1)
        move_items<1>(to, to_step, from, from_step, count);
    else if (item == 2)
        move_items<2>(to, to_step, from, from_step, count);
    else if (item == 4)
        move_items<4>(to, to_step, from, from_step, count);
    else
        move_items<8>(to, to_step, from, from_step, count);
}

enum Direction { kRead, kWrite };

// Lines of elements as the copy walks them: rows, or columns where those are closer together.
struct Lines {
    int64_t lines, length, strided_line, strided_step, dense_line, dense_step;

    // Short lines far apart are beyond what the CPU foresees (softmax with all tensors transposed, [2,8,1024,1024]
    // bf16: 5.9 ns an element without this, 2.2 with it).
    template <Direction kDirection>
    void fetch_ahead(const std::byte* strided, int64_t line, int64_t item) const {
        constexpr int64_t kAhead = 16, kCacheLine = 64, kShort = 8 * kCacheLine;
        const int64_t bytes = length * strided_step * item;
        if (line + kAhead >= lines || bytes > kShort) return;
        const std::byte* begin = strided + (line + kAhead) * strided_line * item;
        for (int64_t i = 0; i < bytes; i += kCacheLine) __builtin_prefetch(begin + i, kDirection);
    }
};
Lines lines_of(const RowCopy& c) {
    if (c.strided_step <= c.strided_row) return {c.rows, c.count, c.strided_row, c.strided_step, c.dense_row, 1};
    return {c.count, c.rows, c.strided_step, c.strided_row, 1, c.dense_row};
}

}  // namespace

void gather(std::byte* dense, const std::byte* strided, int64_t step, int64_t count, int64_t item) noexcept {
    move_strided(dense, 1, strided, step, count, item);
}

void scatter(std::byte* strided, int64_t step, const std::byte* dense, int64_t count, int64_t item) noexcept {
    move_strided(strided, step, dense, 1, count, item);
}

void gather_rows(std::byte* dense, const std::byte* strided, const RowCopy& copy) noexcept {
    const Lines l = lines_of(copy);
    for (int64_t i = 0; i < l.lines; ++i) {
        l.fetch_ahead<kRead>(strided, i, copy.item);
        move_strided(dense + i * l.dense_line * copy.item, l.dense_step, strided + i * l.strided_line * copy.item,
                     l.strided_step, l.length, copy.item);
    }
}

void scatter_rows(std::byte* strided, const std::byte* dense, const RowCopy& copy) noexcept {
    const Lines l = lines_of(copy);
    for (int64_t i = 0; i < l.lines; ++i) {
        l.fetch_ahead<kWrite>(strided, i, copy.item);
        move_strided(strided + i * l.strided_line * copy.item, l.strided_step, dense + i * l.dense_line * copy.item,
                     l.dense_step, l.length, copy.item);
    }
}

void stream_fence() noexcept {
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

}  // namespace gradus
