// Where in the program an address is, in words. Needs no memory of malloc's, so that a signal handler may ask.
#pragma once

#include "base/text.h"

namespace gradus {

// Of the call that returns there: "main.cpp:41 forward", functions inlined into others with who called them;
// "forward+0x41" or "program+0x1141" where nothing more is known; empty for nullptr.
Text place_of(const void* return_address) noexcept;

}  // namespace gradus
