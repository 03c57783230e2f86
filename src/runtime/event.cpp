#include "runtime/event.h"

#include <chrono>

#include "runtime/context.h"
#include "runtime/stream.h"

namespace gradus {
namespace {

Status not_alive() {
    return {ACL_ERROR_RT_INVALID_HANDLE, "event: not a live event (destroyed before, or not an event)"};
}
Status never_recorded(int code) { return {code, "event: was never recorded"}; }

Result<std::shared_ptr<Event>> find_event(aclrtEvent handle) {
    auto event = Events::instance().find(handle);
    if (!event) return not_alive();
    return event;
}

// With the lock.
void reach(Record& record) noexcept {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    record.reached_at = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
    record.reached = true;
    announce();
}

// With the lock.
uint64_t id_of(Record& record) {
    if (record.id == 0 && observed()) record.id = fresh_subject();
    return record.id;
}
void tell_done(const Record& record) {
    observe([&record](Observer& o) { o.on_record_done(record.id); });
}

class RecordTask final : public Task {
  public:
    RecordTask() { small = true; }
    std::shared_ptr<Record>& record() { return record_; }
    int run() noexcept override { return 0; }
    void ended() noexcept override { reach(*record_); }
    void abandon() noexcept override {  // or who waits for it would wait for ever
        const Lock lock = hold();
        reach(*record_);
    }

  private:
    std::shared_ptr<Record> record_ = std::make_shared<Record>();
};

// Forgets the record if the event has one by then; one that is reached later counts.
class ResetTask final : public Task {
  public:
    explicit ResetTask(std::shared_ptr<Event> event) : event_(std::move(event)) { small = true; }
    int run() noexcept override { return 0; }
    void ended() noexcept override {
        if (event_->newest && event_->newest->reached) event_->newest.reset();
    }

  private:
    std::shared_ptr<Event> event_;
};

// Holds its stream by not being ready; there is nothing to do when it is.
class WaitTask final : public Task {
  public:
    explicit WaitTask(std::shared_ptr<Event> event) : event_(std::move(event)) {}
    // With the lock.
    void hold_for(const std::shared_ptr<Record>& record) noexcept {
        record_ = record;
        record->awaited = true;
        ++event_->waits;
    }
    int run() noexcept override { return 0; }
    void ended() noexcept override { --event_->waits; }
    void abandon() noexcept override {
        const Lock lock = hold();
        ended();
    }
    bool ready() const noexcept override { return record_->reached; }
    const Stream* waits_for() const noexcept override { return record_->stream; }

  private:
    std::shared_ptr<Event> event_;
    std::shared_ptr<Record> record_;
};

}  // namespace

Status record_event(aclrtEvent handle, aclrtStream stream_handle) {
    auto event = find_event(handle);
    if (!event.ok()) return event.status();
    auto stream = find_stream_here(stream_handle);
    if (!stream.ok()) return stream.status();
    if ((*event)->device != (*stream)->device()) tell_elsewhere(handle, Elsewhere::other_device);
    auto task = std::make_unique<RecordTask>();
    {
        const Lock lock = hold();
        if ((*event)->awaited) task->record() = std::move((*event)->awaited);
        task->record()->stream = stream->get();
        (*event)->newest = task->record();
        task->info = describe(TaskKind::record, id_of(*task->record()));
    }
    // a stream that is being destroyed refuses it, and the record counts as reached
    return (*stream)->submit(std::move(task));
}

Status reset_event(aclrtEvent handle, aclrtStream stream_handle) {
    auto event = find_event(handle);
    if (!event.ok()) return event.status();
    auto stream = find_stream_here(stream_handle);
    if (!stream.ok()) return stream.status();
    auto task = std::make_unique<ResetTask>(std::move(*event));
    task->info = describe(TaskKind::reset);
    return (*stream)->submit(std::move(task));
}

Status wait_event(aclrtStream stream_handle, aclrtEvent handle) {
    auto event = find_event(handle);
    if (!event.ok()) return event.status();
    auto stream = find_stream_here(stream_handle);
    if (!stream.ok()) return stream.status();
    if ((*event)->device != (*stream)->device()) tell_elsewhere(handle, Elsewhere::other_device);
    auto next = std::make_shared<Record>();  // for an event that has none yet; not under the lock, because it allocates
    auto task = std::make_unique<WaitTask>(*event);
    {
        const Lock lock = hold();
        Event& e = **event;
        if (!e.newest) {
            if (e.kind == EventKind::extended) return {};
            if (e.kind == EventKind::plain) return never_recorded(ACL_ERROR_RT_PARAM_INVALID);
            if (!e.awaited) e.awaited = std::move(next);
        }
        const std::shared_ptr<Record>& record = e.newest ? e.newest : e.awaited;
        if (record->reached && !observed()) return {};  // who observes wants to know that the stream is behind it
        task->small = record->reached;
        task->hold_for(record);
        task->info = describe(TaskKind::wait, id_of(*record));
    }
    return (*stream)->submit(std::move(task));
}

Status synchronize_event(aclrtEvent handle, int32_t timeout_ms) {
    auto event = find_event(handle);
    if (!event.ok()) return event.status();
    Lock lock = hold();
    const std::shared_ptr<Record> record = (*event)->newest;
    if (!record) return (*event)->kind == EventKind::extended ? Status() : never_recorded(ACL_ERROR_RT_PARAM_INVALID);
    if (!record->reached && timeout_ms < 0 && record->stream != nullptr)
        observe([&](Observer& o) { o.on_wait(record->stream->id(), record->id); });
    if (wait_until(
            lock, timeout_ms, [&] { return record->reached; }, record->stream))
        return tell_done(*record), Status();
    if (record->stream != nullptr) observe([&](Observer& o) { o.on_expired(record->stream->id()); });
    return {ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, concat("event: not reached within ", timeout_ms, " ms")};
}

Result<bool> event_reached(aclrtEvent handle) {
    auto event = find_event(handle);
    if (!event.ok()) return event.status();
    Lock lock = hold();
    while (run_without_thread(lock)) {
    }
    if (held_back() && (*event)->newest && !(*event)->newest->reached) Stream::run_for(lock, *(*event)->newest->stream);
    const bool reached = (*event)->newest && (*event)->newest->reached;
    if (reached) tell_done(*(*event)->newest);
    return reached;
}

Result<bool> event_waits_ended(aclrtEvent handle) {
    auto event = find_event(handle);
    if (!event.ok()) return event.status();
    Lock lock = hold();
    while (run_without_thread(lock)) {
    }
    if ((*event)->waits != 0) return false;
    // where nobody has waited, this says nothing of the record
    const std::shared_ptr<Record>& newest = (*event)->newest;
    if (newest && newest->reached && newest->awaited) tell_done(*newest);
    return true;
}

Result<int64_t> event_time(aclrtEvent handle) {
    auto event = find_event(handle);
    if (!event.ok()) return event.status();
    const Lock lock = hold();
    const Record* const record = (*event)->newest.get();
    if (record == nullptr) return never_recorded(ACL_ERROR_RT_INTERNAL_ERROR);
    if (!record->reached)
        return Status(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "event: its stream has not reached the record yet");
    tell_done(*record);
    return record->reached_at;
}

Status destroy_event(aclrtEvent handle) {
    const auto event = Events::instance().take(handle);
    if (!event) return not_alive();
    // a record that is queued still arrives; one that nobody has asked for cannot be any more
    const Lock lock = hold();
    if (event->awaited) {
        reach(*event->awaited);
        tell_done(*event->awaited);
    }
    return {};
}

}  // namespace gradus
