// Every operator as rounds of a transport's exchange. All ranks go through the same rounds, whatever they give or get.
#include <algorithm>
#include <cstring>
#include <vector>

#include "hccl/reduce.h"
#include "hccl/transport.h"
#include "hccl/types.h"

namespace gradus::hccl {
namespace {

constexpr size_t kLine = 64;           // pieces begin at whole lines, so that elements stay whole
constexpr uint64_t kSmall = 16 << 10;  // up to here everyone reduces everything: one round instead of two

struct Rounds {
    Transport& transport;
    const uint32_t rank, ranks;
    Collective& c;
    const Isa isa;
    const Clock::time_point deadline;
    std::vector<Outgoing> out = std::vector<Outgoing>(ranks);
    std::vector<Incoming> in = std::vector<Incoming>(ranks);
    std::vector<const std::byte*> sources = std::vector<const std::byte*>(ranks);
    uint64_t largest = 0;

    Status exchange() { return transport.exchange(out, in, deadline); }

    Status agree() {
        const size_t size = Agreement::size(ranks);
        std::vector<std::byte> all(size * ranks);
        Agreement::write(c, ranks, all.data() + rank * size);
        for (uint32_t r = 0; r < ranks; ++r) {
            out[r] = {all.data() + rank * size, size};
            in[r] = {all.data() + r * size, size};
        }
        GRADUS_TRY(exchange());
        largest = Agreement::largest_block(all.data(), ranks);
        return Agreement::check(all.data(), ranks);
    }

    // Of a block, what round k moves of it in pieces of so many bytes.
    static Block part(const Block& block, uint64_t k, uint64_t piece) {
        const uint64_t begin = std::min(block.bytes, k * piece);
        return {block.offset + begin, std::min(piece, block.bytes - begin)};
    }
    uint64_t piece_for(uint64_t ways) const { return std::max<uint64_t>(transport.chunk() / ways / kLine, 1) * kLine; }

    Status move() {
        const uint64_t piece = piece_for(c.same_for_all() ? 1 : ranks);
        for (uint64_t k = 0; k * piece < largest; ++k) {
            for (uint32_t r = 0; r < ranks; ++r) {
                const Block mine = part(c.out[r], k, piece), its = part(c.in[r], k, piece);
                out[r] = {c.send + mine.offset, mine.bytes};
                in[r] = {c.recv + its.offset, its.bytes};
            }
            GRADUS_TRY(exchange());
        }
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
        for (uint64_t k = 0; k * piece < largest; ++k) {
            const Block kept = part(c.in[0], k, piece);
            for (uint32_t r = 0; r < ranks; ++r) {
                const Block its = part(c.out[r], k, piece);
                out[r] = {c.send + its.offset, its.bytes};
                in[r] = {nullptr, kept.bytes};
            }
            GRADUS_TRY(exchange());
            reduce(c.send + part(c.out[rank], k, piece).offset, c.recv + kept.offset, kept.bytes);
        }
        return {};
    }

    bool wants(uint32_t r) const { return c.terms.kind == Kind::all_reduce || c.terms.root == r; }

    Status reduce_at_once() {
        const uint64_t bytes = c.out[c.terms.root].bytes;
        for (uint32_t r = 0; r < ranks; ++r) {
            out[r] = {c.send, wants(r) ? bytes : 0};
            in[r] = {nullptr, wants(rank) ? bytes : 0};
        }
        GRADUS_TRY(exchange());
        if (wants(rank)) reduce(c.send, c.recv, bytes);
        return {};
    }

    // Every rank reduces its share of a chunk and gives the result to who wants it.
    Status reduce_in_shares() {
        const Block whole{0, c.out[c.terms.root].bytes};
        const uint64_t share = piece_for(ranks), chunk = share * ranks;
        std::vector<std::byte> aside(wants(rank) ? 0 : share);
        for (uint64_t k = 0; k * chunk < whole.bytes; ++k) {
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
            GRADUS_TRY(exchange());
        }
        return {};
    }

    Status run() {
        GRADUS_TRY(agree());
        c.settle(rank);
        if (c.terms.kind == Kind::barrier) return {};  // to have agreed is all
        if (!c.reduces()) return move();
        if (c.terms.kind == Kind::reduce_scatter || c.terms.kind == Kind::reduce_scatter_v) return reduce_scatter();
        return largest <= kSmall ? reduce_at_once() : reduce_in_shares();
    }
};

}  // namespace

Status run_collective(Transport& transport, uint32_t rank, uint32_t ranks, Collective& collective, Isa isa,
                      Clock::time_point deadline) {
    return Rounds{transport, rank, ranks, collective, isa, deadline}.run();
}

}  // namespace gradus::hccl
