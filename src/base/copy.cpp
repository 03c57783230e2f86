#include "base/copy.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace gradus {
namespace {

// memcpy of a constant size is one move, and asks nothing of alignment.
template <size_t kItem>
void gather_items(std::byte* dense, const std::byte* strided, int64_t step, int64_t count) noexcept {
    for (int64_t i = 0; i < count; ++i)
        std::memcpy(dense + i * int64_t{kItem}, strided + i * step * int64_t{kItem}, kItem);
}

template <size_t kItem>
void scatter_items(std::byte* strided, int64_t step, const std::byte* dense, int64_t count) noexcept {
    for (int64_t i = 0; i < count; ++i)
        std::memcpy(strided + i * step * int64_t{kItem}, dense + i * int64_t{kItem}, kItem);
}

}  // namespace

void gather(std::byte* dense, const std::byte* strided, int64_t step, int64_t count, int64_t item) noexcept {
    if (item == 1) gather_items<1>(dense, strided, step, count);
    else if (item == 2) gather_items<2>(dense, strided, step, count);
    else if (item == 4) gather_items<4>(dense, strided, step, count);
    else gather_items<8>(dense, strided, step, count);
}

void scatter(std::byte* strided, int64_t step, const std::byte* dense, int64_t count, int64_t item) noexcept {
    if (item == 1) scatter_items<1>(strided, step, dense, count);
    else if (item == 2) scatter_items<2>(strided, step, dense, count);
    else if (item == 4) scatter_items<4>(strided, step, dense, count);
    else scatter_items<8>(strided, step, dense, count);
}

#if defined(__x86_64__)

void copy_streaming(std::byte* to, const std::byte* from, int64_t bytes) noexcept {
    constexpr int64_t kLine = 64;
    // whole lines only: a line that is written in part is read first after all
    const int64_t head = std::min(bytes, static_cast<int64_t>(-reinterpret_cast<uintptr_t>(to) % kLine));
    std::memcpy(to, from, static_cast<size_t>(head));
    int64_t i = head;
    for (; i + kLine <= bytes; i += kLine)
        for (int64_t j = i; j < i + kLine; j += 16)
            _mm_stream_si128(reinterpret_cast<__m128i*>(to + j),
                             _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + j)));
    std::memcpy(to + i, from + i, static_cast<size_t>(bytes - i));
}

void stream_fence() noexcept { _mm_sfence(); }

#else

void copy_streaming(std::byte* to, const std::byte* from, int64_t bytes) noexcept {
    std::memcpy(to, from, static_cast<size_t>(bytes));
}

void stream_fence() noexcept {}

#endif

}  // namespace gradus
