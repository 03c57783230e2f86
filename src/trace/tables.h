// msprof's tables: what every operator and copy took, and what every function of the interface did.
#pragma once

#include "trace/chrome.h"

namespace gradus::trace {

void write_op_summary(Output& out, const Scene& scene);
void write_api_statistic(Output& out, const Scene& scene);

}  // namespace gradus::trace
