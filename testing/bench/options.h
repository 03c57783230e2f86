// The command line of gradus_bench.
#pragma once

#include <string>
#include <vector>

#include "acl/acl.h"

namespace gradus::bench {

struct Options {
    std::vector<std::string> operators;  // names as given; none: all
    std::vector<aclDataType> dtypes = {ACL_BF16, ACL_FLOAT16, ACL_FLOAT};
    std::string json;     // file to write, or none
    std::string threads;  // as the library's option, or empty
    int shape = 0;        // from 1; 0: all
    bool quick = false, list = false, help = false;
};

inline constexpr char kUsage[] =
    "usage: gradus_bench [options] [operator...]\n"
    "Runs operators and the limit this machine sets them in turn, and prints which fraction of the limit they reach.\n"
    "  --quick            few rounds\n"
    "  --dtype LIST       of bf16, f16, f32, with commas between; all unless given\n"
    "  --shape N          the Nth shape of each operator only, as --list counts them\n"
    "  --threads N        threads of the operator and of the limit; unless given, the CPUs of this process\n"
    "  --json FILE        write everything measured there as well\n"
    "  --list             show the shapes and run nothing\n"
    "An operator is a name such as SwiGluGrad, or the beginning of one.\n";

// Throws std::invalid_argument with a message for the user.
Options parse_options(int argc, char** argv);

const char* dtype_text(aclDataType dtype);

}  // namespace gradus::bench
