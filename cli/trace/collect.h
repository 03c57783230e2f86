// Runs a program and puts what its processes have written into one set of files.
#pragma once

#include <string>
#include <vector>

namespace gradus::cli {

struct Traced {
    int exit;                        // of the program, as a shell would have it
    int processes;                   // that made calls; 0: there is no file
    std::vector<std::string> files;  // the timeline first
};

// memory_limit: GB/s. The program's input and output are this process's own; quiet_stdout: what it writes to stdout
// goes to stderr. Failure(kEnvironment) if it cannot be run or the files cannot be written.
Traced run_traced(const std::vector<std::string>& program, const std::string& file, double memory_limit,
                  bool quiet_stdout);

}  // namespace gradus::cli
