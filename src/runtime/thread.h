// Threads of the library's own. They take none of the program's signals, and compute with the default rounding and
// gradual underflow, whatever the thread that starts them has set.
#pragma once

namespace gradus {

// Runs body(argument) on a new detached thread; false when none can be had, as in a container at its limit.
bool start_thread(const char* name, void (*body)(void*), void* argument) noexcept;

}  // namespace gradus
