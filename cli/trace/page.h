// The timeline as one HTML file.
#pragma once

#include "cli/trace/timeline.h"

namespace gradus::cli {

// line: the command that made it.
void write_trace_page(const std::string& path, const Timeline& timeline, const std::string& line);

std::string time_text(double ns);  // "1.23 ms"

}  // namespace gradus::cli
