#include "base/observer.h"

#include <atomic>
#include <utility>

#include "base/lock.h"

namespace gradus {
namespace {

struct Here {
    const char* function = "";
    const void* site = nullptr;
};
constinit thread_local Here here;
constinit std::atomic<uint64_t> subjects = 0;

}  // namespace

constinit Observer* first_observer = nullptr;

void install(Observer& observer) noexcept {
    observer.next_ = first_observer;
    first_observer = &observer;
}

const char* current_function() noexcept { return here.function; }
const void* current_site() noexcept { return here.site; }
uint64_t fresh_subject(uint64_t count) noexcept { return subjects.fetch_add(count, std::memory_order_relaxed) + 1; }

void tell(const TaskInfo* task, void (Observer::*event)(const TaskInfo&)) {
    if (task == nullptr) return;
    const Lock lock = hold();
    observe([&](Observer& o) { (o.*event)(*task); });
}

void ObservedCall::begin(const void* site) noexcept {
    const Here outer = std::exchange(here, {function_, site});
    outer_ = outer.function;
    outer_site_ = outer.site;
    observe([this](Observer& o) { o.on_call(function_); });
}

void ObservedCall::finish(const Status& status) const noexcept {
    observe([&](Observer& o) { o.on_return(function_, status); });
    here = {outer_, outer_site_};
}

}  // namespace gradus
