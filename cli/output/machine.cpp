#include "cli/output/machine.h"

#include <fmt/core.h>

#include <cstdlib>
#include <fstream>

#include "acl/acl.h"
#include "gradus/gradus.h"

namespace gradus::cli {
namespace {

std::string cpu_model() {
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);)
        if (line.starts_with("model name") && line.find(": ") != std::string::npos)
            return line.substr(line.find(": ") + 2);
    return "unknown CPU";
}

}  // namespace

nlohmann::json Machine::json() const {
    return {{"cpu", cpu}, {"isa", isa}, {"threads", threads}, {"load", load}, {"library", library}};
}

std::string Machine::line() const {
    return fmt::format("Gradus {} on {}, {}, {} thread{}", library, cpu, isa, threads, threads == 1 ? "" : "s");
}

Machine machine() {
    double load = 0;
    std::ifstream("/proc/loadavg") >> load;
    return {cpu_model(), gradusGetOption("max_isa"), gradusVersion(), std::atoi(gradusGetOption("num_threads")), load};
}

std::vector<std::string> instruction_sets() {
    const std::string before = gradusGetOption("max_isa");
    std::vector<std::string> sets;
    for (const char* name : {"scalar", "neon", "avx2", "avx512", "avx512_bf16", "amx"})
        if (gradusSetOption("max_isa", name) == 0) sets.emplace_back(name);
    gradusSetOption("max_isa", before.c_str());
    aclGetRecentErrMsg();  // the refusals were asked for
    return sets;
}

}  // namespace gradus::cli
