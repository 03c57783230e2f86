// aclrt: streams, events, callbacks.
#include "acl/acl_rt.h"
#include "runtime/api.h"
#include "runtime/context.h"
#include "runtime/event.h"
#include "runtime/report.h"

using namespace gradus;

namespace {

Status synchronize(aclrtStream handle, int32_t timeout_ms) {
    GRADUS_TRY(check_timeout(timeout_ms));
    auto stream = find_stream(handle);
    if (!stream.ok()) return stream.status();
    Text why;
    const int code = (*stream)->synchronize(timeout_ms, &why);
    if (code == 0) return {};
    if (code == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT)
        return {code, concat("stream: its work did not end within ", timeout_ms, " ms")};
    if (code == ACL_ERROR_RT_PARAM_INVALID && (*stream)->running_here())
        return {code, "stream: called from a callback of a stream that it would wait for"};
    if (!why.empty()) return {code, why};
    return {code, code == ACL_ERROR_RT_AICPU_EXCEPTION ? "stream: a host function threw an exception"
                                                       : "stream: work that was queued failed"};
}

Status create_event(aclrtEvent* event, EventKind kind) {
    GRADUS_TRY(not_null(kAcl, "event", event));
    const auto context = current_context();
    if (!context.ok()) return context.status();
    *event = Events::instance().add(std::make_shared<Event>(kind, context->context->device()));
    return {};
}

Status create_event_with_flag(aclrtEvent* event, EventKind kind, uint32_t flag) {
    constexpr uint32_t kKnown = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE |
                                ACL_EVENT_DEVICE_USE_ONLY | ACL_EVENT_EXTERNAL;
    if ((flag & ~kKnown) != 0)
        return {ACL_ERROR_RT_PARAM_INVALID, concat("flag: ", flag, ", expected a sum of the ACL_EVENT_ flags")};
    return create_event(event, kind);
}

}  // namespace

extern "C" {

aclError aclrtCreateStream(aclrtStream* stream) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "stream", stream));
        return store(create_stream(), stream);
    });
}

// Priorities and flags tune the device's scheduler; all streams are equal here.
aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t, uint32_t) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "stream", stream));
        return store(create_stream(), stream);
    });
}

aclError aclrtDestroyStream(aclrtStream stream) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "stream", stream));
        return destroy_stream(stream, false);
    });
}

aclError aclrtDestroyStreamForce(aclrtStream stream) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "stream", stream));
        return destroy_stream(stream, true);
    });
}

aclError aclrtSynchronizeStream(aclrtStream stream) {
    return guarded(__func__, kAcl, [&] { return synchronize(stream, -1); });
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
    return guarded(__func__, kAcl, [&] { return synchronize(stream, timeout); });
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "status", status));
        auto found = find_stream(stream);
        if (!found.ok()) return found.status();
        *status = (*found)->idle() ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
        if (const int code = (*found)->error(); code != 0) return {code, "stream: work that was queued failed"};
        return {};
    });
}

aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode) {
    return guarded(__func__, kAcl, [&]() -> Status {
        if (mode > ACL_STOP_ON_FAILURE)
            return {ACL_ERROR_RT_PARAM_INVALID, concat("mode: ", mode, ", expected 0 (continue) or 1 (stop)")};
        auto found = find_stream(stream);
        if (!found.ok()) return found.status();
        (*found)->set_stop_on_failure(mode == ACL_STOP_ON_FAILURE);
        return {};
    });
}

aclError aclrtCreateEvent(aclrtEvent* event) {
    return guarded(__func__, kAcl, [&] { return create_event(event, EventKind::plain); });
}

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag) {
    return guarded(__func__, kAcl, [&] {
        return create_event_with_flag(event, (flag & ACL_EVENT_SYNC) != 0 ? EventKind::flagged : EventKind::plain,
                                      flag);
    });
}

aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag) {
    return guarded(__func__, kAcl, [&] { return create_event_with_flag(event, EventKind::extended, flag); });
}

aclError aclrtDestroyEvent(aclrtEvent event) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "event", event));
        return destroy_event(event);
    });
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "event", event));
        return record_event(event, stream);
    });
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "event", event));
        return reset_event(event, stream);
    });
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "event", event));
        return wait_event(stream, event);
    });
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "event", event));
        return synchronize_event(event, -1);
    });
}

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "event", event));
        GRADUS_TRY(check_timeout(timeout));
        return synchronize_event(event, timeout);
    });
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "event", event));
        GRADUS_TRY(not_null(kAcl, "status", status));
        return store(event_reached(event), status);  // 1 is complete
    });
}

aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus* status) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "event", event));
        GRADUS_TRY(not_null(kAcl, "status", status));
        auto reached = event_reached(event);
        if (!reached.ok()) return reached.status();
        *status = *reached ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
        return {};
    });
}

aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus* status) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "event", event));
        GRADUS_TRY(not_null(kAcl, "status", status));
        auto ended = event_waits_ended(event);
        if (!ended.ok()) return ended.status();
        *status = *ended ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
        return {};
    });
}

// Work of streams runs here until it is done, however long its waits take.
aclError aclrtSetOpWaitTimeout(uint32_t) {
    return guarded(__func__, kAcl, [] { return Status(); });
}

aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "ms", ms));
        GRADUS_TRY(not_null(kAcl, "startEvent", startEvent));
        GRADUS_TRY(not_null(kAcl, "endEvent", endEvent));
        auto start = event_time(startEvent);
        if (!start.ok()) return start.status();
        auto end = event_time(endEvent);
        if (!end.ok()) return end.status();
        *ms = static_cast<float>(static_cast<double>(*end - *start) * 1e-6);
        return {};
    });
}

aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t* timestamp) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "event", event));
        GRADUS_TRY(not_null(kAcl, "timestamp", timestamp));
        auto time = event_time(event);
        if (!time.ok()) return time.status();
        *timestamp = static_cast<uint64_t>(*time) / 1000;
        return {};
    });
}

aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void* args) {
    return guarded(__func__, kAcl, [&] { return launch_host_function(stream, fn, args); });
}

aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream) {
    return guarded(__func__, kAcl, [&] { return subscribe_report(threadId, stream); });
}

aclError aclrtLaunchCallback(aclrtCallback fn, void* userData, aclrtCallbackBlockType blockType, aclrtStream stream) {
    return guarded(__func__, kAcl, [&]() -> Status {
        if (blockType != ACL_CALLBACK_NO_BLOCK && blockType != ACL_CALLBACK_BLOCK)
            return {ACL_ERROR_INVALID_PARAM, concat("blockType: ", static_cast<int>(blockType), ", expected 0 or 1")};
        return launch_callback(stream, fn, userData, blockType == ACL_CALLBACK_BLOCK);
    });
}

aclError aclrtProcessReport(int32_t timeout) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(check_timeout(timeout));
        return process_report(timeout);
    });
}

aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream) {
    return guarded(__func__, kAcl, [&] { return unsubscribe_report(threadId, stream); });
}

}  // extern "C"
