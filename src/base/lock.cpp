#include "base/lock.h"

#include <pthread.h>

#include <array>
#include <atomic>

namespace gradus {
namespace {

constinit std::mutex the_lock;
constinit std::array<void (*)(), 8> repairs{};
constinit int repair_count = 0;
constinit std::atomic<bool> forked = false;

void before() { the_lock.lock(); }
void in_parent() { the_lock.unlock(); }
void in_child() {
    forked = true;
    the_lock.unlock();
    for (int i = 0; i < repair_count; ++i) repairs[static_cast<size_t>(i)]();
}

}  // namespace

std::mutex& process_lock() {
    static const int registered = pthread_atfork(before, in_parent, in_child);
    (void)registered;
    return the_lock;
}

void after_fork_in_child(void (*repair)()) {
    const Lock lock = hold();
    repairs.at(static_cast<size_t>(repair_count++)) = repair;
}

bool is_forked_child() { return forked; }

}  // namespace gradus
