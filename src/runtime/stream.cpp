#include "runtime/stream.h"

#include <cstdlib>

#include "runtime/float_environment.h"
#include "runtime/thread.h"

namespace gradus {

void finish_at_exit() noexcept;
void repair_streams() noexcept;

namespace {

// Behind the process lock.
struct AllStreams {
    Stream* first = nullptr;
    uint64_t last_id = 0;
    bool exit_prepared = false;
    bool some_without_thread = false;   // a thread was wanted once and could not be had
    std::condition_variable announced;  // for all who wait on a thread of the program's
};
// Made at load, so that no fork meets it half made; never destroyed: streams may still work while the process exits.
AllStreams& all = *new AllStreams;

// How long what is left to who waits may lie untouched.
constexpr std::chrono::microseconds kLookHeldBack(100'000), kLookAttended(500);

[[maybe_unused]] const bool streams_prepared = [] {
    after_fork_in_child([] { repair_streams(); });
    return true;
}();

// The tasks this thread is inside of: a callback may submit to another stream, which runs small tasks at once.
struct Frame {
    const Stream* stream;
    const Frame* outer;
};
constinit thread_local const Frame* innermost = nullptr;

int run_inside(const Stream& stream, Task& task) noexcept {
    const Frame frame{&stream, innermost};
    const DefaultFloatEnvironment environment;
    innermost = &frame;
    const int code = task.run();
    innermost = frame.outer;
    return code;
}

}  // namespace

Stream::Stream(int device, void* context) : device_(device), context_(context) {
    const Lock lock = hold();
    next_ = all.first;
    if (next_ != nullptr) next_->previous_ = this;
    all.first = this;
    id_ = ++all.last_id;
    observe([this](Observer& o) { o.on_stream({id_, device_, context_}); });
}

Stream::~Stream() {
    const Lock lock = hold();
    (previous_ != nullptr ? previous_->next_ : all.first) = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
    observe([this](Observer& o) { o.on_stream_end(id_); });
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

Status Stream::submit(std::unique_ptr<Task> task, std::unique_ptr<Task> second) {
    Lock lock = hold();
    if (closed_ || queue_.refuses()) {
        const bool closed = closed_;
        lock.unlock();
        TaskQueue::discard(std::move(task));
        TaskQueue::discard(std::move(second));
        return closed ? Status(ACL_ERROR_RT_INVALID_HANDLE, "stream: is being destroyed") : Status();
    }
    const bool at_once = task->small && task->ready() && queue_.idle() && !held_back();
    Task *const first = task.get(), *const behind = second.get();
    if (first->may_wait) asked_ = std::chrono::steady_clock::now();
    queue_.push(std::move(task), std::move(second));
    if (first->info) tell_task(*first);
    if (behind != nullptr && behind->info) tell_task(*behind);
    if (at_once) run_front(lock);
    if (schedule() != Schedule::usual) run_by_schedule(lock);
    if (queue_.front() == nullptr) return {};
    if (!has_thread_) has_thread_ = start_own_thread();
    if (asleep_ || !left_to_who_waits()) wake_thread();
    while (!has_thread_ && run_without_thread(lock)) {  // slow, but right
    }
    return {};
}

void Stream::tell_task(Task& task) const {
    task.info->stream = id_;
    task.info->device = device_;
    observe([&task](Observer& o) { o.on_task(*task.info); });
}

bool Stream::start_own_thread() noexcept {
    if (!all.exit_prepared) all.exit_prepared = std::atexit([] { finish_at_exit(); }) == 0;
    for_own_thread_ = weak_from_this().lock();
    const auto body = [](void* argument) {
        const std::shared_ptr<Stream> stream = std::move(static_cast<Stream*>(argument)->for_own_thread_);
        stream->serve();
    };
    if (start_thread("gradus-stream", body, this)) return true;
    for_own_thread_.reset();  // the caller owns the stream as well
    all.some_without_thread = true;
    return false;
}

void Stream::serve() {
    Lock lock = hold();
    for (bool quiet = false;;) {  // nothing has come since the last look
        const uint64_t newest = queue_.newest();
        const auto due = [&] {
            if (queue_.idle()) released_ = false;
            return (queue_.runnable() && (released_ || !left_to_who_waits())) || (closed_ && queue_.idle());
        };
        if (held_back() || (attended_ && !quiet)) {
            if (!work_.wait_for(lock, held_back() ? kLookHeldBack : kLookAttended, due)) {
                quiet = queue_.newest() == newest;
                if (held_back()) released_ = quiet;  // left alone
                if (quiet && queue_.runnable()) attended_ = false;
            }
        } else {
            asleep_ = true;
            work_.wait(lock, [&] { return due() || queue_.runnable(); });
            asleep_ = quiet = false;
        }
        if (!due()) continue;
        if (!queue_.runnable()) return;
        run_front(lock);
    }
}

// Asked where there is a front.
bool Stream::left_to_who_waits() const noexcept { return held_back() || (attended_ && queue_.front()->may_wait); }

void Stream::attend() noexcept {
    if (asked_ == std::chrono::steady_clock::time_point()) return;
    if (std::chrono::steady_clock::now() - asked_ < kLookAttended) attended_ = true;
    asked_ = {};
}

void Stream::leave_to_threads() noexcept {
    for (Stream* s = all.first; s != nullptr; s = s->next_)
        if (s->attended_ && s->queue_.runnable()) {
            s->attended_ = false;
            s->wake_thread();
        }
}

// For a thread that waits for the stream as long as it takes. The program's functions expect the stream's thread; and
// where streams have no thread, those that wait have their work to do.
bool Stream::runs_here(const Task& task) const noexcept {
    return !task.calls_user && !(task.may_wait && all.some_without_thread);
}

// Now: all of it here, but for what the stream's own thread must run. Random: some, of any stream.
void Stream::run_by_schedule(Lock& lock) {
    if (schedule() == Schedule::now) {
        while (queue_.runnable() && !queue_.front()->may_take_for_ever()) run_front(lock);
        const uint64_t newest = queue_.newest();
        if (queue_.front() == nullptr || running_here()) return;
        if (!has_thread_) has_thread_ = start_own_thread();
        wake_thread();
        wait_until(lock, -1, [&] { return queue_.finished(newest) || stalled(); });
        return;
    }
    for (uint64_t tasks = schedule() == Schedule::random ? choose(3) : 0; tasks > 0; --tasks) {
        uint64_t ready = 0;
        for (const Stream* s = all.first; s != nullptr; s = s->next_) ready += s->queue_.runnable() ? 1 : 0;
        if (ready == 0) return;
        uint64_t picked = choose(ready);
        const Stream* s = all.first;
        while (!s->queue_.runnable() || picked-- > 0) s = s->next_;
        run_for(lock, *s);
    }
}

void Stream::wake_thread() noexcept {
    if (has_thread_ && (queue_.runnable() || closed_)) work_.notify_one();
}

void Stream::run_front(Lock& lock) {
    std::unique_ptr<Task> task = queue_.begin();
    if (task->info) observe([&](Observer& o) { o.on_task_begin(*task->info); });
    lock.unlock();
    const int code = run_inside(*this, *task);
    lock.lock();
    if (task->info) observe([&](Observer& o) { o.on_task_end(*task->info, code); });
    task->ended();
    std::unique_ptr<Task> dropped = queue_.finish(code, *task);
    all.announced.notify_all();
    lock.unlock();
    task.reset();  // after finish(): a fork must not find a running task half destroyed
    TaskQueue::discard(std::move(dropped));
    lock.lock();
}

bool run_without_thread(Lock& lock) {
    if (!all.some_without_thread) return false;
    for (Stream* s = all.first; s != nullptr; s = s->next_) {
        if (s->has_thread_ || !s->queue_.runnable()) continue;
        std::shared_ptr<Stream> keep = s->weak_from_this().lock();
        if (!keep) continue;  // its last owner is about to take it off the list
        s->run_front(lock);
        lock.unlock();  // `keep` may be the last owner now, and then needs the lock
        keep.reset();
        lock.lock();
        return true;
    }
    return false;
}

bool Stream::wait(Lock& lock, int32_t timeout_ms) {
    const uint64_t newest = queue_.newest();
    observe([&](Observer& o) { o.on_wait_begin(id_, newest); });
    if (timeout_ms < 0) observe([this](Observer& o) { o.on_wait(id_, 0); });
    // What the stream's thread has not begun is done here, without waking two threads; not if it may take longer than
    // the caller wants to wait.
    if (timeout_ms < 0 && !held_back()) {
        attend();
        while (!queue_.finished(newest) && queue_.runnable() && runs_here(*queue_.front())) run_front(lock);
        wake_thread();
    }
    if (!wait_until(
            lock, timeout_ms, [&] { return queue_.finished(newest); }, this)) {
        observe([this](Observer& o) { o.on_expired(id_); });
        return false;
    }
    observe([&](Observer& o) { o.on_stream_done(id_, newest); });
    return true;
}

void Stream::wait() {
    Lock lock = hold();
    wait(lock, -1);
}

int Stream::synchronize(int32_t timeout_ms, Text* why) {
    if (running_here()) return ACL_ERROR_RT_PARAM_INVALID;
    Lock lock = hold();
    if (!wait(lock, timeout_ms)) return ACL_ERROR_RT_STREAM_SYNC_TIMEOUT;
    if (why != nullptr) *why = queue_.error_text();
    return queue_.take_error();
}

bool Stream::idle() const {
    Lock lock = hold();
    while (run_without_thread(lock)) {
    }
    if (held_back()) run_for(lock, *this);
    if (!queue_.idle()) return false;
    observe([this](Observer& o) { o.on_stream_done(id_, queue_.newest()); });
    return true;
}

int Stream::error() const {
    const Lock lock = hold();
    return queue_.error();
}

void Stream::set_stop_on_failure(bool stop) {
    const Lock lock = hold();
    queue_.set_stop_on_failure(stop);
}

void Stream::close(bool force) {
    Lock lock = hold();
    closed_ = true;
    if (force) {
        std::unique_ptr<Task> dropped = queue_.drop();
        lock.unlock();
        TaskQueue::discard(std::move(dropped));
        lock.lock();
    }
    const auto over = [&] {
        return queue_.idle() || (force && queue_.running() && queue_.running()->may_take_for_ever());
    };
    if (!running_here()) {
        if (!force) observe([this](Observer& o) { o.on_wait(id_, 0); });
        wait_until(lock, -1, over, this);
        if (!force) observe([this](Observer& o) { o.on_stream_done(id_, queue_.newest()); });
    }
    wake_thread();
}

void announce() noexcept {
    all.announced.notify_all();
    for (Stream* s = all.first; s != nullptr; s = s->next_) s->wake_thread();
}

std::condition_variable& announced() noexcept { return all.announced; }

// Whether nothing that is queued anywhere will move this stream on.
bool Stream::stalled() const {
    const Stream* s = this;
    for (const Stream* step = all.first; step != nullptr; step = step->next_) {  // a longer chain is a circle
        if (s->running_here()) return true;
        if (const Task* running = s->queue_.running()) return innermost != nullptr && running->calls_user;
        if (s->queue_.front() == nullptr || s->queue_.front()->ready()) return false;
        s = s->queue_.front()->waits_for();
        if (s == nullptr) return true;
    }
    return true;
}

void wait_for_device(int device) {
    Lock lock = hold();
    const uint64_t newest = TaskQueue::last_ticket();
    wait_until(lock, -1, [&] {
        for (const Stream* s = all.first; s != nullptr; s = s->next_)
            if (s->device_ == device && !s->queue_.finished(newest) && !s->stalled()) return false;
        return true;
    });
}

// The process goes while streams work: queues are dropped, and an operator that runs finishes before its data are torn
// down. The program's own functions may never end and are left alone.
void finish_at_exit() noexcept {
    Lock lock = hold();
    observe([](Observer& o) { o.on_exit(); });
    for (Stream* s = all.first; s != nullptr;) {
        std::unique_ptr<Task> dropped = s->queue_.drop();
        if (!dropped) {
            s = s->next_;
            continue;
        }
        lock.unlock();
        TaskQueue::discard(std::move(dropped));
        lock.lock();
        s = all.first;  // the list may have changed
    }
    wait_until(lock, -1, [] {
        for (const Stream* s = all.first; s != nullptr; s = s->next_)
            if (const Task* running = s->queue_.running();
                running && !running->may_take_for_ever() && !s->running_here())
                return false;
        return true;
    });
}

// In the child of a fork the queued work belongs to the parent, and the threads that waited or worked are gone; the
// thread that forked is the only one, so nothing needs the lock.
void repair_streams() noexcept {
    forget_waiters(all.announced);
    for (Stream* s = all.first; s != nullptr; s = s->next_) {
        forget_waiters(s->work_);
        if (!s->running_here()) {  // a callback that forks stays in its stream
            s->has_thread_ = s->attended_ = s->asleep_ = false;
            if (Task* const lost = s->queue_.lose_running()) lost->abandon();
        }
        TaskQueue::discard(s->queue_.drop());
    }
}

}  // namespace gradus
