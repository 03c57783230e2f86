#include "runtime/event.h"

#include <chrono>

#include "runtime/stream.h"

namespace gradus {
namespace {

[[maybe_unused]] const auto& prepared = Events::instance();  // at load, so that no fork meets it half made

Status never_recorded(int code) { return {code, "event: was never recorded"}; }

void complete(Event& event, uint64_t ticket) noexcept {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    const Lock lock = hold();
    if (ticket <= event.completed) return;
    event.completed = ticket;
    event.completed_at = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
    Stream::wake_all_waiters();
}

// Runs on the spot when its stream is idle; completes the ticket also when the stream drops it, or who waits for it
// would wait for ever.
class RecordTask : public Task {
  public:
    explicit RecordTask(std::shared_ptr<Event> event) : event_(std::move(event)) { small = true; }

    uint64_t issue() {
        const Lock lock = hold();
        return ticket_ = ++event_->issued;
    }
    int run(Stream&) noexcept override {
        complete(*event_, ticket_);
        return 0;
    }
    void abandon() noexcept override { complete(*event_, ticket_); }

  private:
    std::shared_ptr<Event> event_;
    uint64_t ticket_ = 0;
};

struct TicketWait {
    std::shared_ptr<Event> event;
    uint64_t ticket;

    // A destroyed event cannot be recorded any more, but a record that is queued still arrives.
    static bool over(void* argument) {
        const auto& wait = *static_cast<const TicketWait*>(argument);
        return wait.event->completed >= wait.ticket || (wait.event->destroyed && wait.ticket > wait.event->issued);
    }
};

class WaitTask : public Task {
  public:
    explicit WaitTask(TicketWait wait) : wait_(std::move(wait)) {}
    int run(Stream& stream) noexcept override {
        stream.wait_until(TicketWait::over, &wait_);
        return 0;
    }

  private:
    TicketWait wait_;
};

}  // namespace

Result<std::shared_ptr<Event>> find_event(aclrtEvent handle) {
    auto event = Events::instance().find(handle);
    if (!event)
        return Status(ACL_ERROR_RT_INVALID_HANDLE, "event: not a live event (destroyed before, or not an event)");
    return event;
}

Status record_event(aclrtEvent handle, aclrtStream stream_handle) {
    auto event = find_event(handle);
    if (!event.ok()) return event.status();
    auto stream = find_stream(stream_handle);
    if (!stream.ok()) return stream.status();
    auto task = std::make_unique<RecordTask>(*event);
    const uint64_t ticket = task->issue();
    Status status = (*stream)->submit(std::move(task));
    if (!status.ok()) complete(**event, ticket);
    return status;
}

Status reset_event(aclrtEvent handle, aclrtStream stream_handle) {
    auto event = find_event(handle);
    if (!event.ok()) return event.status();
    if (auto stream = find_stream(stream_handle); !stream.ok()) return stream.status();
    // nothing to queue: waits that were asked for before hold their tickets, later ones are later in any stream
    const Lock lock = hold();
    (*event)->forgotten = (*event)->issued;
    return {};
}

Status wait_event(aclrtStream stream_handle, aclrtEvent handle) {
    auto event = find_event(handle);
    if (!event.ok()) return event.status();
    auto stream = find_stream(stream_handle);
    if (!stream.ok()) return stream.status();
    TicketWait wait{*event, 0};
    {
        const Lock lock = hold();
        const Event& e = **event;
        if (!e.recorded()) {
            if (e.kind == EventKind::extended) return {};
            if (e.kind == EventKind::plain) return never_recorded(ACL_ERROR_RT_PARAM_INVALID);
        }
        wait.ticket = e.recorded() ? e.issued : e.issued + 1;
        if (TicketWait::over(&wait)) return {};
    }
    return (*stream)->submit(std::make_unique<WaitTask>(std::move(wait)));
}

Status synchronize_event(aclrtEvent handle, int32_t timeout_ms) {
    auto event = find_event(handle);
    if (!event.ok()) return event.status();
    TicketWait wait{*event, 0};
    {
        const Lock lock = hold();
        if (!(*event)->recorded())
            return (*event)->kind == EventKind::extended ? Status() : never_recorded(ACL_ERROR_RT_PARAM_INVALID);
        wait.ticket = (*event)->issued;
    }
    if (wait_on_host(TicketWait::over, &wait, timeout_ms)) return {};
    return {ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, concat("event: not reached within ", timeout_ms, " ms")};
}

Result<bool> event_reached(aclrtEvent handle) {
    auto event = find_event(handle);
    if (!event.ok()) return event.status();
    const Lock lock = hold();
    return (*event)->reached();
}

Result<int64_t> event_time(aclrtEvent handle) {
    auto event = find_event(handle);
    if (!event.ok()) return event.status();
    const Lock lock = hold();
    if (!(*event)->recorded()) return never_recorded(ACL_ERROR_RT_INTERNAL_ERROR);
    if (!(*event)->reached())
        return Status(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "event: its stream has not reached the record yet");
    return (*event)->completed_at;
}

Status destroy_event(aclrtEvent handle) {
    const auto event = Events::instance().take(handle);
    if (!event) return {ACL_ERROR_RT_INVALID_HANDLE, "event: not a live event (destroyed before, or not an event)"};
    const Lock lock = hold();
    event->destroyed = true;
    Stream::wake_all_waiters();
    return {};
}

}  // namespace gradus
