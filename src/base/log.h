// GRADUS_LOG: lines on stderr, one write each, so that lines of several threads do not mix.
#pragma once

#include "base/text.h"

namespace gradus {

enum class LogLevel { off, error, info, trace };

bool log_enabled(LogLevel level) noexcept;
void log(LogLevel level, const Text& line) noexcept;
void log_line(const Text& line) noexcept;  // of whatever level: someone asked for it

}  // namespace gradus
