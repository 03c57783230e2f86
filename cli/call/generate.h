// Tensors made up. The same words give the same numbers on every machine: element i depends on the seed, the
// argument's name and i alone, and no math library has a say in it.
#pragma once

#include "cli/call/expression.h"

namespace gradus::cli {

struct Recipe {
    std::string generator;                       // one of generator_names()
    std::map<std::string, std::string> options;  // expressions over sizes
    std::string stream;                          // the argument's name
    uint64_t seed = 0;
};

// seed=TEXT, which may be an expression. Failure(kUsage) unless it is a number from 0 up, as --seed has it.
uint64_t seed_of(const std::string& text, const Sizes& sizes);

// What a recipe may refer to.
struct Surroundings {
    const Sizes& sizes;
    const std::map<std::string, std::vector<int64_t>>& arrays;  // the int arrays of the call, by name
};

// Failure(kUsage) for an unknown generator or option.
void generate(const Tensor& tensor, const Recipe& recipe, const Surroundings& around);

struct GeneratorHelp {
    const char* name;
    const char* options;  // with their defaults
    const char* meaning;
};
const std::vector<GeneratorHelp>& generators();
bool is_generator(const std::string& name);

}  // namespace gradus::cli
