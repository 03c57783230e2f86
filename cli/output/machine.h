// What the tool runs on, as reports name it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gradus::cli {

struct Machine {
    std::string cpu, isa, library;
    int threads;
    double load;  // runnable threads of all processes, mean of a minute
    nlohmann::json json() const;
    std::string line() const;  // Gradus 0.1.0 on AMD EPYC, avx2, 2 threads
};
Machine machine();

// What the option max_isa takes on this CPU, the least first.
std::vector<std::string> instruction_sets();

}  // namespace gradus::cli
