#include "testing/bench/options.h"

#include <sstream>
#include <stdexcept>
#include <string_view>

namespace gradus::bench {
namespace {

std::vector<aclDataType> dtypes_of(const std::string& list) {
    std::vector<aclDataType> dtypes;
    std::istringstream words(list);
    for (std::string word; std::getline(words, word, ',');) {
        bool known = false;
        for (const aclDataType dtype : Options().dtypes) {
            if (word != dtype_text(dtype)) continue;
            dtypes.push_back(dtype);
            known = true;
        }
        if (!known) throw std::invalid_argument("--dtype: '" + word + "', expected bf16, f16 or f32");
    }
    if (dtypes.empty()) throw std::invalid_argument("--dtype: nothing, expected bf16, f16 or f32");
    return dtypes;
}

int number_of(const char* option, const std::string& text) {
    if (text.empty() || text.size() > 4 || text.find_first_not_of("0123456789") != std::string::npos || text == "0")
        throw std::invalid_argument(std::string(option) + ": '" + text + "', expected a number from 1");
    return std::stoi(text);
}

}  // namespace

Options parse_options(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        const std::string_view arg = argv[i];
        const auto value = [&]() -> std::string {
            if (i + 1 == argc) throw std::invalid_argument(std::string(arg) + ": a value must follow");
            return argv[++i];
        };
        if (arg == "--quick")
            options.quick = true;
        else if (arg == "--list")
            options.list = true;
        else if (arg == "--help" || arg == "-h")
            options.help = true;
        else if (arg == "--dtype")
            options.dtypes = dtypes_of(value());
        else if (arg == "--shape")
            options.shape = number_of("--shape", value());
        else if (arg == "--threads")
            options.threads = std::to_string(number_of("--threads", value()));
        else if (arg == "--json")
            options.json = value();
        else if (arg.starts_with("-"))
            throw std::invalid_argument("unknown option " + std::string(arg));
        else
            options.operators.emplace_back(arg);
    }
    return options;
}

const char* dtype_text(aclDataType dtype) {
    switch (dtype) {
        case ACL_BF16:
            return "bf16";
        case ACL_FLOAT16:
            return "f16";
        case ACL_FLOAT:
            return "f32";
        default:
            return "?";
    }
}

}  // namespace gradus::bench
