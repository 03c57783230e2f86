// What is remembered of a call and of a piece of queued work. Times are ns of the steady clock, which all processes of
// a machine share. Texts are literals of the library, so that a pointer is enough.
#pragma once

#include <time.h>

#include <cstdint>

#include "base/observer.h"

namespace gradus::trace {

enum class CallKind : uint8_t {
    plain,
    prepare,      // phase one
    sync_stream,  // value: the ticket of the last task that it has waited for
    sync_record,  // value: the record, in the observer's numbers
    memory,       // value: bytes of the device that are allocated afterwards
    copy,         // of the calling thread; value: bytes
    work,         // an operator that the calling thread has run itself, inside another call; value: bytes
};

struct CallRecord {
    int64_t begin, end;
    const char* function;
    const void* site;  // where the program called it
    uint64_t value;
    uint32_t thread;
    int32_t code;
    uint32_t detail;
    uint16_t device;
    CallKind kind;
    uint8_t unused;
};
static_assert(sizeof(CallRecord) == 56);

enum class TaskState : uint8_t { queued, running, done, dropped };

// Two tasks of different streams that ran at the same time and share bytes that one of them writes.
struct Clash {
    uint64_t ticket;  // of the one that was running; 0: there is none
    const char *argument, *other;
    bool writes, other_writes;
    uint8_t unused[6];
};

struct TaskRecord {
    int64_t asked, begin, end;
    const char* name;
    const void* site;
    int64_t bytes;
    uint64_t subject;  // of a record or a wait: which record
    Clash clash;
    uint32_t thread;  // that asked
    uint32_t detail;  // what an operator was called with; 0: nothing more is known
    uint32_t stream;
    int32_t code;
    TaskKind kind;
    uint16_t device;
    TaskState state;
    uint8_t unused;
};
static_assert(sizeof(TaskRecord) == 112);

// The sanitizer's word about one or two tasks, as a mark on the timeline.
struct FindingRecord {
    int64_t at;
    const char* id;
    uint64_t tasks[2];
    uint32_t thread;
    bool error;
    char text[987];
};
static_assert(sizeof(FindingRecord) == 1024);

inline int64_t now() noexcept {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace gradus::trace
