// One lock for all bookkeeping of the process: options, handles, allocations, stream queues. It is held for
// nanoseconds, never while work runs or memory is mapped, and never taken twice. Being the only one, it is all that a
// fork has to hold still: the child gets it free and every table behind it whole.
#pragma once

#include <mutex>

namespace gradus {

std::mutex& process_lock();
using Lock = std::unique_lock<std::mutex>;
inline Lock hold() { return Lock(process_lock()); }

// Registers a repair that runs in the child of every later fork, in one thread, with the lock free again.
void after_fork_in_child(void (*repair)());
bool is_forked_child();

}  // namespace gradus
