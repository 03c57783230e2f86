// Streams: FIFO queues of tasks, each with a thread that starts with the first task that needs one.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>

#include "acl/acl_rt.h"
#include "base/registry.h"
#include "base/status.h"

namespace gradus {

class Stream;

// A piece of queued work. It owns all it needs: tensors may be destroyed and memory freed as soon as it is queued.
class Task {
  public:
    virtual ~Task() = default;
    // Runs in stream order, on the stream's thread or, if small, on the caller's. Returns 0 or the stream's new error.
    virtual int run(Stream& stream) noexcept = 0;
    // Called instead of run() when the stream drops its queue (forced destruction, a fork, failure mode stop).
    virtual void abandon() noexcept {}
    // Small enough that waking the stream's thread would cost more than the work.
    bool small = false;
    // Runs the program's own code, which may wait for anything: no copy, exit or forced destruction waits for it.
    bool calls_user = false;

  private:
    friend class Stream;
    std::unique_ptr<Task> next_;
    uint64_t ticket_ = 0;  // ascending in the process
};

class Stream : public std::enable_shared_from_this<Stream> {
  public:
    Stream(int device, void* context);
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    int device() const { return device_; }
    void* context() const { return context_; }  // handle: the context may be gone

    // Queues, or runs at once where the task is small and the stream idle. 0, or an error when the stream is closed.
    // In failure mode stop, what is submitted between a failure and its reading is dropped.
    Status submit(std::unique_ptr<Task> task);

    // timeout_ms −1: for ever. Returns the stream's asynchronous error and forgets it, or 507046 on expiry, or 107000
    // when called from one of the stream's own tasks.
    int synchronize(int32_t timeout_ms);
    bool wait(int32_t timeout_ms);  // the same without reading the error; false: expired
    bool idle() const;
    int error() const;
    void set_stop_on_failure(bool stop);
    bool running_here() const;                      // the calling thread is inside a task of this stream
    static bool running_here(const void* context);  // or of any stream of this context

    // For tasks that wait inside run(): blocks until `ready` holds (checked under the process lock, woken by wake()),
    // returns false when the stream is being forced down. While waiting the stream counts as stuck: synchronous copies
    // do not wait for it.
    bool wait_until(bool (*ready)(void*), void* argument);
    static void wake_all_waiters();

    void close(bool force);  // waits for the queue, or drops it; afterwards submit() refuses

  private:
    friend void wait_for_device(int device);
    friend void finish_at_exit() noexcept;
    friend void repair_streams() noexcept;
    static void discard(std::unique_ptr<Task> list) noexcept;

    // Those below need the process lock, or nobody else to be there.
    void append(std::unique_ptr<Task> task);
    std::unique_ptr<Task> pop();
    std::unique_ptr<Task> take_queue();
    std::unique_ptr<Task> finish(int code);
    uint64_t oldest() const;
    bool stuck() const;

    void run_next(Lock& lock);
    bool wait(Lock& lock, int32_t timeout_ms);

    int run_here(Task& task) noexcept;
    bool start_thread();
    void serve(bool until_closed);

    const int device_;
    void* const context_;

    std::unique_ptr<Task> head_;
    Task* tail_ = nullptr;
    Task* running_ = nullptr;  // owned by the thread that runs it
    uint64_t newest_ = 0;      // ticket of the last task submitted
    bool thread_started_ = false, closed_ = false, forced_ = false, stop_on_failure_ = false;
    int error_ = 0;
    bool (*ready_)(void*) = nullptr;  // what the running task waits for
    void* ready_argument_ = nullptr;
    std::condition_variable work_, done_;
    Stream *previous_ = nullptr, *next_ = nullptr;  // all streams of the process, those without a handle included
};

using Streams = Registry<Stream, HandleKind::stream>;

// NULL is the default stream of the thread's current context. Errors: no context 107002, not alive 107017.
Result<std::shared_ptr<Stream>> find_stream(aclrtStream handle);

// All work queued on the streams of a device, except what is stuck behind an event nobody recorded or the program's own
// callback, and (when called from a task) the calling stream itself.
void wait_for_device(int device);

// Blocks the calling thread until `ready` holds: checked under the process lock, woken by Stream::wake_all_waiters().
bool wait_on_host(bool (*ready)(void*), void* argument, int32_t timeout_ms);  // false: expired

}  // namespace gradus
