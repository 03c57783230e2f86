// Variables that a layer above reads at load.
#pragma once

#include "base/status.h"

namespace gradus {

// One of them has a wrong value: an error of whoever needs the configuration (base/config.h).
void refuse_environment(const Status& error);

}  // namespace gradus
