// Where in the program an address is. Needs no memory of malloc's, so that a signal handler may ask.
#pragma once

#include <cstdint>

#include "base/text.h"

namespace gradus {

struct Place {
    const char* file;      // nullptr: not known
    int line;              // 0: not known, and the file is the program's or a library's
    const char* function;  // as the linker calls it; nullptr: not known
    uintptr_t offset;      // from the function's begin, or the file's, where there is no line
};

// The instruction at `pc`, innermost first: several places where functions were inlined, none where nothing is known.
using TakePlace = void (*)(void* to, const Place& place);
void find_places(uintptr_t pc, TakePlace take, void* to) noexcept;

// Of the call that returns there: "main.cpp:41 forward", functions inlined into others with who called them;
// "forward+0x41" or "program+0x1141" where nothing more is known; empty for nullptr.
Text place_of(const void* return_address) noexcept;

}  // namespace gradus
