#pragma once

#include "cli/commands/commands.h"

namespace gradus::cli {

// Runs the command that the words ask for. Failure(kUsage) for words that are not understood. The exit code so far:
// not all of stdout may have reached its place.
int run_command_line(int argc, char** argv, Session& session);

}  // namespace gradus::cli
