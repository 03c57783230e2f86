#include "runtime/context.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "base/config.h"
#include "base/nonblocking.h"
#include "runtime/report.h"

namespace gradus {
namespace {

struct Device {
    uint64_t count = 0;
    aclrtContext context = nullptr;  // the default one, while the device is set
};

constinit std::array<Device, kMostDevices> devices{};  // behind the process lock

constinit thread_local aclrtContext current = nullptr;

// Waiting for a stream inside one of its own tasks would never end.
Status inside(const char* what) {
    return {ACL_ERROR_RT_PARAM_INVALID, concat(what, ": called from a callback of a stream that it would wait for")};
}

Status context_gone() {
    return {ACL_ERROR_RT_CONTEXT_NULL, "the current context of the calling thread has been destroyed"};
}

// Registers a stream. Its context may be going while this happens; who takes the context out of its registry closes the
// streams it finds then, and a stream that comes later is taken back here.
Result<aclrtStream> add_stream(std::shared_ptr<Stream> stream) {
    const aclrtContext context = stream->context();
    const aclrtStream handle = Streams::instance().add(std::move(stream));
    if (Contexts::instance().find(context)) return handle;
    if (const auto late = Streams::instance().take(handle)) late->close(true);
    return context_gone();
}

// The context is out of its registry already.
void close_streams(aclrtContext context, bool force) {
    const auto belongs = [context](const Stream& stream) { return stream.context() == context; };
    while (const auto stream = Streams::instance().take_if(belongs)) {
        stream->close(force);
        forget_subscription(*stream);
    }
}

}  // namespace

Result<std::shared_ptr<Stream>> Context::default_stream(void* own_handle) {
    {
        const Lock lock = hold();
        if (stream_) return stream_;
    }
    const MayBlock once;  // it is made when it is first wanted
    auto stream = std::make_shared<Stream>(device_, own_handle);
    // under a handle that nobody knows, so that it closes with the others
    auto handle = add_stream(stream);
    if (!handle.ok()) return handle.status();
    {
        const Lock lock = hold();
        if (!stream_) return stream_ = stream;
    }
    Streams::instance().take(*handle);  // another thread was quicker
    const Lock lock = hold();
    return stream_;
}

Result<CurrentContext> current_context() {
    if (current == nullptr)
        return Status(ACL_ERROR_RT_CONTEXT_NULL,
                      "the calling thread has no current context; aclrtSetDevice gives it one");
    auto context = Contexts::instance().find(current);
    if (!context) return context_gone();
    return CurrentContext{current, std::move(context)};
}

Result<std::shared_ptr<Stream>> find_stream(aclrtStream handle) {
    if (handle == nullptr) {
        auto context = current_context();
        if (!context.ok()) return context.status();
        return context->context->default_stream(context->handle);
    }
    auto stream = Streams::instance().find(handle);
    if (!stream)
        return Status(ACL_ERROR_RT_INVALID_HANDLE, "stream: not a live stream (destroyed before, or not a stream)");
    return stream;
}

void tell_elsewhere(const void* handle, Elsewhere how) {
    if (!observed() || !config_or_default().limits) return;
    const Lock lock = hold();
    observe([&](Observer& o) { o.on_other_context(handle, how); });
}

Result<std::shared_ptr<Stream>> find_stream_here(aclrtStream handle) {
    auto stream = find_stream(handle);
    if (!stream.ok() || (*stream)->context() == current || !config_or_default().limits) return stream;
    tell_elsewhere(handle, current != nullptr ? Elsewhere::refused : Elsewhere::without_context);
    if (current == nullptr) return stream;
    return Status(ACL_ERROR_RT_STREAM_CONTEXT,
                  "stream: belongs to another context than the current one of this thread (a limit of the device: "
                  "GRADUS_LIMITS=off lifts it)");
}

Status check_device(const char* argument, int64_t device) {
    const int count = config_devices();
    if (device >= 0 && device < count) return {};
    return {ACL_ERROR_RT_INVALID_DEVICEID, concat(argument, ": ", device, ", expected 0 to ", count - 1)};
}

Status set_device(int32_t device) {
    GRADUS_TRY(check_device("deviceId", device));
    Device& d = devices[static_cast<size_t>(device)];
    {
        const Lock lock = hold();
        if (d.context != nullptr) return ++d.count, current = d.context, Status();
    }
    aclrtContext made = Contexts::instance().add(std::make_shared<Context>(device, true));
    {
        const Lock lock = hold();
        ++d.count;
        if (d.context == nullptr) std::swap(d.context, made);
        current = d.context;
    }
    if (made != nullptr) Contexts::instance().take(made);  // another thread was quicker
    return {};
}

Status reset_device(int32_t device, bool force) {
    GRADUS_TRY(check_device("deviceId", device));
    Device& d = devices[static_cast<size_t>(device)];
    aclrtContext last = nullptr;
    {
        const Lock lock = hold();
        if (d.count == 0)
            return {ACL_ERROR_RT_CONTEXT_RELEASE_ERROR,
                    concat("deviceId: device ", device, " is not set on this process")};
        if (d.count > 1 && !force) return --d.count, Status();
        if (Stream::running_here(d.context)) return inside("deviceId");
        last = std::exchange(d, {}).context;
    }
    Contexts::instance().take(last);
    if (force) wait_for_device(device);  // for all but what may never end
    close_streams(last, force);
    return {};
}

Result<aclrtContext> create_context(int32_t device) {
    GRADUS_TRY(check_device("deviceId", device));
    current = Contexts::instance().add(std::make_shared<Context>(device, false));
    return current;
}

Status destroy_context(aclrtContext handle) {
    const auto context = Contexts::instance().find(handle);
    if (!context)
        return {ACL_ERROR_RT_CONTEXT_NULL, "context: not a live context (destroyed before, or not a context)"};
    if (context->is_default())
        return {
            ACL_ERROR_RT_PARAM_INVALID,
            "context: the default context of a device, expected one of aclrtCreateContext; aclrtResetDevice ends it"};
    if (Stream::running_here(handle)) return inside("context");
    if (!Contexts::instance().take(handle)) return {ACL_ERROR_RT_CONTEXT_NULL, "context: destroyed by another thread"};
    close_streams(handle, false);
    return {};
}

Status set_current_context(aclrtContext handle) {
    if (!Contexts::instance().find(handle))
        return {ACL_ERROR_RT_PARAM_INVALID, "context: not a live context (destroyed before, or not a context)"};
    current = handle;
    return {};
}

Result<aclrtStream> create_stream() {
    auto context = current_context();
    if (!context.ok()) return context.status();
    return add_stream(std::make_shared<Stream>(context->context->device(), context->handle));
}

Status destroy_stream(aclrtStream handle, bool force) {
    auto stream = find_stream(handle);
    if (!stream.ok()) return stream.status();
    auto context = current_context();
    if (!context.ok()) return context.status();
    if ((*stream)->context() != context->handle)
        return {ACL_ERROR_RT_STREAM_CONTEXT, "stream: belongs to another context than the current one of this thread"};
    if ((*stream)->running_here()) return inside("stream");
    if (!Streams::instance().take(handle)) return {ACL_ERROR_RT_INVALID_HANDLE, "stream: destroyed by another thread"};
    (*stream)->close(force);
    forget_subscription(**stream);
    return {};
}

Status synchronize_context(int32_t timeout_ms) {
    using Clock = std::chrono::steady_clock;
    auto context = current_context();
    if (!context.ok()) return context.status();
    const auto end = Clock::now() + std::chrono::milliseconds(std::max(timeout_ms, 0));
    int error = 0;
    Text why;
    for (const auto& [handle, stream] : Streams::instance().entries()) {
        if (stream->context() != context->handle || stream->running_here()) continue;
        int32_t left = timeout_ms;
        if (timeout_ms >= 0) {
            const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
            left = static_cast<int32_t>(std::max<decltype(rest)>(rest, 0));
        }
        Text its_words;
        const int code = stream->synchronize(left, &its_words);
        if (code == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT)
            return {code, concat("the device's work did not end within ", timeout_ms, " ms")};
        if (error == 0 && code != 0) error = code, why = its_words;
    }
    if (error != 0 && !why.empty()) return {error, why};
    if (error != 0) return {error, "work that was queued on a stream of the context failed"};
    return {};
}

}  // namespace gradus
