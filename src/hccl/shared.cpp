// One segment of memory and futexes. Its rules:
//
// 1. Of every rank it has two slots, which take turns: when a rank writes a slot for the second time, all others have
//    posted the round between, and so have read what was in it.
// 2. What a rank says about a call lies in front of the data, in the same slot: one round is enough for both.
// 3. Who waits looks for a while, where every rank can have a CPU of its own, and then sleeps on its own bell.
// 4. Who has stored something new looks whether the others sleep, and calls the kernel only then. Stores and looks of
//    both sides are sequentially consistent, so one of them sees the other's.
// 5. Pairs of ranks have channels of their own for sends and receives.
#include "hccl/shared.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstring>
#include <optional>

#include "base/cgroup.h"
#include "hccl/types.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gradus::hccl {
namespace {

// A slot should fit the second-level caches of who writes and who reads it.
constexpr size_t kLine = 64, kSlot = size_t{256} << 10, kChannel = size_t{64} << 10;
constexpr auto kSpin = std::chrono::microseconds(50);
constexpr auto kLook = std::chrono::milliseconds(100);  // between two looks for news

constexpr size_t kCpuWords = sizeof(cpu_set_t) / sizeof(uint64_t);

struct alignas(kLine) RankState {
    std::atomic<uint32_t> bell;                   // goes up whenever somebody wakes this rank
    std::atomic<uint32_t> sleeping;               // it waits in the kernel
    std::atomic<uint32_t> left;                   // has destroyed its communicator
    std::atomic<uint64_t> cpus[kCpuWords];        // where it may run, a bit each
    alignas(kLine) std::atomic<uint64_t> posted;  // rounds whose slot is written
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

    // In front of a slot: where each rank's bytes are, and how many; what is said about the call.
    size_t words() const { return 2 * sizeof(uint64_t) * ranks; }
    size_t data() const { return (words() + Agreement::size(ranks) + kLine - 1) / kLine * kLine; }
    size_t slot() const { return data() + kSlot; }
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
        : memory_(memory), layout_(ranks), rank_(rank), ranks_(ranks), news_(std::move(news)) {
        uint64_t cpus[kCpuWords];
        std::fill_n(cpus, kCpuWords, ~uint64_t{0});  // more than a set has room for
        sched_getaffinity(0, sizeof cpus, reinterpret_cast<cpu_set_t*>(cpus));
        for (size_t i = 0; i < kCpuWords; ++i) state(rank_).cpus[i].store(cpus[i]);
    }
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
        post({}, out);
        for (uint32_t i = 1; i < ranks_; ++i) {
            GRADUS_TRY(wait_for(other(i), deadline));
            GRADUS_TRY(take(other(i), in[other(i)]));
        }
        return {};
    }

    Status open(std::span<const std::byte> said, std::span<std::byte> heard, const std::function<Status()>& agree,
                std::span<const Outgoing> out, std::span<Incoming> in, Clock::time_point deadline) override {
        post(said, out);
        for (uint32_t i = 1; i < ranks_; ++i) {
            GRADUS_TRY(wait_for(other(i), deadline));
            std::memcpy(heard.data() + other(i) * said.size(), slot(other(i)) + layout_.words(), said.size());
        }
        GRADUS_TRY(agree());
        for (uint32_t i = 1; i < ranks_; ++i) GRADUS_TRY(take(other(i), in[other(i)]));
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

    uint32_t other(uint32_t i) const { return (rank_ + i) % ranks_; }  // everyone begins with another

    void post(std::span<const std::byte> said, std::span<const Outgoing> out) {
        ++round_;
        if (!said.empty()) std::memcpy(slot(rank_) + layout_.words(), said.data(), said.size());
        write_data(out);
        state(rank_).posted.store(round_);
        for (uint32_t i = 1; i < ranks_; ++i) ring(other(i));
    }

    Status wait_for(uint32_t rank, Clock::time_point deadline) {
        const auto has_posted = [&](uint32_t r) { return state(r).posted.load() >= round_; };
        return or_missing(wait([&] { return has_posted(rank); }, rank, deadline),
                          [&](uint32_t r) { return r != rank_ && !has_posted(r); });
    }

    // A time-out names all that have not come.
    template <typename Misses>
    Status or_missing(Status came, const Misses& misses) const {
        if (came.code() != HCCL_E_TIMEOUT) return came;
        const Text list = ranks_that(ranks_, misses);
        return list.empty() ? came : Status(HCCL_E_TIMEOUT, concat("missing: rank ", list));
    }

    Status take(uint32_t rank, Incoming& in) const {
        uint64_t place[2];
        std::memcpy(place, slot(rank) + sizeof place * rank_, sizeof place);
        if (place[1] != in.bytes || place[0] + place[1] > kSlot)
            return {HCCL_E_INTERNAL, concat("rank ", rank, " sent ", place[1], " bytes, expected ", in.bytes)};
        in.at = slot(rank) + layout_.data() + place[0];
        if (in.to != nullptr && in.bytes > 0) std::memcpy(in.to, in.at, in.bytes);
        return {};
    }

    void write_data(std::span<const Outgoing> out) {
        std::byte* const begin = slot(rank_);
        uint64_t used = 0, place[2] = {0, 0};
        const std::byte* last = nullptr;
        for (uint32_t r = 0; r < ranks_; ++r) {
            if (r == rank_) continue;
            if (out[r].bytes == 0 || out[r].from != last || out[r].bytes != place[1]) {
                place[0] = used, place[1] = out[r].bytes;
                if (out[r].bytes > 0) std::memcpy(begin + layout_.data() + used, out[r].from, out[r].bytes);
                used += (out[r].bytes + kLine - 1) / kLine * kLine;
                last = out[r].bytes > 0 ? out[r].from : nullptr;
            }
            std::memcpy(begin + sizeof place * r, place, sizeof place);
        }
    }

    void ring(uint32_t rank) const {
        RankState& s = state(rank);
        if (s.sleeping.load() == 0) return;
        s.bell.fetch_add(1);
        syscall(SYS_futex, &s.bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    }

    // Ranks may be bound to some CPUs each, or all be in a container that has few. Once all have come.
    bool has_cpus_for_all() const {
        int cpus = 0;
        for (size_t i = 0; i < kCpuWords; ++i) {
            uint64_t any = 0;
            for (uint32_t r = 0; r < ranks_; ++r) any |= state(r).cpus[i].load();
            cpus += std::popcount(any);
        }
        return static_cast<int>(ranks_) <= std::min(cpus, cgroup_limits().cpus.value_or(cpus));
    }

    // Until `happened`; `rank` is who can make it so.
    template <typename Happened>
    Status wait(const Happened& happened, uint32_t rank, Clock::time_point deadline) {
        if (happened()) return {};
        if (!looks_) looks_ = has_cpus_for_all();
        for (const auto end = Clock::now() + kSpin; *looks_ && Clock::now() < end;)
            for (int i = 0; i < 64; ++i) {
                if (happened()) return {};
                pause_cpu();
            }
        RankState& self = state(rank_);
        auto look = Clock::now() + kLook;
        for (;;) {
            const uint32_t bell = self.bell.load();
            self.sleeping.store(1);
            if (!happened() && state(rank).left.load() == 0) {
                const timespec most{0, std::chrono::nanoseconds(kLook).count()};
                syscall(SYS_futex, &self.bell, FUTEX_WAIT, bell, &most, nullptr, 0);
            }
            self.sleeping.store(0);
            if (happened()) return {};
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
    std::optional<bool> looks_;  // before it sleeps
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
        const uint64_t written = s.written.load(), read = s.read.load();
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
            s.written.fetch_add(1);
        } else {
            const std::byte* const at = piece(t.peer, rank_, s.read.load(std::memory_order_relaxed));
            Piece header;
            std::memcpy(&header, at, sizeof header);
            if (header.transfer_bytes != t.bytes || header.type != static_cast<uint32_t>(t.type))
                return {HCCL_E_PARA, concat("HcclSend: ranks disagree: rank ", t.peer, " sends ",
                                            describe(header.transfer_bytes, header.type), " to rank ", rank_,
                                            ", which receives ", describe(t))};
            std::memcpy(t.data + moved[i], at + kLine, n);
            s.read.fetch_add(1);
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
        const auto misses = [&](uint32_t r) {
            for (size_t i = first; i < batch.size(); ++i)
                if (batch[i].peer == r && !done(i)) return true;
            return false;
        };
        GRADUS_TRY(or_missing(wait(some, batch[first].peer, deadline), misses));
    }
    // a rendezvous: what was sent has been taken
    for (const Transfer& t : batch) {
        if (!t.sends) continue;
        const auto taken = [&](uint32_t r) {
            const ChannelState& s = channel_state(rank_, r);
            return s.read.load() == s.written.load();
        };
        GRADUS_TRY(
            or_missing(wait([&] { return taken(t.peer); }, t.peer, deadline), [&](uint32_t r) { return !taken(r); }));
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
