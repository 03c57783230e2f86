// What is known of the program's memory: every allocation that lives, those freed since, and which bytes were written.
// Behind the process lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/observer.h"
#include "sanitize/stacks.h"

namespace gradus::sanitize {

// Half-open ranges of bytes, disjoint and ascending. Above so many, all counts as inside: no false accusation.
class Ranges {
  public:
    static constexpr size_t kMost = 100000;

    void add(size_t begin, size_t end);
    void add_all() { all_ = true; }
    void remove(size_t begin, size_t end);
    std::optional<std::pair<size_t, size_t>> first_gap(size_t begin, size_t end) const;
    const std::map<size_t, size_t>& list() const { return ranges_; }

  private:
    std::map<size_t, size_t> ranges_;  // begin → end
    bool all_ = false;
};

struct Memory {
    AllocationInfo info;
    Site allocated = 0, freed = 0;
    const char* allocated_by = "";
    const char* freed_by = "";
    uint64_t since = 0, until = 0;  // moments of allocating and freeing
    bool used = false;
    Ranges written{};

    // Views of which every byte is known to be written: programs use the same ones again, and those with many gaps
    // take long to follow.
    struct Seen {
        const std::byte* address;
        TensorView view;
    };
    static constexpr size_t kSeenMost = 4;
    std::vector<Seen> seen{};
};

class Shadow {
  public:
    // Moments ascend with everything that is allocated, freed, or asked for a moment.
    uint64_t moment() { return ++moment_; }

    Memory& allocate(const AllocationInfo& info, Site site, const char* function);
    Memory* release(uint64_t allocation, Site site, const char* function);
    Memory* find(const void* address);                    // that lives and holds it
    const Memory* find_freed(const void* address) const;  // the one freed last that held it
    Memory* by_id(uint64_t id);
    std::map<uint64_t, Memory*>& live() { return by_id_; }

    // The bytes of an access, relative to its allocation, run by run; more than `most` runs: none.
    struct Run {
        size_t begin, end;
    };
    static std::vector<Run> runs(const Access& access, const Memory& memory, size_t most);

    void write(const Access& access, Memory& memory);
    std::optional<std::pair<size_t, size_t>> unwritten(const Access& access, Memory& memory) const;
    static bool some_written(const Access& access, const Memory& memory);  // between its first byte and its last
    void carry_over(const Access& from, const Memory& source, const Access& to, Memory& target);

  private:
    static constexpr size_t kFreedMost = 10000;

    static bool all_written(const Access& access, const Memory& memory);
    static void remember_written(const Access& access, Memory& memory);
    void cover(const std::byte* begin, const std::byte* end, uint64_t moment);
    void forget_oldest();

    uint64_t moment_ = 0;
    std::map<const std::byte*, Memory> live_;
    std::map<uint64_t, Memory*> by_id_;
    std::map<uint64_t, Memory> freed_;  // by moment
    // The same by address, without overlap: what was freed there last.
    struct FreedPart {
        const std::byte* end;
        uint64_t moment;
    };
    std::map<const std::byte*, FreedPart> freed_at_;
};

}  // namespace gradus::sanitize
