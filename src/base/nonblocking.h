// What a function promises of itself, in words that RealtimeSanitizer checks while tests run (./build.sh check
// alloc-free): neither it nor anything below it allocates. Other builds see nothing of it.
#pragma once

#ifdef __has_feature
#if __has_feature(realtime_sanitizer)
#define GRADUS_REALTIME_SANITIZER
#endif
#endif

#ifdef GRADUS_REALTIME_SANITIZER
#include <sanitizer/rtsan_interface.h>

// Behind a function's parameters and noexcept.
#define GRADUS_NONBLOCKING [[clang::nonblocking]]

namespace gradus {
// While it lives, this thread may allocate nevertheless: for what is made once, or where somebody asked for more.
using MayBlock = __rtsan::ScopedDisabler;
}  // namespace gradus

#else
#define GRADUS_NONBLOCKING

namespace gradus {
struct MayBlock {
    MayBlock() {}  // a variable that is only there to live
};
}  // namespace gradus
#endif
