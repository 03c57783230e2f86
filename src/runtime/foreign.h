// A real CANN in the same process: two libraries with the same names would mix their handles, so we say so instead.
#pragma once

#include "base/status.h"

namespace gradus {

// Whether an object with one of CANN's names was loaded that did not come with this library. Looked up once, by the
// first call: what is loaded later goes unnoticed.
Status check_no_foreign_cann(int code);

}  // namespace gradus
