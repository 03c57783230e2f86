// What the extern "C" functions of aclnn share.
#pragma once

#include "aclnn/aclnn_base.h"
#include "base/boundary.h"

namespace gradus {

inline constexpr BoundaryCodes kAclnn{ACLNN_ERR_PARAM_NULLPTR, ACLNN_ERR_RUNTIME_ERROR, ACLNN_ERR_INNER};

inline Status not_alive(const char* type) { return {ACLNN_ERR_PARAM_NULLPTR, concat("not a live ", type)}; }

}  // namespace gradus
