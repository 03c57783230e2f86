// The calls of the interface that the calling thread is in: a callback calls from inside one.
#pragma once

#include "sanitize/sanitizer.h"

namespace gradus::sanitize {

struct Calls {
    static constexpr int kMost = 4;
    Here here[kMost];
    int depth = 0;  // deeper ones share the last place
    int in_callback = 0;

    Here& enter() { return here[depth++ < kMost ? depth - 1 : kMost - 1]; }
    Here& innermost() { return here[depth <= kMost ? depth - 1 : kMost - 1]; }
    void leave() { --depth; }
};

extern constinit thread_local Calls calls;

}  // namespace gradus::sanitize
