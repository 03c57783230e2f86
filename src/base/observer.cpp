#include "base/observer.h"

#include <atomic>
#include <utility>

#include "base/lock.h"

namespace gradus {
namespace {

constinit thread_local const char* function_here = "";
constinit thread_local const void* site_here = nullptr;
constinit std::atomic<uint64_t> subjects = 0;

}  // namespace

constinit Observer* first_observer = nullptr;

void install(Observer& observer) noexcept {
    observer.next_ = first_observer;
    first_observer = &observer;
}

const char* current_function() noexcept { return function_here; }
const void* current_site() noexcept { return site_here; }
uint64_t fresh_subject(uint64_t count) noexcept { return subjects.fetch_add(count, std::memory_order_relaxed) + 1; }

void tell(const TaskInfo* task, void (Observer::*event)(const TaskInfo&)) {
    if (task == nullptr) return;
    const Lock lock = hold();
    observe([&](Observer& o) { (o.*event)(*task); });
}

void ObservedCall::begin(const void* site) noexcept {
    outer_ = std::exchange(function_here, function_);
    outer_site_ = std::exchange(site_here, site);
    observe([this](Observer& o) { o.on_call(function_); });
}

void ObservedCall::finish(const Status& status) const noexcept {
    observe([&](Observer& o) { o.on_return(function_, status); });
    function_here = outer_;
    site_here = outer_site_;
}

}  // namespace gradus
