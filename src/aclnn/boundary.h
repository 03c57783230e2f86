// The C boundary of aclnn: whatever happens inside, a status comes out, and a message stays.
#pragma once

#include <exception>
#include <new>

#include "aclnn/aclnn_base.h"
#include "base/status.h"

namespace gradus {

// Runs f, which returns a Status, and reports it under the function's name.
template <typename F>
aclnnStatus guarded(const char* function, const F& f) noexcept {
    try {
        return report(function, f());
    } catch (const std::bad_alloc&) {
        return report(function, Status(ACLNN_ERR_RUNTIME_ERROR, ""));  // no memory left for words
    } catch (...) {
        return report(function, Status(ACLNN_ERR_INNER, ""));
    }
}

}  // namespace gradus
