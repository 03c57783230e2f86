// Everything that was seen, for whoever writes it down.
#pragma once

#include <atomic>
#include <cstdint>

#include "trace/details.h"
#include "trace/record.h"
#include "trace/ring.h"

namespace gradus::trace {

struct Thread {
    std::atomic<uint32_t> id;  // 0: none, or its name is being read
    char name[16];
};

// Threads of the program that have called, with the names they had then.
class Threads {
  public:
    void add(uint32_t id) noexcept;
    void forget_all() noexcept;
    std::span<const Thread> all() const noexcept { return threads_; }

  private:
    static constexpr size_t kMost = 1024;  // those that come later have no name
    Thread threads_[kMost]{};
    std::atomic<size_t> count_ = 0;
};

struct Store {
    static constexpr size_t kCalls = size_t{1} << 20, kTasks = size_t{1} << 19, kFindings = size_t{1} << 12;

    bool open() noexcept { return calls.open(kCalls) && tasks.open(kTasks) && findings.open(kFindings); }
    void forget_all() noexcept {
        calls.forget_all();
        tasks.forget_all();
        findings.forget_all();
        threads.forget_all();
    }

    Ring<CallRecord> calls;
    Ring<TaskRecord> tasks;  // by ticket
    Ring<FindingRecord> findings;
    Details details;
    Threads threads;
};

}  // namespace gradus::trace
