// The queue of a stream. Its rules:
//
// 1. First in, first out, one at a time. A task is begun by begin() and ended by finish(); between the two it is the
//    running one, and its runner owns it.
// 2. Any thread may run the front: the stream's own; the one that submits, where the task is small and nothing is
//    before it, or where no thread can be had; and one that waits for the stream, which takes on what nobody has begun.
//    What may wait for other processes is for the first and, where it has no other limit than the task's, the last.
// 3. A task is begun only when it is ready. One that waits for an event stays in front, unready, and holds back what is
//    behind it without occupying a thread.
// 4. Tickets ascend over all queues of the process, so that "all that was submitted before now" is a number.
// 5. A task is told when it has come to the front: what it has to do with other streams begins there (arrive()).
// 6. In mode stop a failure drops what is queued, and the queue refuses work until the failure has been read.
//
// Everything here is behind the process lock, except running and destroying tasks: what they own may want the lock.
#pragma once

#include <cstdint>
#include <memory>

#include "base/observer.h"
#include "base/text.h"

namespace gradus {

class Stream;

// A piece of queued work. It owns all it needs: tensors may be destroyed and memory freed as soon as it is queued.
class Task {
  public:
    Task() = default;
    virtual ~Task() = default;
    Task(const Task&) = delete;
    Task& operator=(const Task&) = delete;

    // Runs without the lock. Returns 0 or the stream's new error.
    virtual int run() noexcept = 0;
    // With the lock, at the moment at which the task is over: what tells others so belongs here, or they would find the
    // stream still busy with it.
    virtual void ended() noexcept {}
    // Called instead of both, without the lock, when the task is dropped: forced destruction, a fork, mode stop.
    virtual void abandon() noexcept {}
    // After run() failed, where there is more to say than its code.
    virtual Text failure() const noexcept { return {}; }
    // With the lock, once: all that was queued before it has ended.
    virtual void arrive() noexcept {}
    // With the lock: whether run() would have to wait, and if so, for the work of which stream; nullptr: for the
    // program.
    virtual bool ready() const noexcept { return true; }
    virtual const Stream* waits_for() const noexcept { return nullptr; }

    // Small enough that waking the stream's thread would cost more than the work.
    bool small = false;
    // Runs the program's own code, which may take for ever: neither exit nor forced destruction waits for it.
    bool calls_user = false;
    // run() may wait for other processes: for the stream's own thread or one that waits for the stream, never for one
    // that has more to do; and not waited for at exit either.
    bool may_wait = false;
    bool may_take_for_ever() const { return calls_user || may_wait; }
    // Where somebody observes: what it is.
    std::unique_ptr<TaskInfo> info;

  private:
    friend class TaskQueue;
    std::unique_ptr<Task> next_;
    uint64_t ticket_ = 0;
};

class TaskQueue {
  public:
    void push(std::unique_ptr<Task> task) noexcept;
    // Two tasks that nothing may come between.
    void push(std::unique_ptr<Task> task, std::unique_ptr<Task> second) noexcept;

    const Task* front() const { return head_.get(); }
    const Task* running() const { return running_; }
    bool idle() const { return running_ == nullptr && !head_; }
    bool runnable() const { return running_ == nullptr && head_ && head_->ready(); }

    std::unique_ptr<Task> begin() noexcept;
    // Books the end of the running task; returns what a failure drops.
    [[nodiscard]] std::unique_ptr<Task> finish(int code, const Task& task) noexcept;
    [[nodiscard]] std::unique_ptr<Task> drop() noexcept;
    // After a fork: the running task stays with the thread that ran it, which is not in this process.
    Task* lose_running() noexcept;
    // Abandons a chain of dropped tasks. Without the lock.
    static void discard(std::unique_ptr<Task> list) noexcept;

    static uint64_t last_ticket() noexcept;         // of all queues
    uint64_t newest() const { return newest_; }     // the ticket that was submitted last
    bool finished(uint64_t ticket) const noexcept;  // whether all up to this ticket has ended

    int error() const { return error_; }
    const Text& error_text() const { return error_text_; }  // of the error, as long as there is no other
    int take_error() noexcept;
    void set_stop_on_failure(bool stop) { stop_on_failure_ = stop; }
    bool refuses() const { return error_ != 0 && stop_on_failure_; }

  private:
    std::unique_ptr<Task> head_;
    Task* tail_ = nullptr;  // while there is a head
    Task* running_ = nullptr;
    uint64_t newest_ = 0;
    int error_ = 0;  // the first since it was read
    Text error_text_;
    bool stop_on_failure_ = false;
};

}  // namespace gradus
