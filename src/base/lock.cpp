#include "base/lock.h"

#include <pthread.h>

#include <array>
#include <new>

namespace gradus {
namespace {

constinit std::mutex the_lock;
constinit std::array<void (*)(), 8> repairs{};
constinit size_t repair_count = 0;

void before() { the_lock.lock(); }
void in_parent() { the_lock.unlock(); }
void in_child() {
    the_lock.unlock();
    for (size_t i = 0; i < repair_count; ++i) repairs[i]();
}

[[maybe_unused]] const int registered = pthread_atfork(before, in_parent, in_child);  // at load

}  // namespace

std::mutex& process_lock() noexcept { return the_lock; }

void after_fork_in_child(void (*repair)()) noexcept { repairs[repair_count++] = repair; }

void forget_waiters(std::condition_variable& changed) noexcept { new (&changed) std::condition_variable; }

}  // namespace gradus
