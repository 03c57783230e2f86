// Streams: FIFO queues of tasks, each with a thread that starts with the first task that needs one.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <optional>

#include "acl/acl_rt.h"
#include "base/registry.h"
#include "base/status.h"

namespace gradus {

class Context;
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

  private:
    friend class Stream;
    std::unique_ptr<Task> next_;
};

class Stream : public std::enable_shared_from_this<Stream> {
  public:
    Stream(int device, void* context) : device_(device), context_(context) {}
    ~Stream();

    int device() const { return device_; }
    void* context() const { return context_; }  // handle: the context may be gone

    // Queues, or runs at once where the task is small and the stream idle. 0, or an error when the stream is closed.
    Status submit(std::unique_ptr<Task> task);

    // timeout_ms −1: for ever. Returns the stream's asynchronous error, or 507046 on expiry.
    int synchronize(int32_t timeout_ms);
    bool idle() const;
    void set_stop_on_failure(bool stop);

    // For tasks that wait inside run(): blocks until `ready` holds (checked under the process lock, woken by wake()),
    // returns false when the stream is being forced down. While waiting the stream counts as stuck: synchronous copies
    // do not wait for it.
    bool wait_until(bool (*ready)(void*), void* argument);
    static void wake_all_waiters();

    void close(bool force);  // waits for the queue, or drops it; afterwards submit() refuses

  private:
    friend void wait_for_device(int device);
    // The implementation keeps its queue, thread and condition variables here.
    struct State;
    std::unique_ptr<State> state_;
    int device_;
    void* context_;
};

using Streams = Registry<Stream, HandleKind::stream>;

// NULL is the default stream of the thread's current context. Errors: no context 107002, not alive 107017.
Result<std::shared_ptr<Stream>> find_stream(aclrtStream handle);

// All work queued on the streams of a device, except what is stuck behind an event nobody recorded, a callback nobody
// processed, or (when called from a task) the calling stream itself.
void wait_for_device(int device);

}  // namespace gradus
