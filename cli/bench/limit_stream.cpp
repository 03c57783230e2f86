#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "cli/base/clock.h"
#include "cli/bench/limit.h"
#include "cli/bench/team.h"

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

using cli::now;

constexpr size_t kMostStrips = 8;
constexpr int64_t kLine = 64, kFine = 4 * kLine;
constexpr int64_t kBlockBytes = 64 << 10;  // of one strip; what a thread takes at a time
constexpr int64_t kStage = 4096;           // of one strip; stays in L1 with all the others

typedef uint64_t Line __attribute__((vector_size(64)));

// How the strips are walked. Which way is fastest depends on the CPU, its caches and the number of strips.
struct Way {
    int64_t step;     // bytes of one strip before the next has its turn
    bool past_cache;  // non-temporal writes
    int64_t ahead;    // bytes that reads are told to the memory in advance, 0: not at all
};
#if defined(__x86_64__)
constexpr Way kWays[] = {
    {kFine, false, 0}, {kStage, false, 0}, {kFine, true, 0}, {kFine, true, 1024}, {kStage, true, 0}};
#else
constexpr Way kWays[] = {{kFine, false, 0}, {kStage, false, 0}};
#endif

struct Pointers {
    std::array<std::byte*, kMostStrips> read{}, write{};
};

void lines_through(std::byte* to, const Line* from, int64_t lines) {
    std::memcpy(to, from, static_cast<size_t>(lines * kLine));
}

#if defined(__x86_64__)

// Past the cache with the widest stores there are: a line in one, or the limit would flatter who has them.
void lines_sse2(std::byte* to, const Line* from, int64_t lines) {
    const auto* part = reinterpret_cast<const __m128i*>(from);
    for (int64_t i = 0; i < 4 * lines; ++i) _mm_stream_si128(reinterpret_cast<__m128i*>(to) + i, part[i]);
}
__attribute__((target("avx2"))) void lines_avx2(std::byte* to, const Line* from, int64_t lines) {
    const auto* part = reinterpret_cast<const __m256i*>(from);
    for (int64_t i = 0; i < 2 * lines; ++i) _mm256_stream_si256(reinterpret_cast<__m256i*>(to) + i, part[i]);
}
__attribute__((target("avx512f"))) void lines_avx512(std::byte* to, const Line* from, int64_t lines) {
    const auto* part = reinterpret_cast<const __m512i*>(from);
    for (int64_t i = 0; i < lines; ++i) _mm512_stream_si512(reinterpret_cast<__m512i*>(to) + i, part[i]);
}
auto* lines_past() {
    if (__builtin_cpu_supports("avx512f")) return lines_avx512;
    return __builtin_cpu_supports("avx2") ? lines_avx2 : lines_sse2;
}

#else

auto* lines_past() { return lines_through; }

#endif

// One row of every strip, in whole lines: their sum without carries is written wherever there is something to write.
GRADUS_WIDE uint64_t move(const Pointers& p, size_t reads, size_t writes, int64_t bytes, const Way& way,
                          void (*store_lines)(std::byte*, const Line*, int64_t)) {
    alignas(kLine) Line stage[kStage / kLine] = {};
    Line sum{};
    for (int64_t at = 0; at + kLine <= bytes; at += way.step) {
        const int64_t lines = std::min(way.step, bytes - at) / kLine;
        for (size_t r = 0; r < reads; ++r) {
            for (int64_t i = 0; i < lines; ++i) {
                const std::byte* from = p.read[r] + at + i * kLine;
                if (way.ahead != 0) __builtin_prefetch(from + way.ahead);
                Line line;
                std::memcpy(&line, from, sizeof line);
                stage[i] = r == 0 ? line : stage[i] ^ line;
            }
        }
        for (size_t w = 0; w < writes; ++w) store_lines(p.write[w] + at, stage, lines);
        sum ^= stage[0];
    }
    return sum[0];
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
        return move(p, reads.size(), writes.size(), length, way, way.past_cache ? lines_past() : lines_through);
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
