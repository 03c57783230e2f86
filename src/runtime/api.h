// What every extern "C" function of the runtime is wrapped in.
#pragma once

#include <new>

#include "acl/acl_base.h"
#include "base/status.h"

namespace gradus {

// Runs f, which returns a Status, and reports it under the function's name; nothing escapes into C.
template <typename F>
aclError guarded(const char* function, const F& f) noexcept {
    try {
        return report(function, f());
    } catch (const std::bad_alloc&) {
        return report(function, Status(ACL_ERROR_BAD_ALLOC, ""));  // no memory left for words
    } catch (...) {
        return report(function, Status(ACL_ERROR_INTERNAL_ERROR, ""));
    }
}

inline Status not_null(const char* argument, const void* pointer) {
    if (pointer != nullptr) return {};
    return {ACL_ERROR_INVALID_PARAM, concat(argument, ": NULL")};
}

inline Status check_timeout(int32_t timeout_ms) {
    if (timeout_ms == -1 || timeout_ms > 0) return {};
    return {ACL_ERROR_RT_PARAM_INVALID,
            concat("timeout: ", timeout_ms, ", expected -1 (for ever) or a positive number of milliseconds")};
}

// For functions that give back a value: writes it, or passes the error on.
template <typename T, typename Out>
Status store(Result<T> result, Out* out) {
    if (!result.ok()) return result.status();
    *out = static_cast<Out>(*result);
    return {};
}

}  // namespace gradus
