// The calls of the interface that the calling thread is in: a callback calls from inside one.
#pragma once

#include <string_view>

#include "sanitize/sanitizer.h"

namespace gradus::sanitize {

struct Calls {
    static constexpr int kMost = 4;
    Here here[kMost];
    int depth = 0;  // deeper ones share the last place
    unsigned called = 0;
    int in_callback = 0;
    int in_host_function = 0;  // of those: the device calls it on a thread of its own, and it may not call the device
    int outside = 0;           // the depth at which the callback began

    Here& enter() { return here[depth++ < kMost ? depth - 1 : kMost - 1]; }
    Here& innermost() { return here[depth <= kMost ? depth - 1 : kMost - 1]; }
    void leave() { --depth; }

    void begin_callback() {
        ++in_callback;
        outside = depth;
    }
    void end_callback() {
        if (--in_callback == 0) outside = 0;
    }
    // Whether the library works, and not the program.
    bool inside() const { return depth > outside; }
};

// Functions that ask for the last error, which is no use of the device.
bool reads_errors(std::string_view function);

extern constinit thread_local Calls calls;

}  // namespace gradus::sanitize
