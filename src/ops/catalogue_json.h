// An operator's data as JSON.
#pragma once

#include <string>

#include "aclnn/operator.h"

namespace gradus {

const char* kind_name(gradusKind kind);
std::string operator_json(const Operator& op);

}  // namespace gradus
