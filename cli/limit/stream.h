// The limit of memory-bound operators: a stream that moves the same bytes in the same pattern and computes next to
// nothing.
#pragma once

#include "cli/limit/bench.h"

namespace gradus::bench {

// Rows of equal length, one every `pitch` bytes: a whole tensor, or the half of every row of one.
struct Strip {
    std::byte* data;
    int64_t pitch;
};

// Reads `bytes` of every read strip and writes as many of every written one, row by row, side by side, with the threads
// of the library. Past the cache or through it, whichever is faster on these buffers.
Limit stream_limit(int64_t rows, int64_t bytes, const std::vector<Strip>& reads, const std::vector<Strip>& writes);

}  // namespace gradus::bench
