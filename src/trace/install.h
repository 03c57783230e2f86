// GRADUS_TRACE=file: who is asked to watch from the start, and when the file is written.
#pragma once

namespace gradus::trace {

// aclFinalize has succeeded; without the lock. For programs that end without any handler: a program that finalises
// again and again writes only when as much again has happened.
void write_at_finalize() noexcept;

}  // namespace gradus::trace
