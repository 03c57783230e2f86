// The tasks as they are drawn: in the order they were asked for, with the time that a wait took.
#pragma once

#include "trace/pages.h"
#include "trace/store.h"

namespace gradus::trace {

struct Task : TaskRecord {
    uint64_t ticket;
    int64_t idle;     // ns between the end of the one before it on its stream and its begin
    uint64_t awaits;  // a wait: the ticket of the record; 0: not known any more

    bool ran() const { return state == TaskState::running || state == TaskState::done; }
    bool copies() const { return kind == TaskKind::copy || kind == TaskKind::fill; }
    bool computes() const { return kind == TaskKind::launch; }
    bool communicates() const { return kind == TaskKind::collective; }
    bool waits() const { return kind == TaskKind::wait || kind == TaskKind::callback_wait; }
    // GB/s; 0: it moves nothing, or was too short to tell.
    double rate() const {
        return end > begin && bytes > 0 ? static_cast<double>(bytes) / static_cast<double>(end - begin) : 0;
    }
};

struct StreamRow {
    bool seen;
    uint16_t device;
    int64_t end;      // of its last task so far
    uint64_t synced;  // the last ticket that an arrow to a synchronising call begins at
};

class Snapshot {
  public:
    explicit Snapshot(const Store& store) noexcept;

    std::span<const Task> tasks() const noexcept { return tasks_.items().first(count_); }
    std::span<StreamRow> streams() const noexcept { return streams_.items(); }  // by number
    const Task* find(uint64_t ticket) const noexcept;
    uint64_t ticket_of(uint64_t record) const noexcept;  // of its task; 0: not known any more

  private:
    struct Numbers {
        uint64_t streams = 0, first_subject = ~uint64_t{0}, subjects = 0;
    };
    static Numbers numbers(const Store& store) noexcept;
    explicit Snapshot(const Store& store, const Numbers& numbers) noexcept;
    void place(Task& task) noexcept;

    size_t count_ = 0;
    uint64_t first_subject_;
    Pages<Task> tasks_;
    Pages<StreamRow> streams_;
    Pages<uint64_t> ticket_of_;  // by record
};

}  // namespace gradus::trace
