// The calls of a random program, each with what the model says to it.
#include <cstring>

#include "fuzz/report.h"
#include "fuzz/runtime_program.h"

namespace gradus::fuzz {
namespace {

constexpr int32_t kSoon = 3;  // milliseconds; of what must not come
constexpr int kOtherContext = ACL_ERROR_RT_STREAM_CONTEXT, kStreamTimeout = ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
              kEventTimeout = ACL_ERROR_RT_EVENT_SYNC_TIMEOUT;

std::string number(int i) { return std::to_string(i); }

}  // namespace

void Program::make_stream() {
    Stream made{nullptr, model_.add_stream(), context_[turn_]};
    say("s" + number(made.model) + " = stream of context " + number(made.context));
    here([&] { expect("aclrtCreateStream", aclrtCreateStream(&made.handle), 0); });
    streams_.push_back(made);
}

void Program::make_event() {
    const auto kind = in_.pick({EventKind::plain, EventKind::flagged, EventKind::extended});
    Event made{nullptr, model_.add_event(kind)};
    say("e" + number(made.model) + " = event of kind " + number(static_cast<int>(kind)));
    here([&] {
        if (kind == EventKind::plain) expect("aclrtCreateEvent", aclrtCreateEvent(&made.handle), 0);
        if (kind == EventKind::flagged)
            expect("aclrtCreateEventWithFlag", aclrtCreateEventWithFlag(&made.handle, ACL_EVENT_SYNC), 0);
        if (kind == EventKind::extended)
            expect("aclrtCreateEventExWithFlag", aclrtCreateEventExWithFlag(&made.handle, ACL_EVENT_SYNC), 0);
    });
    events_.push_back(made);
}

void Program::make_cell() {
    Cell made{nullptr, model_.add_cell()};
    say("c" + number(made.model) + " = memory");
    here([&] { expect("aclrtMalloc", aclrtMalloc(&made.memory, kBytes, ACL_MEM_MALLOC_NORMAL_ONLY), 0); });
    cells_.push_back(made);
}

// Both ways run it in the order of the stream: of a blocking callback the stream waits for the other thread.
void Program::host_function(const Stream& stream, bool by_report) {
    if (by_report && !stream.subscribed) {
        say("callback on s" + number(stream.model) + " without a subscription");
        here([&] {
            expect("aclrtLaunchCallback", aclrtLaunchCallback(note, this, ACL_CALLBACK_BLOCK, stream.handle), kAny);
        });
        return;
    }
    Note* const made = new_note();
    made->task = by_report ? model_.callback(stream.model) : model_.task(stream.model);
    say((by_report ? "callback " : "function ") + number(made->task) + " on s" + number(stream.model));
    here([&] {
        if (by_report)
            expect("aclrtLaunchCallback", aclrtLaunchCallback(note, made, ACL_CALLBACK_BLOCK, stream.handle), 0);
        else
            expect("aclrtLaunchHostFunc", aclrtLaunchHostFunc(stream.handle, note, made), 0);
    });
    notes_.push_back(made);
}

void Program::fill(const Stream& stream) {
    const Cell& cell = in_.pick(cells_);
    const auto value = static_cast<uint8_t>(in_.between(1, 255));
    say("fill c" + number(cell.model) + " with " + number(value) + " on s" + number(stream.model));
    if (!foreign(stream)) model_.fill(stream.model, cell.model, value);
    here([&] {
        expect("aclrtMemsetAsync", aclrtMemsetAsync(cell.memory, kBytes, value, kBytes, stream.handle),
               foreign(stream) ? kOtherContext : 0);
    });
}

void Program::copy(const Stream& stream) {
    const Cell &from = in_.pick(cells_), &to = in_.pick(cells_);
    if (from.memory == to.memory) return;
    say("copy c" + number(from.model) + " to c" + number(to.model) + " on s" + number(stream.model));
    if (!foreign(stream)) model_.copy(stream.model, from.model, to.model);
    here([&] {
        expect("aclrtMemcpyAsync",
               aclrtMemcpyAsync(to.memory, kBytes, from.memory, kBytes, ACL_MEMCPY_DEVICE_TO_DEVICE, stream.handle),
               foreign(stream) ? kOtherContext : 0);
    });
}

void Program::record(const Stream& stream, const Event& event) {
    say("record e" + number(event.model) + " on s" + number(stream.model));
    if (!foreign(stream)) model_.record(stream.model, event.model);
    here([&] {
        expect("aclrtRecordEvent", aclrtRecordEvent(event.handle, stream.handle), foreign(stream) ? kOtherContext : 0);
    });
}

void Program::wait(const Stream& stream, const Event& event) {
    say("s" + number(stream.model) + " waits for e" + number(event.model));
    const bool refused = model_.refuses_wait(event.model);
    if (!foreign(stream) && !refused) model_.wait(stream.model, event.model);
    here([&] {
        expect("aclrtStreamWaitEvent", aclrtStreamWaitEvent(stream.handle, event.handle),
               foreign(stream) ? kOtherContext
               : refused       ? kAny
                               : 0);
    });
}

void Program::synchronize_stream(const Stream& stream) {
    const bool blocked = model_.blocked(stream.model);
    say("synchronize s" + number(stream.model));
    here([&] {
        if (blocked)
            expect("aclrtSynchronizeStreamWithTimeout", aclrtSynchronizeStreamWithTimeout(stream.handle, kSoon),
                   kStreamTimeout);
        else
            expect("aclrtSynchronizeStream", aclrtSynchronizeStream(stream.handle), 0);
    });
    if (!blocked) model_.host_waits_for_stream(stream.model);
}

// All streams of the current context.
void Program::synchronize_device() {
    bool blocked = false;
    for (const Stream& stream : streams_)
        blocked = blocked || (stream.context == context_[turn_] && model_.blocked(stream.model));
    say("synchronize the device");
    here([&] {
        if (blocked)
            expect("aclrtSynchronizeDeviceWithTimeout", aclrtSynchronizeDeviceWithTimeout(kSoon), kStreamTimeout);
        else
            expect("aclrtSynchronizeDevice", aclrtSynchronizeDevice(), 0);
    });
    for (const Stream& stream : streams_)
        if (!blocked && stream.context == context_[turn_]) model_.host_waits_for_stream(stream.model);
}

void Program::synchronize_event(const Event& event) {
    if (!model_.recorded(event.model)) return;
    const bool comes = model_.record_comes(event.model);
    say("synchronize e" + number(event.model));
    here([&] {
        if (comes)
            expect("aclrtSynchronizeEvent", aclrtSynchronizeEvent(event.handle), 0);
        else
            expect("aclrtSynchronizeEventWithTimeout", aclrtSynchronizeEventWithTimeout(event.handle, kSoon),
                   kEventTimeout);
    });
    if (comes) model_.host_waits_for_record(event.model);
}

void Program::read_cell(const Cell& cell) {
    say("read c" + number(cell.model));
    uint8_t bytes[kBytes] = {};
    here([&] { expect("aclrtMemcpy", aclrtMemcpy(bytes, kBytes, cell.memory, kBytes, ACL_MEMCPY_DEVICE_TO_HOST), 0); });
    if (copies_wait_) model_.host_waits_for_all();
    const std::optional<uint8_t> expected = model_.host_reads(cell.model);
    count(expected ? "cells read that are known" : "cells read after a race");
    if (planted("memory")) bytes[0] ^= 1;
    for (const uint8_t byte : bytes)
        if (expected && byte != *expected)
            fail("memory", "c" + number(cell.model) + " holds " + number(byte) + ", expected " + number(*expected));
}

void Program::write_cell(const Cell& cell) {
    const auto value = static_cast<uint8_t>(in_.between(1, 255));
    say("write " + number(value) + " to c" + number(cell.model));
    uint8_t bytes[kBytes];
    std::memset(bytes, value, sizeof bytes);
    here([&] { expect("aclrtMemcpy", aclrtMemcpy(cell.memory, kBytes, bytes, kBytes, ACL_MEMCPY_HOST_TO_DEVICE), 0); });
    if (copies_wait_) model_.host_waits_for_all();
    model_.host_fills(cell.model, value);
}

// Freed while work may still use it; the new one has nothing to do with that work.
void Program::replace_cell(Cell& cell) {
    say("free c" + number(cell.model));
    here([&] {
        expect("aclrtFree", aclrtFree(cell.memory), 0);
        expect("aclrtFree again", aclrtFree(cell.memory), kAny);
    });
    std::swap(cell, cells_.back());
    cells_.pop_back();
    make_cell();
}

void Program::destroy_stream() {
    const size_t i = in_.below(streams_.size());
    if (model_.blocked(streams_[i].model) || streams_[i].subscribed || streams_.size() == 1) return;
    say("destroy s" + number(streams_[i].model));
    const bool elsewhere = streams_[i].context != context_[turn_];  // whatever the limits
    here([&] { expect("aclrtDestroyStream", aclrtDestroyStream(streams_[i].handle), elsewhere ? kOtherContext : 0); });
    if (elsewhere) return;
    model_.host_waits_for_stream(streams_[i].model);
    dead_.push_back(streams_[i].handle);
    streams_.erase(streams_.begin() + static_cast<std::ptrdiff_t>(i));
}

void Program::destroy_event() {
    const size_t i = in_.below(events_.size());
    if (model_.awaited(events_[i].model) || events_.size() == 1) return;
    say("destroy e" + number(events_[i].model));
    here([&] { expect("aclrtDestroyEvent", aclrtDestroyEvent(events_[i].handle), 0); });
    dead_.push_back(events_[i].handle);
    events_.erase(events_.begin() + static_cast<std::ptrdiff_t>(i));
}

void Program::query(const Stream& stream, const Event& event) {
    say("query s" + number(stream.model) + " and e" + number(event.model));
    aclrtStreamStatus stream_status{};
    aclrtEventRecordedStatus event_status{};
    here([&] {
        expect("aclrtStreamQuery", aclrtStreamQuery(stream.handle, &stream_status), 0);
        if (model_.recorded(event.model))
            expect("aclrtQueryEventStatus", aclrtQueryEventStatus(event.handle, &event_status), 0);
    });
    if (planted("query")) stream_status = ACL_STREAM_STATUS_NOT_READY;
    if (model_.all_known(stream.model) && stream_status != ACL_STREAM_STATUS_COMPLETE)
        fail("query", "s" + number(stream.model) + " is not complete, and was waited for");
    if (model_.blocked(stream.model) && stream_status == ACL_STREAM_STATUS_COMPLETE)
        fail("query", "s" + number(stream.model) + " is complete, and waits for an event that did not come");
    if (model_.record_known(event.model) && event_status != ACL_EVENT_RECORDED_STATUS_COMPLETE)
        fail("query", "e" + number(event.model) + " is not recorded, and was waited for");
}

void Program::switch_context() {
    context_[turn_] = 1 - context_[turn_];
    say("thread " + number(static_cast<int>(turn_)) + " takes context " + number(context_[turn_]));
    here([&] { expect("aclrtSetCurrentContext", aclrtSetCurrentContext(contexts_[context_[turn_]]), 0); });
}

// A handle that is dead, of another kind, or none: refused by every call, and nothing happens.
void Program::mistaken_call() {
    void* handle = nullptr;
    switch (in_.below(4)) {
        case 0:
            handle = dead_.empty() ? reinterpret_cast<void*>(this) : in_.pick(dead_);
            break;
        case 1:
            handle = in_.pick(cells_).memory;
            break;
        case 2:
            handle = reinterpret_cast<void*>(in_.word() | 1);  // NOLINT(performance-no-int-to-ptr): odd: no handle is
            break;
        default:
            handle = contexts_[1];
    }
    const aclrtStream stream = in_.pick(streams_).handle;
    const aclrtEvent event = in_.pick(events_).handle;
    void* const memory = in_.pick(cells_).memory;
    const uint64_t which = in_.below(14);
    say("mistaken call " + std::to_string(which));
    int32_t number = 0;
    float real = 0;
    const auto ask = [&]() -> int {
        switch (which) {
            case 0:
                return aclrtSynchronizeStream(handle);
            case 1:
                return aclrtDestroyStream(handle);
            case 2:
                return aclrtRecordEvent(handle, stream);
            case 3:
                return aclrtRecordEvent(event, handle);
            case 4:
                return aclrtStreamWaitEvent(handle, event);
            case 5:
                return aclrtStreamWaitEvent(stream, handle);
            case 6:
                return aclrtDestroyEvent(handle);
            case 7:
                return aclrtMemsetAsync(memory, kBytes, 1, kBytes, handle);
            case 8:
                return aclrtMemsetAsync(memory, kBytes, 1, kBytes << 20, stream);
            case 9:
                return aclrtLaunchHostFunc(handle, note, this);
            case 10:
                return aclrtFree(static_cast<std::byte*>(memory) + 1);
            case 11:
                return aclrtSynchronizeEvent(stream);
            case 12:
                return aclrtEventElapsedTime(&real, event, handle);
            default:
                return aclrtSetDevice(static_cast<int32_t>(in_.below(1 << 16)) + 8 + number);
        }
    };
    here([&] { expect("a mistaken call", ask(), kAny); });
}

}  // namespace gradus::fuzz
