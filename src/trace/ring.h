// The newest so many records of a kind. Anyone may add one, at any time, without a lock and without memory, and anyone
// may read, a signal handler included: a record that is being written or was overwritten is simply not there.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace gradus::trace {

template <typename T>
class Ring {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(uint64_t) == 0);
    static constexpr size_t kWords = sizeof(T) / sizeof(uint64_t);

    // Who reads a word of a later turn also sees that the turn has changed: words are released and acquired one by one.
    struct Slot {
        std::atomic<uint64_t> turn;  // the number of the record in here; 0: none yet
        std::atomic<uint64_t> word[kWords];
    };
    static constexpr uint64_t kBusy = ~uint64_t{0};

  public:
    // `capacity` is a power of two. Pages come into being when they are written first.
    bool open(size_t capacity) noexcept {
        void* const pages = mmap(nullptr, capacity * sizeof(Slot), PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (pages == MAP_FAILED) return false;
        slots_ = static_cast<Slot*>(pages);
        capacity_ = capacity;
        return true;
    }

    // Numbers ascend from 1. When a writer is overtaken by a whole turn, its record or the other is lost.
    void add(const T& record) noexcept {
        const uint64_t number = last_.fetch_add(1, std::memory_order_relaxed) + 1;
        Slot& slot = at(number);
        if (slot.turn.exchange(kBusy, std::memory_order_acq_rel) != kBusy) write(slot, number, record);
    }

    // For records that are numbered elsewhere, in ascending order and by one thread at a time; the same again replaces
    // it, and nothing happens if it was overwritten meanwhile.
    void put(uint64_t number, const T& record) noexcept {
        const uint64_t newest = last();
        if (number > newest) last_.store(number, std::memory_order_relaxed);
        if (number < first()) return;
        Slot& slot = at(number);
        slot.turn.store(kBusy, std::memory_order_relaxed);
        write(slot, number, record);
    }

    bool get(uint64_t number, T& record) const noexcept {
        const Slot& slot = at(number);
        if (number < first() || slot.turn.load(std::memory_order_acquire) != number) return false;
        uint64_t words[kWords];
        for (size_t i = 0; i < kWords; ++i) words[i] = slot.word[i].load(std::memory_order_acquire);
        std::memcpy(&record, words, sizeof record);
        return slot.turn.load(std::memory_order_relaxed) == number;
    }

    uint64_t first() const noexcept {
        const uint64_t newest = last();
        return newest > capacity_ && newest - capacity_ >= first_ ? newest - capacity_ + 1 : first_;
    }
    uint64_t last() const noexcept { return last_.load(std::memory_order_relaxed); }
    uint64_t lost() const noexcept { return first() - first_; }

    // In the child of a fork: what is there is the parent's.
    void forget_all() noexcept { first_ = last() + 1; }

  private:
    Slot& at(uint64_t number) const noexcept { return slots_[(number - 1) & (capacity_ - 1)]; }

    static void write(Slot& slot, uint64_t number, const T& record) noexcept {
        uint64_t words[kWords];
        std::memcpy(words, &record, sizeof record);
        for (size_t i = 0; i < kWords; ++i) slot.word[i].store(words[i], std::memory_order_release);
        slot.turn.store(number, std::memory_order_release);
    }

    Slot* slots_ = nullptr;
    size_t capacity_ = 1;
    uint64_t first_ = 1;
    std::atomic<uint64_t> last_ = 0;
};

}  // namespace gradus::trace
