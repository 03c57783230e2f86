#include "runtime/queue.h"

#include <utility>

#include "base/lock.h"

namespace gradus {
namespace {

constinit uint64_t tickets = 0;

}  // namespace

void TaskQueue::push(std::unique_ptr<Task> task) noexcept {
    newest_ = task->ticket_ = ++tickets;
    if (task->info) task->info->ticket = newest_;
    Task* const last = task.get();
    const bool in_front = idle();
    (head_ ? tail_->next_ : head_) = std::move(task);
    tail_ = last;
    if (in_front) last->arrive();
}

void TaskQueue::push(std::unique_ptr<Task> task, std::unique_ptr<Task> second) noexcept {
    push(std::move(task));
    if (second) push(std::move(second));
}

std::unique_ptr<Task> TaskQueue::begin() noexcept {
    std::unique_ptr<Task> task = std::move(head_);
    head_ = std::move(task->next_);
    running_ = task.get();
    return task;
}

std::unique_ptr<Task> TaskQueue::finish(int code, const Task& task) noexcept {
    running_ = nullptr;
    if (code != 0 && error_ == 0) {
        error_ = code;
        error_text_ = task.failure();
    }
    if (code != 0 && stop_on_failure_) return drop();
    if (head_) head_->arrive();
    return nullptr;
}

std::unique_ptr<Task> TaskQueue::drop() noexcept { return std::move(head_); }

Task* TaskQueue::lose_running() noexcept { return std::exchange(running_, nullptr); }

void TaskQueue::discard(std::unique_ptr<Task> list) noexcept {
    while (list) {  // one by one: a long chain of destructors would overflow the stack
        list->abandon();
        if (list->info && list->info->ticket != 0) {
            const Lock lock = hold();
            observe([&](Observer& o) { o.on_task_dropped(*list->info); });
        }
        list = std::move(list->next_);
    }
}

uint64_t TaskQueue::last_ticket() noexcept { return tickets; }

bool TaskQueue::finished(uint64_t ticket) const noexcept {
    if (running_ != nullptr) return running_->ticket_ > ticket;
    return !head_ || head_->ticket_ > ticket;
}

int TaskQueue::take_error() noexcept { return std::exchange(error_, 0); }

}  // namespace gradus
