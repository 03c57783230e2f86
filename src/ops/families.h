// Every family brings its operators; the list itself is made from GRADUS_FAMILIES in CMakeLists.txt.
#pragma once

#include <span>

#include "aclnn/operator.h"

namespace gradus {

#define GRADUS_FAMILY(name) std::span<const Operator> name##_operators();
#include "families.inc"
#undef GRADUS_FAMILY

}  // namespace gradus
