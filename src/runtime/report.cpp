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

class HostFunctionTask final : public Task {
  public:
    HostFunctionTask(UserFunction f, void* argument) : f_(f), argument_(argument) { calls_user = true; }
    int run() noexcept override { return call_user(f_, argument_); }

  private:
    UserFunction f_;
    void* argument_;
};

struct Callback {
    const Stream* stream;
    UserFunction f;
    void* argument;
    uint64_t id = 0;    // where somebody observes
    bool done = false;  // or dropped
    int code = 0;
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
    bool is_due(uint64_t thread) const {
        const auto it = due.find(thread);
        return it != due.end() && !it->second.empty();
    }
    void forget_if_unused(uint64_t thread) {
        if (!is_due(thread) && !serves(thread)) due.erase(thread);
    }
};

Subscriptions& subscriptions = *new Subscriptions;  // at load, so that no fork meets it half made

// Hands its callback over to the subscribed thread.
class PostTask final : public Task {
  public:
    explicit PostTask(std::shared_ptr<Callback> callback) : node_{std::move(callback)} { small = true; }

    int run() noexcept override {
        const Lock lock = hold();
        const std::shared_ptr<Callback>& callback = node_.front();
        const auto it = subscriptions.thread_of.find(callback->stream);
        if (it == subscriptions.thread_of.end()) {  // unsubscribed meanwhile
            callback->done = true;
            return 0;
        }
        Callbacks& due = subscriptions.due.find(it->second)->second;
        due.splice(due.end(), node_);
        announce();
        return 0;
    }

  private:
    Callbacks node_;
};

// Behind a PostTask: holds the stream until the callback has run.
class CallbackWaitTask final : public Task {
  public:
    explicit CallbackWaitTask(std::shared_ptr<Callback> callback) : callback_(std::move(callback)) {}
    bool ready() const noexcept override { return callback_->done; }
    int run() noexcept override {
        const Lock lock = hold();
        return callback_->code;
    }

  private:
    std::shared_ptr<Callback> callback_;
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
    auto task = std::make_unique<HostFunctionTask>(f, argument);
    task->info = describe(TaskKind::host_function);
    return (*stream)->submit(std::move(task));
}

Status subscribe_report(uint64_t thread, aclrtStream handle) {
    auto stream = find_stream(handle);
    if (!stream.ok()) return stream.status();
    // their places are made without the lock, so that nothing can fail between the two
    std::map<const Stream*, uint64_t> subscription{{stream->get(), thread}};
    std::map<uint64_t, Callbacks> due;
    due.try_emplace(thread);
    const Lock lock = hold();
    if (subscriptions.thread_of.contains(stream->get()))
        return {ACL_ERROR_RT_PARAM_INVALID, "stream: has a subscription already, expected one thread a stream"};
    subscriptions.thread_of.merge(subscription);
    subscriptions.due.merge(due);
    return {};
}

Status unsubscribe_report(uint64_t thread, aclrtStream handle) {
    auto stream = find_stream(handle);
    if (!stream.ok()) return stream.status();
    Callbacks dropped;
    const Lock lock = hold();
    const auto it = subscriptions.thread_of.find(stream->get());
    if (it == subscriptions.thread_of.end() || it->second != thread)
        return {ACL_ERROR_RT_THREAD_SUBSCRIBE, "threadId: has no subscription of this stream"};
    subscriptions.thread_of.erase(it);
    Callbacks& due = subscriptions.due.find(thread)->second;
    for (auto at = due.begin(); at != due.end();) {
        const auto here = at++;
        if ((*here)->stream != stream->get()) continue;
        (*here)->done = true;
        dropped.splice(dropped.end(), due, here);
    }
    subscriptions.forget_if_unused(thread);
    announce();
    return {};
}

Status launch_callback(aclrtStream handle, UserFunction f, void* argument, bool blocks) {
    GRADUS_TRY(check_function(f));
    auto stream = find_stream(handle);
    if (!stream.ok()) return stream.status();
    {
        const Lock lock = hold();
        if (!subscriptions.thread_of.contains(stream->get()))
            return {ACL_ERROR_RT_STREAM_NO_CB_REG, "stream: no thread has subscribed; aclrtSubscribeReport does that"};
    }
    const uint64_t id = observed() ? fresh_subject() : 0;
    auto callback = std::make_shared<Callback>(Callback{stream->get(), f, argument, id});
    auto post = std::make_unique<PostTask>(callback);
    post->info = describe(TaskKind::post, id);
    auto wait = blocks ? std::make_unique<CallbackWaitTask>(std::move(callback)) : nullptr;
    if (wait) wait->info = describe(TaskKind::callback_wait, id);
    return (*stream)->submit(std::move(post), std::move(wait));
}

Status process_report(int32_t timeout_ms) {
    const uint64_t self = pthread_self();
    Callbacks due;
    {
        Lock lock = hold();
        const auto something = [self] { return subscriptions.is_due(self) || !subscriptions.serves(self); };
        if (!wait_until(lock, timeout_ms, something))
            return {ACL_ERROR_RT_REPORT_TIMEOUT, concat("no callback was due within ", timeout_ms, " ms")};
        if (!subscriptions.is_due(self))
            return {ACL_ERROR_RT_THREAD_SUBSCRIBE,
                    "the calling thread has no subscription; aclrtSubscribeReport makes one"};
        due.swap(subscriptions.due.find(self)->second);
        subscriptions.forget_if_unused(self);
    }
    int error = 0;
    for (const auto& callback : due) {
        if (observed()) {
            const Lock lock = hold();
            observe([&](Observer& o) { o.on_callback_begin(callback->id); });
        }
        const int code = call_user(callback->f, callback->argument);
        if (error == 0) error = code;
        const Lock lock = hold();
        observe([&](Observer& o) { o.on_callback_end(callback->id); });
        callback->code = code;
        callback->done = true;
        announce();
    }
    if (error != 0) return {error, "a callback threw an exception"};
    return {};
}

void forget_subscription(const Stream& stream) {
    const Lock lock = hold();
    const auto it = subscriptions.thread_of.find(&stream);
    if (it == subscriptions.thread_of.end()) return;
    const uint64_t thread = it->second;
    subscriptions.thread_of.erase(it);
    subscriptions.forget_if_unused(thread);
    announce();
}

}  // namespace gradus
