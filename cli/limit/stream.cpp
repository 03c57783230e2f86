#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "cli/limit/limit.h"
#include "cli/limit/measure.h"
#include "cli/limit/team.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif
// Loads as wide as the CPU has them; the plain function is the fallback. The loader chooses before ThreadSanitizer is
// there to watch it.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define GRADUS_WIDE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define GRADUS_WIDE
#endif

namespace gradus::bench {
namespace {

constexpr size_t kMostStrips = 8;
constexpr int64_t kLine = 64, kFine = 4 * kLine;
constexpr int64_t kBlockBytes = 64 << 10;  // of one strip; what a thread takes at a time
constexpr int64_t kStage = 4096;           // of one strip; stays in L1 with all the others

typedef uint64_t Line __attribute__((vector_size(64)));

// How the strips are walked. Which way is fastest depends on the CPU, its caches and the number of strips.
struct Way {
    int64_t step;     // bytes of one strip before the next has its turn
    bool past_cache;  // non-temporal writes
};
#if defined(__x86_64__)
constexpr Way kWays[] = {{kFine, false}, {kStage, false}, {kFine, true}, {kStage, true}};
#else
constexpr Way kWays[] = {{kFine, false}, {kStage, false}};
#endif

struct Pointers {
    std::array<std::byte*, kMostStrips> read{}, write{};
};

template <bool kPastCache>
__attribute__((always_inline)) inline void store_line(std::byte* to, const Line& line) {
#if defined(__x86_64__)
    if constexpr (kPastCache) {
        for (int i = 0; i < 4; ++i) {
            __m128i part;
            std::memcpy(&part, reinterpret_cast<const std::byte*>(&line) + 16 * i, 16);
            _mm_stream_si128(reinterpret_cast<__m128i*>(to + 16 * i), part);
        }
        return;
    }
#endif
    std::memcpy(to, &line, sizeof line);
}

// One row of every strip, in whole lines: their sum without carries is written wherever there is something to write.
template <bool kPastCache>
__attribute__((always_inline)) inline uint64_t move(const Pointers& p, size_t reads, size_t writes, int64_t bytes,
                                                    int64_t step) {
    alignas(kLine) Line stage[kStage / kLine] = {};
    Line sum{};
    for (int64_t at = 0; at + kLine <= bytes; at += step) {
        const int64_t lines = std::min(step, bytes - at) / kLine;
        for (size_t r = 0; r < reads; ++r) {
            for (int64_t i = 0; i < lines; ++i) {
                Line line;
                std::memcpy(&line, p.read[r] + at + i * kLine, sizeof line);
                stage[i] = r == 0 ? line : stage[i] ^ line;
            }
        }
        for (size_t w = 0; w < writes; ++w)
            for (int64_t i = 0; i < lines; ++i) store_line<kPastCache>(p.write[w] + at + i * kLine, stage[i]);
        sum ^= stage[0];
    }
    return sum[0];
}

GRADUS_WIDE uint64_t move_through(const Pointers& p, size_t reads, size_t writes, int64_t bytes, int64_t step) {
    return move<false>(p, reads, writes, bytes, step);
}
GRADUS_WIDE uint64_t move_past(const Pointers& p, size_t reads, size_t writes, int64_t bytes, int64_t step) {
    return move<true>(p, reads, writes, bytes, step);
}

struct Stream {
    int64_t rows, bytes, total, rows_per_block;
    std::vector<Strip> reads, writes;

    // What is read of the rows goes into the result, or the compiler would see that nobody wants it.
    uint64_t move_row(int64_t row, const Way& way) const {
        Pointers p;
        int64_t lost = 0;
        for (size_t r = 0; r < reads.size(); ++r) p.read[r] = reads[r].data + row * reads[r].pitch;
        for (size_t w = 0; w < writes.size(); ++w) {
            p.write[w] = writes[w].data + row * writes[w].pitch;
            // Past the cache only whole lines are fast: begin at the first one.
            const auto shift = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(p.write[w]) % kLine);
            if (way.past_cache) p.write[w] += shift;
            if (way.past_cache) lost = std::max(lost, shift);
        }
        const int64_t length = std::min(bytes, total - row * bytes) - lost;
        return (way.past_cache ? move_past : move_through)(p, reads.size(), writes.size(), length, way.step);
    }

    double run(const Way& way) const {
        const double start = now();
        team().run((rows + rows_per_block - 1) / rows_per_block, [&](int64_t block) {
            uint64_t sum = 0;
            const int64_t end = std::min(rows, (block + 1) * rows_per_block);
            for (int64_t row = block * rows_per_block; row < end; ++row) sum ^= move_row(row, way);
#if defined(__x86_64__)
            if (way.past_cache) _mm_sfence();
#endif
            return sum;
        });
        return now() - start;
    }

    Way fastest_way() const {
        constexpr size_t kCount = std::size(kWays);
        std::array<double, kCount> least;
        least.fill(std::numeric_limits<double>::infinity());
        for (int round = 0; round < 4; ++round)
            for (size_t i = 0; i < kCount; ++i) least[i] = std::min(least[i], run(kWays[i]));
        return kWays[std::ranges::min_element(least) - least.begin()];
    }
};

}  // namespace

Limit stream_limit(int64_t rows, int64_t bytes, const std::vector<Strip>& reads, const std::vector<Strip>& writes) {
    if (reads.size() > kMostStrips || writes.size() > kMostStrips)
        throw std::logic_error("stream_limit: too many strips");
    Stream stream{rows, bytes, rows * bytes, 1, reads, writes};
    const auto dense = [=](const Strip& strip) { return rows == 1 || strip.pitch == bytes; };
    if (std::ranges::all_of(reads, dense) && std::ranges::all_of(writes, dense)) {  // one long row: cut it anew
        stream.bytes = std::min(stream.total, kBlockBytes);
        stream.rows = (stream.total + stream.bytes - 1) / stream.bytes;
        for (Strip& strip : stream.reads) strip.pitch = stream.bytes;
        for (Strip& strip : stream.writes) strip.pitch = stream.bytes;
    }
    stream.rows_per_block = std::max<int64_t>(1, kBlockBytes / stream.bytes);
    const Way way = stream.fastest_way();
    return {.seconds = [=] { return stream.run(way); },
            .work = static_cast<double>(rows * bytes) * static_cast<double>(reads.size() + writes.size()),
            .kind = "stream, " + std::to_string(reads.size()) + " read, " + std::to_string(writes.size()) + " written" +
                    (way.past_cache ? ", past the cache" : "")};
}

}  // namespace gradus::bench
