// Events. Every call of aclrtRecordEvent makes a record of its own; who waits holds the record that was the newest when
// it was asked to wait, whatever is recorded on the event later.
#pragma once

#include <cstdint>
#include <memory>

#include "acl/acl_rt.h"
#include "base/registry.h"
#include "base/status.h"

namespace gradus {

class Stream;

// They differ in what a wait does before the first record: refuse, block until it arrives, or nothing.
enum class EventKind { plain, flagged, extended };

// Behind the process lock.
struct Record {
    const Stream* stream = nullptr;  // in whose queue it is; nullptr: nobody has asked for it yet
    uint64_t id = 0;                 // where somebody observes
    bool reached = false;
    bool awaited = false;    // by a stream, ever
    int64_t reached_at = 0;  // ns of the steady clock
};

// Everything but the kind and the device is behind the process lock.
struct Event {
    Event(EventKind event_kind, int event_device) : kind(event_kind), device(event_device) {}

    const EventKind kind;
    const int device;
    std::shared_ptr<Record> newest;   // nullptr: never recorded, or reset since
    std::shared_ptr<Record> awaited;  // the next one, where a stream waits for it already
    uint64_t waits = 0;               // of streams, that have not ended
};

using Events = Registry<Event, HandleKind::event>;

Status record_event(aclrtEvent event, aclrtStream stream);
Status reset_event(aclrtEvent event, aclrtStream stream);
Status wait_event(aclrtStream stream, aclrtEvent event);
Status synchronize_event(aclrtEvent event, int32_t timeout_ms);
Result<bool> event_reached(aclrtEvent event);
Result<bool> event_waits_ended(aclrtEvent event);
Result<int64_t> event_time(aclrtEvent event);  // ns; 507000 not recorded, 107006 not reached yet
Status destroy_event(aclrtEvent event);

}  // namespace gradus
