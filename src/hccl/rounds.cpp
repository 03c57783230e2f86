// Every operator as rounds of a transport's exchange. All ranks go through the same rounds, whatever they give or get;
// with the first they tell each other what they are about to do.
#include <algorithm>
#include <cstring>
#include <vector>

#include "hccl/reduce.h"
#include "hccl/transport.h"
#include "hccl/types.h"

namespace gradus::hccl {
namespace {

constexpr size_t kUnit = 64;             // pieces begin at whole lines, so that elements stay whole
constexpr uint64_t kMeeting = 32 << 10;  // bytes that are read and added while ranks meet once

struct Rounds {
    Transport& transport;
    const uint32_t rank, ranks;
    Collective& c;
    const Isa isa;
    const Clock::time_point deadline;
    std::vector<Outgoing> out = std::vector<Outgoing>(ranks);
    std::vector<Incoming> in = std::vector<Incoming>(ranks);
    std::vector<const std::byte*> sources = std::vector<const std::byte*>(ranks);
    bool agreed = false;
    uint64_t largest = 0;  // block that anyone sends to anyone, once they have agreed

    Status exchange() { return agreed ? transport.exchange(out, in, deadline) : open(); }

    Status open() {
        const size_t size = Agreement::size(ranks);
        std::vector<std::byte> all(size * ranks);
        std::byte* const mine = all.data() + rank * size;
        Agreement::write(c, ranks, mine);
        const auto agree = [&] { return Agreement::check(all.data(), ranks); };
        GRADUS_TRY(transport.open({mine, size}, all, agree, out, in, deadline));
        agreed = true;
        largest = Agreement::largest_block(all.data(), ranks);
        return {};
    }

    // Of a block, what round k moves of it in pieces of so many bytes.
    static Block part(const Block& block, uint64_t k, uint64_t piece) {
        const uint64_t begin = std::min(block.bytes, k * piece);
        return {block.offset + begin, std::min(piece, block.bytes - begin)};
    }
    uint64_t piece_for(uint64_t ways) const { return std::max<uint64_t>(transport.chunk() / ways / kUnit, 1) * kUnit; }

    // round(k) until pieces of so many bytes have moved the largest block; once in any case, to agree.
    template <typename Round>
    Status repeat(uint64_t piece, const Round& round) {
        uint64_t k = 0;
        do {
            GRADUS_TRY(round(k));
        } while (++k * piece < largest);
        return {};
    }

    Status move() {
        const uint64_t piece = piece_for(c.same_for_all() ? 1 : ranks);
        GRADUS_TRY(repeat(piece, [&](uint64_t k) {
            for (uint32_t r = 0; r < ranks; ++r) {
                const Block mine = part(c.out[r], k, piece), its = part(c.in[r], k, piece);
                out[r] = {c.send + mine.offset, mine.bytes};
                in[r] = {c.recv + its.offset, its.bytes};
            }
            return exchange();
        }));
        const Block &from = c.out[rank], &to = c.in[rank];
        if (to.bytes > 0) std::memmove(c.recv + to.offset, c.send + from.offset, to.bytes);
        return {};
    }

    // What is there from all others, and `own`, into `to`.
    void reduce(const std::byte* own, std::byte* to, uint64_t bytes) {
        if (bytes == 0) return;
        for (uint32_t r = 0; r < ranks; ++r) sources[r] = r == rank ? own : in[r].at;
        const auto elements = static_cast<int64_t>(bytes / size_of(c.terms.type));
        find_reduction(c.terms.type, c.terms.op, isa)(sources.data(), ranks, to, elements);
    }

    // Every rank reduces what it keeps.
    Status reduce_scatter() {
        const uint64_t piece = piece_for(ranks);
        return repeat(piece, [&](uint64_t k) -> Status {
            const Block kept = part(c.in[0], k, piece);
            for (uint32_t r = 0; r < ranks; ++r) {
                const Block its = part(c.out[r], k, piece);
                out[r] = {c.send + its.offset, its.bytes};
                in[r] = {nullptr, kept.bytes};
            }
            GRADUS_TRY(exchange());
            reduce(c.send + part(c.out[rank], k, piece).offset, c.recv + kept.offset, kept.bytes);
            return {};
        });
    }

    bool wants(uint32_t r) const { return c.terms.kind == Kind::all_reduce || c.terms.root == r; }

    // Who wants the result reads all of it from every other rank: (R − 1) · bytes. In shares it would be
    // 2 (R − 1) / R · bytes, of contributions and of results, in twice as many rounds; of two ranks that is the same.
    bool better_at_once() const {
        const uint64_t bytes = c.out[c.terms.root].bytes;
        return bytes * (ranks - 1) * (ranks - 2) / ranks <= kMeeting;
    }

    // What would fill a chunk alone goes in two pieces, so that one is read while the other is written.
    Status reduce_at_once() {
        const Block whole{0, c.out[c.terms.root].bytes};
        const bool fills = whole.bytes > transport.chunk() / 2 && whole.bytes <= transport.chunk();
        const uint64_t piece = piece_for(fills ? 2 : 1);
        return repeat(piece, [&](uint64_t k) -> Status {
            const Block now = part(whole, k, piece);
            for (uint32_t r = 0; r < ranks; ++r) {
                out[r] = {c.send + now.offset, wants(r) ? now.bytes : 0};
                in[r] = {nullptr, wants(rank) ? now.bytes : 0};
            }
            GRADUS_TRY(exchange());
            if (wants(rank)) reduce(c.send + now.offset, c.recv + now.offset, now.bytes);
            return {};
        });
    }

    // Every rank reduces its share of a chunk and gives the result to who wants it.
    Status reduce_in_shares() {
        const Block whole{0, c.out[c.terms.root].bytes};
        const uint64_t share = piece_for(ranks), chunk = share * ranks;
        std::vector<std::byte> aside(wants(rank) ? 0 : share);
        return repeat(chunk, [&](uint64_t k) -> Status {
            const Block now = part(whole, k, chunk), mine = part(now, rank, share);
            for (uint32_t r = 0; r < ranks; ++r) {
                const Block its = part(now, r, share);
                out[r] = {c.send + its.offset, its.bytes};
                in[r] = {nullptr, mine.bytes};
            }
            GRADUS_TRY(exchange());
            std::byte* const result = wants(rank) ? c.recv + mine.offset : aside.data();
            reduce(c.send + mine.offset, result, mine.bytes);
            for (uint32_t r = 0; r < ranks; ++r) {
                const Block its = part(now, r, share);
                out[r] = {result, wants(r) ? mine.bytes : 0};
                in[r] = {c.recv + its.offset, wants(rank) ? its.bytes : 0};
            }
            return exchange();
        });
    }

    Status run() {
        c.settle(rank);
        if (c.terms.kind == Kind::barrier) return exchange();  // to have agreed is all
        if (!c.reduces()) return move();
        if (c.terms.kind == Kind::reduce_scatter || c.terms.kind == Kind::reduce_scatter_v) return reduce_scatter();
        return better_at_once() ? reduce_at_once() : reduce_in_shares();
    }
};

}  // namespace

Status run_collective(Transport& transport, uint32_t rank, uint32_t ranks, Collective& collective, Isa isa,
                      Clock::time_point deadline) {
    return Rounds{transport, rank, ranks, collective, isa, deadline}.run();
}

}  // namespace gradus::hccl
