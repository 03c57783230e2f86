#include "trace/snapshot.h"

#include <algorithm>

namespace gradus::trace {

// How much room the numbers of streams and records take.
Snapshot::Numbers Snapshot::numbers(const Store& store) noexcept {
    Numbers n;
    TaskRecord record;
    for (uint64_t ticket = store.tasks.first(); ticket <= store.tasks.last(); ++ticket) {
        if (!store.tasks.get(ticket, record)) continue;
        n.streams = std::max<uint64_t>(n.streams, record.stream);
        if (record.subject == 0) continue;
        n.first_subject = std::min(n.first_subject, record.subject);
        n.subjects = std::max(n.subjects, record.subject);
    }
    n.subjects = n.subjects == 0 ? 0 : n.subjects - n.first_subject + 1;
    return n;
}

Snapshot::Snapshot(const Store& store) noexcept : Snapshot(store, numbers(store)) {}

Snapshot::Snapshot(const Store& store, const Numbers& numbers) noexcept
    : first_subject_(numbers.first_subject),
      tasks_(store.tasks.last() - store.tasks.first() + 1),
      streams_(numbers.streams + 1),
      ticket_of_(numbers.subjects) {
    const uint64_t first = store.tasks.first();
    for (uint64_t ticket = first; ticket - first < tasks_.size(); ++ticket) {
        Task& task = tasks_[count_];
        if (!store.tasks.get(ticket, task) || task.stream >= streams_.size()) continue;
        task.ticket = ticket;
        ++count_;
        const uint64_t subject = task.subject - first_subject_;
        if (task.kind == TaskKind::record && subject < ticket_of_.size()) ticket_of_[subject] = ticket;
    }
    for (Task& task : tasks_.items().first(count_)) place(task);
}

// A wait is handed to nobody until it is over, but its stream stands from the end of the task before it.
void Snapshot::place(Task& task) noexcept {
    StreamRow& row = streams_[task.stream];
    const int64_t free = row.seen ? row.end : task.asked;
    row.seen = true;
    row.device = task.device;
    if (!task.ran()) return;
    if (task.state == TaskState::running) task.end = now();
    if (task.waits()) task.begin = std::max(free, task.asked);
    if (task.kind == TaskKind::wait) task.awaits = ticket_of(task.subject);
    task.idle = std::max<int64_t>(task.begin - free, 0);
    row.end = task.end;
}

uint64_t Snapshot::ticket_of(uint64_t record) const noexcept {
    const uint64_t at = record - first_subject_;
    return at < ticket_of_.size() ? ticket_of_[at] : 0;
}

const Task* Snapshot::find(uint64_t ticket) const noexcept {
    const auto all = tasks();
    const auto it = std::lower_bound(all.begin(), all.end(), ticket,
                                     [](const Task& task, uint64_t wanted) { return task.ticket < wanted; });
    return it != all.end() && it->ticket == ticket ? &*it : nullptr;
}

}  // namespace gradus::trace
