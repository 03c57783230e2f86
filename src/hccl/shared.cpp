// One segment of memory and futexes. Of every rank it has two slots, which take turns: when a rank writes a slot for
// the second time, all others have posted the round between, and so have read what was in it. Pairs of ranks have
// channels of their own for sends and receives.
#include "hccl/shared.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gradus::hccl {
namespace {

// A slot should stay in the second-level caches of who writes and who reads it.
constexpr size_t kLine = 64, kSlot = size_t{512} << 10, kChannel = size_t{64} << 10;
constexpr auto kSpin = std::chrono::microseconds(50);
constexpr auto kLook = std::chrono::milliseconds(100);  // between two looks for news

struct alignas(kLine) RankState {
    std::atomic<uint32_t> bell;                   // goes up whenever something may have changed for this rank
    std::atomic<uint32_t> sleeping;               // it waits in the kernel
    alignas(kLine) std::atomic<uint64_t> posted;  // rounds whose slot is written
    std::atomic<uint32_t> left;                   // has destroyed its communicator
};

// From one rank to another: pieces in two halves that take turns, and the terms in front of the first.
struct alignas(kLine) ChannelState {
    std::atomic<uint64_t> written;
    alignas(kLine) std::atomic<uint64_t> read;
};

struct Piece {
    uint64_t transfer_bytes;  // of the whole transfer: both sides must say the same
    uint32_t type;
};

struct Layout {
    explicit Layout(uint32_t count) : ranks(count) {}
    const uint32_t ranks;

    size_t table() const { return (2 * sizeof(uint64_t) * ranks + kLine - 1) / kLine * kLine; }  // in front of a slot
    size_t slot() const { return table() + kSlot; }
    size_t channel() const { return std::max<size_t>(4096, kChannel / std::max(1u, ranks / 8)); }
    size_t states() const { return sizeof(RankState) * ranks; }
    size_t channel_states() const { return sizeof(ChannelState) * ranks * ranks; }
    size_t slots() const { return (states() + channel_states() + 4095) / 4096 * 4096; }
    size_t channels() const { return slots() + 2 * slot() * ranks; }
    size_t bytes() const { return channels() + 2 * (kLine + channel()) * ranks * ranks; }
};

void pause_cpu() {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

class SharedTransport final : public Transport {
  public:
    SharedTransport(std::byte* memory, uint32_t rank, uint32_t ranks, News news)
        : memory_(memory), layout_(ranks), rank_(rank), ranks_(ranks), news_(std::move(news)) {}
    ~SharedTransport() override {
        leave();
        munmap(memory_, layout_.bytes());
    }

    void leave() noexcept override {
        state(rank_).left.store(1);
        for (uint32_t r = 0; r < ranks_; ++r) ring(r);
    }

    size_t chunk() const override { return kSlot; }

    Status exchange(std::span<const Outgoing> out, std::span<Incoming> in, Clock::time_point deadline) override {
        ++round_;
        write_slot(out);
        state(rank_).posted.store(round_, std::memory_order_release);
        for (uint32_t r = 0; r < ranks_; ++r)
            if (r != rank_) ring(r);
        for (uint32_t i = 1; i < ranks_; ++i) {
            const uint32_t r = (rank_ + i) % ranks_;  // everyone begins with another
            const auto posted = [&] { return state(r).posted.load(std::memory_order_acquire) >= round_; };
            GRADUS_TRY(wait(posted, r, deadline));
            uint64_t place[2];
            std::memcpy(place, slot(r) + sizeof place * rank_, sizeof place);
            if (place[1] != in[r].bytes || place[0] + place[1] > kSlot)
                return {HCCL_E_INTERNAL, concat("rank ", r, " sent ", place[1], " bytes, expected ", in[r].bytes)};
            in[r].at = slot(r) + layout_.table() + place[0];
            if (in[r].to != nullptr && in[r].bytes > 0) std::memcpy(in[r].to, in[r].at, in[r].bytes);
        }
        return {};
    }

    Status transfer(std::span<const Transfer> batch, Clock::time_point deadline) override;

  private:
    RankState& state(uint32_t rank) const { return reinterpret_cast<RankState*>(memory_)[rank]; }
    std::byte* slot(uint32_t rank) const {
        return memory_ + layout_.slots() + (2 * rank + round_ % 2) * layout_.slot();
    }
    ChannelState& channel_state(uint32_t from, uint32_t to) const {
        return reinterpret_cast<ChannelState*>(memory_ + layout_.states())[size_t{from} * ranks_ + to];
    }
    std::byte* piece(uint32_t from, uint32_t to, uint64_t number) const {
        return memory_ + layout_.channels() +
               ((size_t{from} * ranks_ + to) * 2 + number % 2) * (kLine + layout_.channel());
    }

    void write_slot(std::span<const Outgoing> out) {
        std::byte* const begin = slot(rank_);
        uint64_t used = 0, place[2] = {0, 0};
        const std::byte* last = nullptr;
        for (uint32_t r = 0; r < ranks_; ++r) {
            if (r == rank_) continue;
            if (out[r].bytes == 0 || out[r].from != last || out[r].bytes != place[1]) {
                place[0] = used, place[1] = out[r].bytes;
                if (out[r].bytes > 0) std::memcpy(begin + layout_.table() + used, out[r].from, out[r].bytes);
                used += (out[r].bytes + kLine - 1) / kLine * kLine;
                last = out[r].bytes > 0 ? out[r].from : nullptr;
            }
            std::memcpy(begin + sizeof place * r, place, sizeof place);
        }
    }

    void ring(uint32_t rank) const {
        RankState& s = state(rank);
        s.bell.fetch_add(1);
        if (s.sleeping.load() != 0) syscall(SYS_futex, &s.bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    }

    // Until `happened`; `rank` is who can make it so. Looks for a little while, then sleeps on the rank's own bell.
    template <typename Happened>
    Status wait(const Happened& happened, uint32_t rank, Clock::time_point deadline) {
        if (happened()) return {};
        const auto spin_end = Clock::now() + kSpin;
        do {
            for (int i = 0; i < 64; ++i) {
                if (happened()) return {};
                pause_cpu();
            }
        } while (Clock::now() < spin_end);
        RankState& self = state(rank_);
        auto look = Clock::now() + kLook;
        for (;;) {
            const uint32_t bell = self.bell.load();
            self.sleeping.store(1);
            const bool there = happened();
            if (!there) {
                const timespec most{0, std::chrono::nanoseconds(kLook).count()};
                syscall(SYS_futex, &self.bell, FUTEX_WAIT, bell, &most, nullptr, 0);
            }
            self.sleeping.store(0);
            if (there || happened()) return {};
            const auto now = Clock::now();
            if (now >= deadline) return {HCCL_E_TIMEOUT, concat("missing: rank ", rank)};
            if (state(rank).left.load() != 0 && !happened())
                return {HCCL_E_REMOTE, concat("rank ", rank, " has destroyed its communicator")};
            if (now < look) continue;
            GRADUS_TRY(news_());
            look = now + kLook;
        }
    }

    std::byte* const memory_;
    const Layout layout_;
    const uint32_t rank_, ranks_;
    const News news_;
    uint64_t round_ = 0;
};

// Whatever can move on does; when nothing can, wait for the first that is not done.
Status SharedTransport::transfer(std::span<const Transfer> batch, Clock::time_point deadline) {
    std::vector<uint64_t> moved(batch.size());
    const auto done = [&](size_t i) { return moved[i] == batch[i].bytes; };
    const auto blocked_by_earlier = [&](size_t i) {  // between two ranks, in order
        for (size_t j = 0; j < i; ++j)
            if (batch[j].sends == batch[i].sends && batch[j].peer == batch[i].peer && !done(j)) return true;
        return false;
    };
    const auto state_of = [&](const Transfer& t) -> ChannelState& {
        return t.sends ? channel_state(rank_, t.peer) : channel_state(t.peer, rank_);
    };
    const auto can_move = [&](size_t i) {
        const ChannelState& s = state_of(batch[i]);
        const uint64_t written = s.written.load(std::memory_order_acquire),
                       read = s.read.load(std::memory_order_acquire);
        return batch[i].sends ? written - read < 2 : written > read;
    };
    const auto move = [&](size_t i) -> Status {
        const Transfer& t = batch[i];
        ChannelState& s = state_of(t);
        const uint64_t n = std::min<uint64_t>(layout_.channel(), t.bytes - moved[i]);
        if (t.sends) {
            std::byte* const at = piece(rank_, t.peer, s.written.load(std::memory_order_relaxed));
            const Piece header{t.bytes, static_cast<uint32_t>(t.type)};
            std::memcpy(at, &header, sizeof header);
            std::memcpy(at + kLine, t.data + moved[i], n);
            s.written.fetch_add(1, std::memory_order_release);
        } else {
            const std::byte* const at = piece(t.peer, rank_, s.read.load(std::memory_order_relaxed));
            Piece header;
            std::memcpy(&header, at, sizeof header);
            if (header.transfer_bytes != t.bytes || header.type != static_cast<uint32_t>(t.type))
                return {HCCL_E_PARA, concat("HcclSend: ranks disagree: rank ", t.peer, " sends ",
                                            describe(header.transfer_bytes, header.type), " to rank ", rank_,
                                            ", which receives ", describe(t))};
            std::memcpy(t.data + moved[i], at + kLine, n);
            s.read.fetch_add(1, std::memory_order_release);
        }
        moved[i] += n;
        ring(t.peer);
        return {};
    };
    const auto movable = [&](size_t i) { return !done(i) && !blocked_by_earlier(i) && can_move(i); };
    for (size_t first = 0;;) {
        bool any = false;
        for (size_t i = first; i < batch.size(); ++i)
            while (movable(i)) {
                GRADUS_TRY(move(i));
                any = true;
            }
        while (first < batch.size() && done(first)) ++first;
        if (first == batch.size()) break;
        if (any) continue;
        const auto some = [&] {
            for (size_t i = first; i < batch.size(); ++i)
                if (movable(i)) return true;
            return false;
        };
        GRADUS_TRY(wait(some, batch[first].peer, deadline));
    }
    // a rendezvous: what was sent has been taken
    for (const Transfer& t : batch) {
        if (!t.sends) continue;
        const ChannelState& s = channel_state(rank_, t.peer);
        const auto taken = [&] { return s.read.load(std::memory_order_acquire) == s.written.load(); };
        GRADUS_TRY(wait(taken, t.peer, deadline));
    }
    return {};
}

}  // namespace

Result<Socket> make_segment(uint32_t ranks) {
    Socket file(memfd_create("gradus-hccl", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!file.open()) return Status(HCCL_E_SYSCALL, concat("memfd_create: ", error_text(errno)));
    if (ftruncate(file.get(), static_cast<off_t>(Layout(ranks).bytes())) != 0)
        return Status(HCCL_E_MEMORY, concat("shared memory: ", error_text(errno)));
    // nobody can take away what another has mapped
    fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    return file;
}

Result<std::unique_ptr<Transport>> open_segment(const Socket& file, uint32_t rank, uint32_t ranks, News news) {
    const size_t bytes = Layout(ranks).bytes();
    struct stat is {};
    if (fstat(file.get(), &is) != 0 || static_cast<size_t>(is.st_size) != bytes)
        return Status(HCCL_E_INTERNAL, "the segment that came is not one of these ranks");
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED)
        return Status(HCCL_E_MEMORY, concat("shared memory: ", bytes,
                                            " bytes do not fit into the "
                                            "address space: ",
                                            error_text(errno)));
    madvise(memory, bytes, MADV_DONTFORK);
    try {
        return std::unique_ptr<Transport>(
            std::make_unique<SharedTransport>(static_cast<std::byte*>(memory), rank, ranks, std::move(news)));
    } catch (...) {
        munmap(memory, bytes);
        throw;
    }
}

}  // namespace gradus::hccl
