// One lock for all bookkeeping of the process: options, handles, allocations, queues, workers. It is held for
// nanoseconds (microseconds while a thread is started), never while work runs or memory is mapped, and never taken
// twice. Being the only one, it is all that a fork has to hold still: the child gets it free and every table behind it
// whole. For the same reason nothing in the library is made by a guarded static on its first use: a fork may come while
// another thread is in there, and the child would wait for that thread for ever.
#pragma once

#include <condition_variable>
#include <mutex>

namespace gradus {

std::mutex& process_lock() noexcept;
using Lock = std::unique_lock<std::mutex>;
inline Lock hold() { return Lock(process_lock()); }

// Registers a repair that runs in the child of every later fork, in one thread, with the lock free again.
void after_fork_in_child(void (*repair)()) noexcept;
// For repairs: made anew without being destroyed, because it remembers waiters that will never wake.
void forget_waiters(std::condition_variable& changed) noexcept;

}  // namespace gradus
