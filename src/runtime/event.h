// Events. Every record of an event takes a ticket when it is called; who waits, waits for the ticket that was newest
// when it was asked to, whatever is recorded later.
#pragma once

#include <cstdint>
#include <memory>

#include "acl/acl_rt.h"
#include "base/registry.h"
#include "base/status.h"

namespace gradus {

// They differ in what a wait does before the first record: refuse, block until it arrives, or nothing.
enum class EventKind { plain, flagged, extended };

// Everything but the kind is behind the process lock.
struct Event {
    explicit Event(EventKind event_kind) : kind(event_kind) {}

    const EventKind kind;
    uint64_t issued = 0, completed = 0;  // tickets
    uint64_t forgotten = 0;              // aclrtResetEvent: tickets up to here do not count as recorded
    int64_t completed_at = 0;            // ns of the steady clock
    bool destroyed = false;

    bool recorded() const { return issued > forgotten; }
    bool reached() const { return recorded() && completed >= issued; }
};

using Events = Registry<Event, HandleKind::event>;

Result<std::shared_ptr<Event>> find_event(aclrtEvent handle);  // 107017

Status record_event(aclrtEvent event, aclrtStream stream);
Status reset_event(aclrtEvent event, aclrtStream stream);
Status wait_event(aclrtStream stream, aclrtEvent event);
Status synchronize_event(aclrtEvent event, int32_t timeout_ms);
Result<bool> event_reached(aclrtEvent event);
Result<int64_t> event_time(aclrtEvent event);  // ns; 507000 not recorded, 107006 not reached yet
Status destroy_event(aclrtEvent event);

}  // namespace gradus
