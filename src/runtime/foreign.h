// A real CANN in the same process: two libraries with the same names would mix their handles, so we say so instead.
#pragma once

#include <string>

#include "base/status.h"

namespace gradus {

// Whether an object with one of CANN's names is loaded that did not come with this library; `path` is its file.
bool foreign_cann(std::string& path);
Status check_no_foreign_cann();  // 500000

}  // namespace gradus
