// What the extern "C" functions of the runtime share.
#pragma once

#include "acl/acl_base.h"
#include "base/boundary.h"
#include "base/status.h"

namespace gradus {

inline constexpr BoundaryCodes kAcl{ACL_ERROR_INVALID_PARAM, ACL_ERROR_BAD_ALLOC, ACL_ERROR_INTERNAL_ERROR};

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
