// The observer that looks for mistakes: it keeps the order of everything (order.h), what is known of memory (shadow.h),
// and the handles, and reports what cannot be right (findings.h). docs/sanitizer.md explains every id.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <unordered_map>

#include "base/observer.h"
#include "base/registry.h"
#include "sanitize/findings.h"
#include "sanitize/order.h"
#include "sanitize/shadow.h"

namespace gradus::sanitize {

// A call of the interface that a thread is in.
struct Here {
    const char* function = "";
    bool phase_one = false;  // which has the function's name with GetWorkspaceSize
    RawStack stack;
    Site site = 0;
    uint64_t findings = 0;  // so many there were when it began
    HandleKind unknown{};   // the last handle that was looked up in vain
    const void* handle = nullptr;
    const void* freed = nullptr;      // the address of a free that was refused
    const void* elsewhere = nullptr;  // of another context
    uint64_t expired = 0;             // the stream that it waited for in vain
    uint64_t waits_for = 0;           // the stream
    uint64_t copy = 0;                // its place among the copies
};

class Sanitizer final : public Observer {
  public:
    explicit Sanitizer(const Options& options);

    void on_call(const char* function) override;
    void on_return(const char* function, const Status& status) override;
    void on_phase_one() override;
    void on_create(HandleKind kind, const void* handle) override;
    void on_destroy(HandleKind kind, const void* handle) override;
    void on_unknown(HandleKind kind, const void* handle) override;
    void on_stream(const StreamInfo& stream) override;
    void on_stream_end(uint64_t stream) override;
    void on_allocate(const AllocationInfo& allocation) override;
    void on_free(const void* address, MemoryKind kind, uint64_t allocation) override;
    void on_address(const void* handle, size_t index) override;
    void on_other_context(const void* handle, Elsewhere how) override;
    void on_prepare(const void* executor, std::span<const void* const> tensors) override;
    void on_attempt(const TaskInfo& task) override;
    void on_host_access(const TaskInfo& task) override;
    void on_host_access_end(const TaskInfo& task) override;
    void on_task(const TaskInfo& task) override;
    void on_task_begin(const TaskInfo& task) override;
    void on_task_end(const TaskInfo& task, int code) override;
    void on_task_dropped(const TaskInfo& task) override;
    void on_wait_begin(uint64_t stream, uint64_t ticket) override;
    void on_stream_done(uint64_t stream, uint64_t ticket) override;
    void on_record_done(uint64_t record) override;
    void on_wait(uint64_t stream, uint64_t record) override;
    void on_expired(uint64_t stream) override;
    void on_callback_begin(uint64_t callback) override;
    void on_callback_end(uint64_t callback) override;
    void on_exit() override;

    void at_exit(int status) { status_ = status; }  // what the program returns
    void at_end();                                  // of the process
    void at_death();                                // by a signal
    void after_fork();
    // A fault at an address of ours; false: it was the program's own.
    bool on_touch(const void* address, bool write, uintptr_t interrupted);
    void tell_touches();

  private:
    static constexpr size_t kRemembered = 4000;  // destroyed handles: what fits a cache

    struct Handle {
        HandleKind kind;
        Site site;
        const char* function;
        uint64_t made, since;  // since: of a tensor, the moment of its address
    };
    struct Executor {
        std::vector<const void*> tensors;    // by argument
        std::map<size_t, uint64_t> address;  // when an argument was given another one
        uint64_t since;
        uint64_t launches = 0;
        Site site = 0, launched = 0;
    };
    struct Failure {
        std::string function, message;
        Site site;
        uint64_t expired;  // a stream; 0: it was no wait
    };
    // What a handler of a fault leaves to be told: it takes no memory.
    struct Touch {
        const std::byte* address;
        uint64_t allocation;
        bool write, freed;
        RawStack stack;
        Asked user;            // of pinned memory: the copy
        const char* argument;  // nullptr: none
        bool user_writes;
    };
    struct Waiter {  // for a stream that does not move
        const char* function;
        Site site;
        const char* how;
    };
    struct InFlight {
        uint64_t ticket;
        size_t begin, end;
        bool writes;
    };

    Site site();
    void end_wait(uint64_t stream);
    void report(const Finding& finding) { findings_.report(finding); }
    std::string name(const Memory& memory) const;  // A3
    Part part_of(const Memory& memory) const;
    std::string bytes_of(const Access& access, const Memory* memory) const;
    std::string bytes_words(const Access& access, const Memory* memory) const;  // "declared bytes 0–63 of A3"

    void tell_race(const Race& race);

    // judge_memory.cpp
    void judge_free(MemoryKind kind, uint64_t allocation);
    void tell_unused(const Memory& memory);
    void judge_memory(const TaskInfo& task, const Access& access);
    void judge_reuse(const TaskInfo& task, const Access& access, const Memory& memory, const Memory& freed);
    void judge_executor(const TaskInfo& task);
    void book(const TaskInfo& task);
    void judge_read(const TaskInfo& task, const Access& access, Memory& memory);
    void hash_copy(const TaskInfo& task, uint64_t place, Site site);

    // judge_portability.cpp
    void tell_callback();
    void judge_async_copy(const TaskInfo& task);
    void judge_sync_copy(const TaskInfo& task);
    void judge_end_of_stream(uint64_t stream);

    // judge_calls.cpp
    void judge_return(const char* function, const Status& status);
    Site callers();
    void forgive(uint64_t stream);
    Finding classify(const char* function, const Status& status);
    Finding tell_handle(const char* function, const Here& here);
    void tell_makers(Finding& finding, const void* used) const;
    Finding tell_bad_free(const char* function, const Here& here, const Status& status);
    void tell_ignored(const Failure& failure, const std::string& how);
    void tell_deadlock(const Order::Stuck& stuck, const Waiter& waiter);

    // judge_end.cpp
    void judge_end();
    void tell_leaks();
    void tell_leak(const char* what, const std::vector<std::pair<std::string, Site>>& left);

    // touch.cpp
    void watch_signals();
    void look_at_handlers(const char* function, unsigned calls_before);
    void tell_touch(const Touch& touch);
    void protect(const Kept& kept, bool in_flight);
    void apply_protection(const Memory& memory) const;

    const Options options_;
    Findings findings_;
    Shadow shadow_;
    Order order_;
    std::unordered_map<const void*, Handle> handles_, destroyed_;
    std::vector<decltype(handles_)::node_type> spare_handles_;
    std::deque<const void*> destroyed_order_;
    std::unordered_map<const void*, Executor> executors_;
    std::vector<decltype(executors_)::node_type> spare_executors_;
    // That nobody has looked at: by thread, function, and who called the program's function that called it.
    std::map<std::tuple<uint64_t, std::string, Site>, Failure> failures_;
    std::atomic<bool> some_failed_ = false;
    uint64_t forked_ = 0;  // in a child: what is older is the parent's
    bool leaving_ = false, ended_ = false;
    std::atomic<int> status_ = 0;
    std::unordered_map<uint64_t, std::vector<InFlight>> in_flight_;  // of pinned memory, by allocation
    std::array<Touch, 16> touches_{};
    size_t touch_count_ = 0;
    std::atomic<bool> some_touched_ = false;
    Lines copies_;
    uint64_t copies_asked_ = 0;
    std::unordered_map<uint64_t, std::pair<uint64_t, Site>> copy_asked_;  // by ticket
};

}  // namespace gradus::sanitize
