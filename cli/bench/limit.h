// The best this machine could do for an operator, to be run in turn with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gradus::bench {

struct Limit {
    std::function<double()> seconds;  // runs it once
    double work = 0;                  // bytes or floating-point operations of one run, the operator's as well
    const char* unit = "GB/s";
    std::string kind;  // "stream, 3 read, 2 written, past the cache"
};

// Rows of equal length, one every `pitch` bytes: a whole tensor, or the half of every row of one.
struct Strip {
    std::byte* data;
    int64_t pitch;
};

// Of memory-bound operators: a stream that moves the same bytes in the same pattern and computes next to nothing. Reads
// `bytes` of every row of every read strip and writes as many of every written one, side by side, with the threads of
// the library, past the cache or through it, whichever is faster on these buffers.
Limit stream_limit(int64_t rows, int64_t bytes, const std::vector<Strip>& reads, const std::vector<Strip>& writes);

// Of GEMM-shaped operators: the CPU's best matrix instruction for the dtype, from registers, on all threads. flops: of
// one run of the operator. Measured on a part of them, so that a limit does not take as long as the operator.
Limit matrix_limit(double flops, bool f16);

}  // namespace gradus::bench
