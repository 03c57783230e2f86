#include <algorithm>

#include "hccl/local.h"
#include "runtime/thread.h"

namespace gradus::hccl {
namespace {

// Behind the process lock.
struct Watch {
    Watched* first = nullptr;
    bool has_thread = false;
    std::condition_variable changed;
};
Watch& all = *new Watch;  // at load, so that no fork meets it half made

[[maybe_unused]] const bool watch_prepared = [] {
    after_fork_in_child([] {
        forget_waiters(all.changed);
        all.has_thread = false;
    });
    return true;
}();

void serve(void*) {
    Lock lock = hold();
    for (;;) {
        Watched* soonest = nullptr;
        for (Watched* w = all.first; w != nullptr; w = w->next)
            if (soonest == nullptr || w->deadline < soonest->deadline) soonest = w;
        if (soonest == nullptr) {
            all.changed.wait(lock);
        } else if (soonest->deadline <= Clock::now()) {
            unwatch(*soonest);
            soonest->expire();
        } else {
            const Clock::time_point deadline = soonest->deadline;  // it may go meanwhile
            all.changed.wait_until(lock, deadline);
        }
    }
}

}  // namespace

void watch(Watched& watched) noexcept {
    if (watched.deadline == Clock::time_point::max()) return;
    watched.watched = true;
    watched.previous = nullptr;
    watched.next = all.first;
    if (all.first != nullptr) all.first->previous = &watched;
    all.first = &watched;
    // without a thread nobody notices that a rank does not come, and everything else works
    if (!all.has_thread) all.has_thread = start_thread("gradus-hccl", serve, nullptr);
    // its deadline is not before those that are waited for, but where time-outs differ
    if (watched.next == nullptr || watched.deadline < watched.next->deadline) all.changed.notify_one();
}

void unwatch(Watched& watched) noexcept {
    if (!watched.watched) return;
    watched.watched = false;
    (watched.previous != nullptr ? watched.previous->next : all.first) = watched.next;
    if (watched.next != nullptr) watched.next->previous = watched.previous;
}

}  // namespace gradus::hccl
