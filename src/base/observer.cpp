#include "base/observer.h"

#include <atomic>

#include "base/lock.h"

namespace gradus {
namespace {

constinit thread_local const char* function_here = "";
constinit std::atomic<uint64_t> subjects = 0;

}  // namespace

constinit Observer* first_observer = nullptr;

void install(Observer& observer) noexcept {
    observer.next_ = first_observer;
    first_observer = &observer;
}

const char* current_function() noexcept { return function_here; }
uint64_t fresh_subject() noexcept { return subjects.fetch_add(1, std::memory_order_relaxed) + 1; }

void tell(const TaskInfo* task, void (Observer::*event)(const TaskInfo&)) {
    if (task == nullptr) return;
    const Lock lock = hold();
    observe([&](Observer& o) { (o.*event)(*task); });
}

void ObservedCall::begin() noexcept {
    outer_ = function_here;
    function_here = function_;
    observe([this](Observer& o) { o.on_call(function_); });
}

void ObservedCall::finish(const Status& status) const noexcept {
    observe([&](Observer& o) { o.on_return(function_, status); });
    function_here = outer_;
}

}  // namespace gradus
