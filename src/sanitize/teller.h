// The thread that tells what a handler of signals has found. A handler may run on a few KiB of the program's own, and
// inside the allocator: it leaves a wish here, and waits a while for it.
#pragma once

namespace gradus::sanitize {

// Unless it runs already. Not from a handler.
void start_teller() noexcept;
bool teller_wanted() noexcept;  // since it was: somebody has called

// From a handler: has the sanitizer tell the touches that were left for it. Nobody there, or too late: they are told at
// the next call.
void wish_for_touches() noexcept;
// The same for the summary, before the process dies.
void wish_for_summary() noexcept;

void forget_teller() noexcept;  // in the child of a fork, which has not got it

}  // namespace gradus::sanitize
