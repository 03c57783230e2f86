// What is to be done before a signal ends the process: the timeline's file is written, the sanitizer's summary is told.
#pragma once

namespace gradus {

// At load. `say` runs in the signal's handler, on whatever stack the program gives it. Signals that the program, or
// whoever was there before, has a handler for are left alone.
void before_fatal_signals(void (*say)()) noexcept;

}  // namespace gradus
