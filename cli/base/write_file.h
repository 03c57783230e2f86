// Files that the tool writes: whole, or not at all.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gradus::cli {

// Whether write_file can succeed, as far as that can be told without writing: Failure(kEnvironment) if not.
void expect_writable(const std::string& path);
// The parts one after the other, through a temporary file beside it, so that a reader never sees half of one; straight
// into what is no regular file, such as a pipe. Failure(kEnvironment) with the reason.
void write_file(const std::string& path, const std::vector<std::string_view>& parts);

}  // namespace gradus::cli
