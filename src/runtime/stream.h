// Streams: a queue each (queue.h has its rules), and a thread that starts with the first task that needs one.
//
// A collective between processes is mostly waited for as soon as it is asked for, and may take less than to wake a
// thread. So a stream where the last was waited for at once is attended: who waits for the next will run it, and the
// stream's thread is not woken for it, but looks by itself every half millisecond. What has lain there for one look, or
// when some thread goes to sleep over something else, it runs, and the stream is not attended any more. When nothing
// has come during a look, it sleeps until it is woken.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "acl/acl_rt.h"
#include "base/lock.h"
#include "base/registry.h"
#include "base/status.h"
#include "runtime/queue.h"
#include "runtime/schedule.h"

namespace gradus {

class Stream : public std::enable_shared_from_this<Stream> {
  public:
    Stream(int device, void* context);
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    uint64_t id() const { return id_; }  // from 1, never used twice
    int device() const { return device_; }
    void* context() const { return context_; }  // handle: the context may be gone

    // Queues, or runs at once where the task is small and the stream idle; a task that is refused is abandoned. 107017
    // when the stream is closed. In mode stop, what is submitted between a failure and its reading is dropped.
    Status submit(std::unique_ptr<Task> task, std::unique_ptr<Task> second = nullptr);

    // timeout_ms −1: for ever. Returns the stream's asynchronous error and forgets it, or 507046 on expiry, or 107000
    // when called from one of the stream's own tasks.
    int synchronize(int32_t timeout_ms, Text* why = nullptr);  // why: what the failed work has to say, if anything
    void wait();                                               // the same for ever, without reading the error
    bool idle() const;
    int error() const;
    void set_stop_on_failure(bool stop);
    bool running_here() const;                      // the calling thread is inside a task of this stream
    static bool running_here(const void* context);  // or of any stream of this context

    // With the lock, which is given up: runs one task that the stream needs to get on, where work is held back until
    // somebody waits. False: nothing could be run here.
    static bool run_for(Lock& lock, const Stream& stream);
    // With the lock, before the calling thread sleeps: what was left to who waits is for the streams' own threads.
    static void leave_to_threads() noexcept;

    void close(bool force);  // waits for the queue, or drops it; afterwards submit() refuses

  private:
    friend void announce() noexcept;
    friend bool run_without_thread(Lock& lock);
    friend void wait_for_device(int device);
    friend void finish_at_exit() noexcept;
    friend void repair_streams() noexcept;

    // With the lock, which is given up while something runs.
    void run_front(Lock& lock);
    bool wait(Lock& lock, int32_t timeout_ms);
    void wake_thread() noexcept;
    bool runs_here(const Task& task) const noexcept;
    void attend() noexcept;
    bool left_to_who_waits() const noexcept;
    void tell_task(Task& task) const;
    bool stalled() const;

    void run_by_schedule(Lock& lock);
    bool start_own_thread() noexcept;
    void serve();

    uint64_t id_ = 0;
    const int device_;
    void* const context_;

    TaskQueue queue_;
    bool has_thread_ = false, closed_ = false;
    std::shared_ptr<Stream> for_own_thread_;        // itself, until its thread has begun
    bool released_ = false;                         // where work is held back: the stream's thread may run it
    bool attended_ = false, asleep_ = false;        // asleep: its thread, until it is woken
    std::chrono::steady_clock::time_point asked_;   // when the last task that may wait came, until it is waited for
    std::condition_variable work_;                  // for the stream's own thread: the front is ready, or it is closed
    Stream *previous_ = nullptr, *next_ = nullptr;  // all streams of the process, those without a handle included
};

using Streams = Registry<Stream, HandleKind::stream>;

// NULL is the default stream of the thread's current context. Errors: no context 107002, not alive 107017.
Result<std::shared_ptr<Stream>> find_stream(aclrtStream handle);

// All work that is queued on the streams of a device, the program's host functions included. Not waited for: what needs
// the program to go on (an event that nobody was asked to record, a callback that a subscribed thread has to run) and
// what is behind it. A task that calls this does not wait for its own stream, nor for other host functions, which may
// be doing the same.
void wait_for_device(int device);

// Whatever a waiting thread may wait for has changed. With the lock.
void announce() noexcept;
std::condition_variable& announced() noexcept;

// Runs one task of a stream that could not get a thread of its own; false when there is none that is ready.
bool run_without_thread(Lock& lock);

// Blocks until `ready` holds, which is looked at with the lock, after every announcement; timeout_ms −1: for ever.
// False: expired. `needed`: the stream whose work it is about, which may be held back.
template <typename Ready>
bool wait_until(Lock& lock, int32_t timeout_ms, const Ready& ready, const Stream* needed = nullptr) {
    if (ready()) return true;  // without a look at the clock
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms < 0 ? 0 : timeout_ms);
    do {
        if (run_without_thread(lock)) continue;
        if (held_back() && needed != nullptr && Stream::run_for(lock, *needed)) continue;
        Stream::leave_to_threads();
        if (timeout_ms < 0)
            announced().wait(lock);
        else if (announced().wait_until(lock, end) == std::cv_status::timeout)
            return ready();
    } while (!ready());
    return true;
}

}  // namespace gradus
