#include "runtime/stream.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <limits>
#include <new>

#include "runtime/float_environment.h"

namespace gradus {

void finish_at_exit() noexcept;
void repair_streams() noexcept;

namespace {

// Behind the process lock. Never destroyed: streams may still work while the process exits.
struct AllStreams {
    Stream* first = nullptr;
    uint64_t last_ticket = 0;
    std::condition_variable waiters;  // of events, callbacks: whatever wake_all_waiters() may have changed
};

AllStreams& all_streams() {
    static AllStreams& streams = *new AllStreams;
    return streams;
}

// The tasks this thread is inside of: a callback may submit to another stream, which runs small tasks at once.
struct Frame {
    const Stream* stream;
    const Frame* outer;
};
thread_local const Frame* innermost = nullptr;

template <typename Ready>
bool wait_with(std::condition_variable& changed, Lock& lock, int32_t timeout_ms, const Ready& ready) {
    if (timeout_ms >= 0) return changed.wait_for(lock, std::chrono::milliseconds(timeout_ms), ready);
    changed.wait(lock, ready);
    return true;
}

// At load, so that no fork can meet them half made.
[[maybe_unused]] const bool prepared = [] {
    all_streams();
    Streams::instance();
    after_fork_in_child([] { repair_streams(); });
    return true;
}();

}  // namespace

Stream::Stream(int device, void* context) : device_(device), context_(context) {
    AllStreams& all = all_streams();
    const Lock lock = hold();
    next_ = all.first;
    if (next_ != nullptr) next_->previous_ = this;
    all.first = this;
}

Stream::~Stream() {
    const Lock lock = hold();
    (previous_ != nullptr ? previous_->next_ : all_streams().first) = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
}

void Stream::discard(std::unique_ptr<Task> list) noexcept {
    while (list) {  // one by one: a long chain of destructors would overflow the stack
        list->abandon();
        list = std::move(list->next_);
    }
}

void Stream::append(std::unique_ptr<Task> task) {
    Task* const last = task.get();
    (head_ ? tail_->next_ : head_) = std::move(task);
    tail_ = last;
}

std::unique_ptr<Task> Stream::pop() {
    std::unique_ptr<Task> task = std::move(head_);
    head_ = std::move(task->next_);
    return task;
}

std::unique_ptr<Task> Stream::take_queue() { return std::move(head_); }

uint64_t Stream::oldest() const {
    if (running_ != nullptr) return running_->ticket_;
    return head_ ? head_->ticket_ : std::numeric_limits<uint64_t>::max();
}

bool Stream::stuck() const {
    if (running_ == nullptr) return false;
    return running_->calls_user || (ready_ != nullptr && !ready_(ready_argument_));
}

bool Stream::running_here() const {
    for (const Frame* frame = innermost; frame != nullptr; frame = frame->outer)
        if (frame->stream == this) return true;
    return false;
}

bool Stream::running_here(const void* context) {
    for (const Frame* frame = innermost; frame != nullptr; frame = frame->outer)
        if (frame->stream->context_ == context) return true;
    return false;
}

int Stream::run_here(Task& task) noexcept {
    const Frame frame{this, innermost};
    const DefaultFloatEnvironment environment;
    innermost = &frame;
    const int code = task.run(*this);
    innermost = frame.outer;
    return code;
}

// Books the end of the running task; returns what a failure drops.
std::unique_ptr<Task> Stream::finish(int code) {
    running_ = nullptr;
    std::unique_ptr<Task> dropped;
    if (code != 0) {
        if (error_ == 0) error_ = code;
        if (stop_on_failure_) dropped = take_queue();
    }
    done_.notify_all();
    return dropped;
}

Status Stream::submit(std::unique_ptr<Task> task) {
    Lock lock = hold();
    if (closed_) return {ACL_ERROR_RT_INVALID_HANDLE, "stream: is being destroyed"};
    if (error_ != 0 && stop_on_failure_) {
        lock.unlock();
        discard(std::move(task));
        return {};
    }
    newest_ = task->ticket_ = ++all_streams().last_ticket;
    if (task->small && running_ == nullptr && !head_) {
        running_ = task.get();
        lock.unlock();
        const int code = run_here(*task);
        lock.lock();
        std::unique_ptr<Task> dropped = finish(code);
        if (head_ || closed_) work_.notify_one();
        lock.unlock();
        discard(std::move(dropped));
        return {};
    }
    append(std::move(task));
    if (thread_started_) {
        if (running_ == nullptr) work_.notify_one();
        return {};
    }
    thread_started_ = true;
    lock.unlock();
    if (!start_thread()) {  // no thread to be had: the caller does the work itself, which is slow but right
        serve(false);
        lock.lock();
        thread_started_ = false;
    }
    return {};
}

bool Stream::start_thread() {
    static const int registered = std::atexit([] { finish_at_exit(); });
    (void)registered;
    auto* const self = new (std::nothrow) std::shared_ptr<Stream>(shared_from_this());
    if (self == nullptr) return false;
    const auto body = [](void* argument) -> void* {
        const std::unique_ptr<std::shared_ptr<Stream>> stream(static_cast<std::shared_ptr<Stream>*>(argument));
        (*stream)->serve(true);
        return nullptr;
    };
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // the program's signals belong to the program's threads
    pthread_t thread;
    const bool started = pthread_create(&thread, nullptr, body, self) == 0;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!started) return delete self, false;
    pthread_setname_np(thread, "gradus-stream");
    pthread_detach(thread);
    return true;
}

void Stream::serve(bool until_closed) {
    Lock lock = hold();
    for (;;) {
        work_.wait(lock, [&] { return running_ == nullptr && (head_ || closed_ || !until_closed); });
        if (!head_) return;
        run_next(lock);
    }
}

void Stream::run_next(Lock& lock) {
    std::unique_ptr<Task> task = pop();
    running_ = task.get();
    if (task->calls_user) done_.notify_all();  // some wait for the stream only up to here
    lock.unlock();
    const int code = run_here(*task);
    lock.lock();
    std::unique_ptr<Task> dropped = finish(code);
    lock.unlock();
    task.reset();  // after finish(): a fork must not find a running task half destroyed
    discard(std::move(dropped));
    lock.lock();
}

bool Stream::wait(Lock& lock, int32_t timeout_ms) {
    const uint64_t newest = newest_;
    if (timeout_ms < 0) {
        // work that the stream's thread has not begun yet is done by who waits for it: two wake-ups less
        bool helped = false;
        for (; running_ == nullptr && head_ && oldest() <= newest && !head_->calls_user; helped = true) run_next(lock);
        if (helped && (head_ || closed_)) work_.notify_one();
    }
    return wait_with(done_, lock, timeout_ms, [&] { return oldest() > newest; });
}

bool Stream::wait(int32_t timeout_ms) {
    Lock lock = hold();
    return wait(lock, timeout_ms);
}

int Stream::synchronize(int32_t timeout_ms) {
    if (running_here()) return ACL_ERROR_RT_PARAM_INVALID;
    Lock lock = hold();
    if (!wait(lock, timeout_ms)) return ACL_ERROR_RT_STREAM_SYNC_TIMEOUT;
    return std::exchange(error_, 0);
}

bool Stream::idle() const {
    const Lock lock = hold();
    return running_ == nullptr && !head_;
}

int Stream::error() const {
    const Lock lock = hold();
    return error_;
}

void Stream::set_stop_on_failure(bool stop) {
    const Lock lock = hold();
    stop_on_failure_ = stop;
}

bool Stream::wait_until(bool (*ready)(void*), void* argument) {
    Lock lock = hold();
    ready_ = ready;
    ready_argument_ = argument;
    done_.notify_all();  // whoever waits for the device goes on without this stream
    all_streams().waiters.wait(lock, [&] { return forced_ || ready(argument); });
    ready_ = nullptr;
    return ready(argument);
}

void Stream::wake_all_waiters() { all_streams().waiters.notify_all(); }

bool wait_on_host(bool (*ready)(void*), void* argument, int32_t timeout_ms) {
    Lock lock = hold();
    return wait_with(all_streams().waiters, lock, timeout_ms, [&] { return ready(argument); });
}

void Stream::close(bool force) {
    Lock lock = hold();
    closed_ = true;
    if (force) {
        forced_ = true;
        std::unique_ptr<Task> dropped = take_queue();
        wake_all_waiters();
        lock.unlock();
        discard(std::move(dropped));
        lock.lock();
    }
    if (!running_here()) done_.wait(lock, [&] { return running_ == nullptr ? !head_ : force && running_->calls_user; });
    work_.notify_all();
    done_.notify_all();
}

void wait_for_device(int device) {
    uint64_t newest = 0;
    for (std::shared_ptr<Stream> busy;; busy.reset()) {  // let go without the lock: it may be the last owner
        Lock lock = hold();
        if (newest == 0) newest = all_streams().last_ticket;
        const auto skip = [&](const Stream& s) { return s.oldest() > newest || s.stuck(); };
        for (Stream* s = all_streams().first; s != nullptr && !busy; s = s->next_)
            if (s->device_ == device && !skip(*s) && !s->running_here()) busy = s->weak_from_this().lock();
        if (!busy) return;
        // and look again: its work may have released a stream that was stuck
        busy->done_.wait(lock, [&] { return skip(*busy); });
    }
}

// The process goes while streams work: queues are dropped, and an operator that runs finishes before its data and the
// worker threads are torn down. The program's own callbacks and unmet waits may never end and are left alone.
void finish_at_exit() noexcept {
    for (std::shared_ptr<Stream> busy;; busy.reset()) {
        Lock lock = hold();
        std::unique_ptr<Task> dropped;
        for (Stream* s = all_streams().first; s != nullptr && !busy; s = s->next_) {
            if (s->head_) dropped = s->take_queue();
            if (dropped || (s->running_ != nullptr && !s->stuck() && !s->running_here()))
                busy = s->weak_from_this().lock();
        }
        if (!busy && !dropped) return;
        if (!dropped) busy->done_.wait(lock, [&] { return busy->running_ == nullptr || busy->stuck(); });
        lock.unlock();
        Stream::discard(std::move(dropped));
    }
}

// In the child of a fork the queued work belongs to the parent, and the threads that waited or worked are gone; the
// thread that forked is the only one, so nothing needs the lock.
void repair_streams() noexcept {
    // constructed anew without being destroyed: they remember waiters that will never wake
    new (&all_streams().waiters) std::condition_variable;
    for (Stream* s = all_streams().first; s != nullptr; s = s->next_) {
        new (&s->work_) std::condition_variable;
        new (&s->done_) std::condition_variable;
        Task* const orphan = s->running_here() ? nullptr : s->running_;  // a callback that forks stays in its stream
        if (!s->running_here()) {
            s->running_ = nullptr;
            s->thread_started_ = false;
            s->ready_ = nullptr;
        }
        if (orphan != nullptr) orphan->abandon();
        Stream::discard(s->take_queue());
    }
}

}  // namespace gradus
