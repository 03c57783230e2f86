// A case: one call as files that another kernel can read, and case.json that says all the rest.
#pragma once

#include "cli/call/call.h"

namespace gradus::cli {

// DIR/name.npy for every input, and DIR/case.json: operator, attributes, seed, limits and version. Makes the directory.
void write_case(const Call& call, const std::string& directory);

struct Case {
    std::string op;
    std::vector<std::string> words;                   // of the call
    std::string limits = {};                          // on or off, as they were when it was made; empty: as they are
    std::map<std::string, std::string> origins = {};  // of the arguments, as the call that made it knew them
};
// Failure(kUsage) for whatever is not such a directory.
Case read_case(const std::string& directory);

}  // namespace gradus::cli
