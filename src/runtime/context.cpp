#include "runtime/context.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/config.h"
#include "runtime/report.h"

namespace gradus {
namespace {

struct Device {
    uint64_t count = 0;
    aclrtContext context = nullptr;  // the default one, while the device is set
};

std::vector<Device>& devices() {
    static auto& the_devices = *new std::vector<Device>(static_cast<size_t>(config_devices()));
    return the_devices;
}

thread_local aclrtContext current = nullptr;

Status check_device(int32_t device) {
    if (device >= 0 && device < config_devices()) return {};
    return {ACL_ERROR_RT_INVALID_DEVICEID, concat("deviceId: ", device, ", expected 0 to ", config_devices() - 1)};
}

std::vector<aclrtStream> streams_of(aclrtContext context) {
    std::vector<aclrtStream> handles;
    for (const auto& [handle, stream] : Streams::instance().entries())
        if (stream->context() == context) handles.push_back(handle);
    return handles;
}

// Waiting for a stream inside one of its own tasks would never end.
Status inside(const char* what) {
    return {ACL_ERROR_RT_PARAM_INVALID, concat(what, ": called from a callback of a stream that it would wait for")};
}

// The context is out of its registry already, so that no thread finds it to add streams.
void close_streams(aclrtContext context, bool force) {
    for (aclrtStream handle : streams_of(context))
        if (const auto stream = Streams::instance().take(handle)) {
            stream->close(force);
            forget_subscription(*stream);
        }
}

}  // namespace

std::shared_ptr<Stream> Context::default_stream(void* own_handle) {
    {
        const Lock lock = hold();
        if (stream_) return stream_;
    }
    auto stream = std::make_shared<Stream>(device_, own_handle);
    {
        const Lock lock = hold();
        if (stream_) return stream_;
        stream_ = stream;
    }
    Streams::instance().add(stream);  // under a handle that nobody knows, so that it closes with the others
    return stream;
}

Result<CurrentContext> current_context() {
    if (current == nullptr)
        return Status(ACL_ERROR_RT_CONTEXT_NULL,
                      "the calling thread has no current context; aclrtSetDevice gives it one");
    auto context = Contexts::instance().find(current);
    if (!context)
        return Status(ACL_ERROR_RT_CONTEXT_NULL, "the current context of the calling thread has been destroyed");
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

Status set_device(int32_t device) {
    GRADUS_TRY(check_device(device));
    Device& d = devices()[static_cast<size_t>(device)];
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
    GRADUS_TRY(check_device(device));
    Device& d = devices()[static_cast<size_t>(device)];
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
    if (force) wait_for_device(device);  // all but what may never end
    close_streams(last, force);
    return {};
}

Result<aclrtContext> create_context(int32_t device) {
    if (Status status = check_device(device); !status.ok()) return status;
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
    return Streams::instance().add(std::make_shared<Stream>(context->context->device(), context->handle));
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
    for (aclrtStream handle : streams_of(context->handle)) {
        const auto stream = Streams::instance().find(handle);
        if (!stream || stream->running_here()) continue;
        int32_t left = timeout_ms;
        if (timeout_ms >= 0) {
            const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
            left = static_cast<int32_t>(std::max<decltype(rest)>(rest, 0));
        }
        const int code = stream->synchronize(left);
        if (code == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT)
            return {code, concat("the device's work did not end within ", timeout_ms, " ms")};
        if (error == 0) error = code;
    }
    if (error != 0) return {error, "work that was queued on a stream of the context failed"};
    return {};
}

}  // namespace gradus
