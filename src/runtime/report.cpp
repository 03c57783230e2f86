#include "runtime/report.h"

#include <pthread.h>

#include <list>
#include <map>
#include <memory>

#include "runtime/stream.h"

namespace gradus {
namespace {

int call_user(UserFunction f, void* argument) noexcept {
    try {
        f(argument);
        return 0;
    } catch (...) {
        return ACL_ERROR_RT_AICPU_EXCEPTION;
    }
}

class HostFunctionTask : public Task {
  public:
    HostFunctionTask(UserFunction f, void* argument) : f_(f), argument_(argument) { calls_user = true; }
    int run(Stream&) noexcept override { return call_user(f_, argument_); }

  private:
    UserFunction f_;
    void* argument_;
};

struct Callback {
    const Stream* stream;
    UserFunction f;
    void* argument;
    bool done = false;  // or dropped
    int code = 0;

    static bool is_done(void* callback) { return static_cast<const Callback*>(callback)->done; }
};
using Callbacks = std::list<std::shared_ptr<Callback>>;

// Behind the process lock.
struct Subscriptions {
    std::map<const Stream*, uint64_t> thread_of;
    std::map<uint64_t, Callbacks> due;  // by thread; made by the subscription, so that posting allocates nothing

    bool serves(uint64_t thread) const {
        for (const auto& [stream, subscribed] : thread_of)
            if (subscribed == thread) return true;
        return false;
    }
};

Subscriptions& subscriptions() {
    static Subscriptions& the_subscriptions = *new Subscriptions;
    return the_subscriptions;
}
[[maybe_unused]] const auto& prepared = subscriptions();  // at load, so that no fork meets it half made

// Hands its callback over to the subscribed thread and, if it blocks, holds the stream until that has run.
class CallbackTask : public Task {
  public:
    CallbackTask(std::shared_ptr<Callback> callback, bool blocks) : node_{std::move(callback)}, blocks_(blocks) {
        callback_ = node_.front();
        small = !blocks;
    }

    int run(Stream& stream) noexcept override {
        {
            const Lock lock = hold();
            Subscriptions& s = subscriptions();
            const auto it = s.thread_of.find(&stream);
            if (it == s.thread_of.end()) return 0;  // unsubscribed meanwhile
            Callbacks& due = s.due.find(it->second)->second;
            due.splice(due.end(), node_);
            Stream::wake_all_waiters();
        }
        if (!blocks_) return 0;
        stream.wait_until(Callback::is_done, callback_.get());
        const Lock lock = hold();
        return callback_->code;
    }

  private:
    Callbacks node_;
    std::shared_ptr<Callback> callback_;
    bool blocks_;
};

Status check_function(UserFunction f) {
    if (f == nullptr) return {ACL_ERROR_INVALID_PARAM, "fn: NULL"};
    return {};
}

}  // namespace

Status launch_host_function(aclrtStream handle, UserFunction f, void* argument) {
    GRADUS_TRY(check_function(f));
    auto stream = find_stream(handle);
    if (!stream.ok()) return stream.status();
    return (*stream)->submit(std::make_unique<HostFunctionTask>(f, argument));
}

Status subscribe_report(uint64_t thread, aclrtStream handle) {
    auto stream = find_stream(handle);
    if (!stream.ok()) return stream.status();
    Subscriptions& s = subscriptions();
    const Lock lock = hold();
    s.due.try_emplace(thread);
    if (!s.thread_of.emplace(stream->get(), thread).second)
        return {ACL_ERROR_RT_PARAM_INVALID, "stream: has a subscription already, expected one thread a stream"};
    return {};
}

Status unsubscribe_report(uint64_t thread, aclrtStream handle) {
    auto stream = find_stream(handle);
    if (!stream.ok()) return stream.status();
    Callbacks dropped;
    Subscriptions& s = subscriptions();
    const Lock lock = hold();
    const auto it = s.thread_of.find(stream->get());
    if (it == s.thread_of.end() || it->second != thread)
        return {ACL_ERROR_RT_THREAD_SUBSCRIBE, "threadId: has no subscription of this stream"};
    s.thread_of.erase(it);
    Callbacks& due = s.due.find(thread)->second;
    for (auto at = due.begin(); at != due.end();) {
        const auto here = at++;
        if ((*here)->stream != stream->get()) continue;
        (*here)->done = true;
        dropped.splice(dropped.end(), due, here);
    }
    Stream::wake_all_waiters();
    return {};
}

Status launch_callback(aclrtStream handle, UserFunction f, void* argument, bool blocks) {
    GRADUS_TRY(check_function(f));
    auto stream = find_stream(handle);
    if (!stream.ok()) return stream.status();
    {
        const Lock lock = hold();
        if (!subscriptions().thread_of.contains(stream->get()))
            return {ACL_ERROR_RT_STREAM_NO_CB_REG, "stream: no thread has subscribed; aclrtSubscribeReport does that"};
    }
    auto callback = std::make_shared<Callback>(Callback{stream->get(), f, argument});
    return (*stream)->submit(std::make_unique<CallbackTask>(std::move(callback), blocks));
}

Status process_report(int32_t timeout_ms) {
    uint64_t self = pthread_self();
    const auto something = [](void* argument) {
        const uint64_t thread = *static_cast<const uint64_t*>(argument);
        const auto it = subscriptions().due.find(thread);
        return (it != subscriptions().due.end() && !it->second.empty()) || !subscriptions().serves(thread);
    };
    if (!wait_on_host(something, &self, timeout_ms))
        return {ACL_ERROR_RT_REPORT_TIMEOUT, concat("no callback was due within ", timeout_ms, " ms")};
    Callbacks due;
    {
        const Lock lock = hold();
        const auto it = subscriptions().due.find(self);
        if (it != subscriptions().due.end()) due.swap(it->second);
    }
    if (due.empty())
        return {ACL_ERROR_RT_THREAD_SUBSCRIBE,
                "the calling thread has no subscription; aclrtSubscribeReport makes one"};
    int error = 0;
    for (const auto& callback : due) {
        const int code = call_user(callback->f, callback->argument);
        if (error == 0) error = code;
        const Lock lock = hold();
        callback->code = code;
        callback->done = true;
        Stream::wake_all_waiters();
    }
    if (error != 0) return {error, "a callback threw an exception"};
    return {};
}

void forget_subscription(const Stream& stream) {
    const Lock lock = hold();
    subscriptions().thread_of.erase(&stream);
    Stream::wake_all_waiters();
}

}  // namespace gradus
