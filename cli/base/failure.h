// How the tool ends when it cannot do what it was asked to.
#pragma once

#include <stdexcept>
#include <string>

namespace gradus::cli {

// Exit codes of every subcommand.
enum Exit { kRight = 0, kMismatch = 1, kUsage = 2, kUnsupported = 3, kEnvironment = 4 };

// Thrown anywhere, caught in main: the message goes to stderr (or into the JSON), the code to the shell.
class Failure : public std::runtime_error {
  public:
    Failure(Exit code, const std::string& message) : std::runtime_error(message), exit(code) {}
    const Exit exit;
};

}  // namespace gradus::cli
