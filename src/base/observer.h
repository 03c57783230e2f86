// Who watches: the sanitizer and the timeline. Whatever happens to streams, events, memory and handles is told to every
// observer, with the process lock that is held for it anyway; asked for and ran are two events. Observers come at load,
// from the environment, and stay: a process without one pays a test of a pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/tensor_view.h"

namespace gradus {

enum class HandleKind : uint64_t;
enum class MemoryKind;

enum class TaskKind { launch, copy, fill, record, reset, wait, host_function, post, callback_wait, collective };

// How much an operator reads of what a call declares: lengths, masks and chosen blocks leave parts out, and beside some
// arguments another one is not looked at.
enum class Reads { all, in_part, perhaps, nothing };

// Bytes that a task reads or writes: a view at an address of the program's.
struct Access {
    const char* argument;
    const std::byte* address;
    TensorView view;
    bool reads, writes;
    size_t index = 0;  // of an operator's argument
    Reads declared = Reads::all;
};

// A piece of work, on a stream or of the host itself.
struct TaskInfo {
    TaskKind kind;
    const char* function;          // of the interface, that asked for it
    std::vector<Access> accesses;  // the workspace, as far as it is needed, is the last

    // of an operator; of a copy, path is its direction
    const char* op = "";
    const void* executor = nullptr;
    const char *path = "", *why = "";
    int64_t workspace = 0, bytes = 0;

    // Which record (record, wait) or which callback (post, callback_wait); 0: a wait that waits for nothing.
    uint64_t subject = 0;

    // Of a collective or a transfer between ranks of this process, one number for each pair of ranks and each
    // direction: whom its coming lets begin, and for whom it waits; 0: nobody.
    std::vector<uint64_t> gives = {}, takes = {};

    // Filled in when a stream takes it. Tickets ascend over the process. Without a stream: the device whose work it
    // waits for, if it waits.
    uint64_t ticket = 0, stream = 0;
    int device = -1;
};

struct StreamInfo {
    uint64_t id;  // from 1, never used twice
    int device;
    const void* context;
};

struct AllocationInfo {
    uint64_t id;  // from 1, never used twice
    MemoryKind kind;
    const std::byte* address;
    size_t size, footprint;  // asked for, and there
    int device;
};

// How a thread uses what does not belong to its current context: its work is refused; it has no context at all, and
// gives work; the event and the stream belong to different devices.
enum class Elsewhere { refused, without_context, other_device };

// What one observer tells the others: a mistake of the program's.
struct Finding {
    const char* id;
    bool error;         // or a warning
    uint64_t tasks[2];  // tickets; 0: none, or the host itself
    std::string_view text;
};

class Observer {
  public:
    virtual ~Observer() = default;

    // Calls of the C interface, without the lock, on the calling thread; they nest where a callback calls.
    virtual void on_call(const char* /*function*/) {}
    virtual void on_return(const char* /*function*/, const Status& /*status*/) {}
    // The call is phase one of an operator, which has the name of phase two here.
    virtual void on_phase_one() {}

    // The rest with the lock.
    virtual void on_create(HandleKind /*kind*/, const void* /*handle*/) {}
    virtual void on_destroy(HandleKind /*kind*/, const void* /*handle*/) {}
    virtual void on_unknown(HandleKind /*kind*/, const void* /*handle*/) {}  // looked up in vain
    virtual void on_stream(const StreamInfo& /*stream*/) {}
    virtual void on_stream_end(uint64_t /*stream*/) {}

    virtual void on_allocate(const AllocationInfo& /*allocation*/) {}
    // Allocation 0: refused, there is none of that kind at the address.
    virtual void on_free(const void* /*address*/, MemoryKind /*kind*/, uint64_t /*allocation*/) {}

    // The program holds so many bytes of a device more, or less.
    virtual void on_memory(int /*device*/, int64_t /*change*/) {}

    // Phase one: the tensors in the order of the arguments.
    virtual void on_prepare(const void* /*executor*/, std::span<const void* const> /*tensors*/) {}

    // A tensor, or argument `index` of an executor, has been given another address.
    virtual void on_address(const void* /*handle*/, size_t /*index*/) {}
    // A stream, or an event, that the device would not take from the calling thread.
    virtual void on_other_context(const void* /*handle*/, Elsewhere /*how*/) {}

    // What the program wants, before anything is checked; then it is refused, or one of the two below follows.
    virtual void on_attempt(const TaskInfo& /*task*/) {}
    // The calling thread does it itself: before it waits for anything, and after.
    virtual void on_host_access(const TaskInfo& /*task*/) {}
    virtual void on_host_access_end(const TaskInfo& /*task*/) {}
    // A stream has it, runs it, has run it, or has dropped it.
    virtual void on_task(const TaskInfo& /*task*/) {}
    virtual void on_task_begin(const TaskInfo& /*task*/) {}
    virtual void on_task_end(const TaskInfo& /*task*/, int /*code*/) {}
    virtual void on_task_dropped(const TaskInfo& /*task*/) {}

    // The calling thread begins to wait for all of a stream up to a ticket.
    virtual void on_wait_begin(uint64_t /*stream*/, uint64_t /*ticket*/) {}
    // The program has been told that all of a stream up to a ticket has ended, or that a record was reached.
    virtual void on_stream_done(uint64_t /*stream*/, uint64_t /*ticket*/) {}
    virtual void on_record_done(uint64_t /*record*/) {}
    // The calling thread is about to wait for a stream, for ever: up to a record, or for all of it (0).
    virtual void on_wait(uint64_t /*stream*/, uint64_t /*record*/) {}
    // It has waited for a stream in vain, as long as it wanted to.
    virtual void on_expired(uint64_t /*stream*/) {}

    // A callback of a PostTask, on a thread of the program's.
    virtual void on_callback_begin(uint64_t /*callback*/) {}
    virtual void on_callback_end(uint64_t /*callback*/) {}

    virtual void on_finding(const Finding& /*finding*/) {}

    // aclFinalize has succeeded; the process goes, and queued work is about to be dropped.
    virtual void on_finalize() {}
    virtual void on_exit() {}

  private:
    friend void install(Observer& observer) noexcept;
    template <typename F>
    friend void observe(const F& f);
    Observer* next_ = nullptr;
};

extern Observer* first_observer;

void install(Observer& observer) noexcept;  // at load; it lives as long as the process
inline bool observed() noexcept { return __builtin_expect(first_observer != nullptr, 0) != 0; }

template <typename F>
void observe(const F& f) {
    if (!observed()) return;
    for (Observer* observer = first_observer; observer != nullptr; observer = observer->next_) f(*observer);
}

// While it is observed: the function of the interface that the calling thread is in, where it returns to, and numbers
// for subjects.
const char* current_function() noexcept;
const void* current_site() noexcept;
uint64_t fresh_subject(uint64_t count = 1) noexcept;  // the first of `count`

inline std::unique_ptr<TaskInfo> describe(TaskKind kind, uint64_t subject = 0) {
    if (!observed()) return nullptr;
    auto info = std::make_unique<TaskInfo>(TaskInfo{kind, current_function(), {}});
    info->subject = subject;
    return info;
}

// Takes the lock and tells all of them; nothing where `task` is nullptr.
void tell(const TaskInfo* task, void (Observer::*event)(const TaskInfo&));

// For the boundary: a call from its begin to its end. Allocates nothing by itself.
class ObservedCall {
  public:
    ObservedCall(const char* function, const void* site) noexcept : function_(function) {
        if (observed()) begin(site);
    }
    void end(const Status& status) const noexcept {
        if (observed()) finish(status);
    }

  private:
    void begin(const void* site) noexcept;
    void finish(const Status& status) const noexcept;

    const char* function_;
    const char* outer_ = nullptr;
    const void* outer_site_ = nullptr;
};

}  // namespace gradus
