#include "cli/call/assignment.h"

#include <fmt/core.h>

#include "cli/base/failure.h"
#include "cli/base/text.h"
#include "cli/call/generate.h"

namespace gradus::cli {
namespace {

// Where the base ends. A path may have brackets and colons of its own, so its extension decides.
size_t end_of_base(const std::string& value) {
    for (const char* extension : {".npy", ".bin", ".npz"}) {
        const size_t at = value.rfind(extension);
        if (at == std::string::npos) continue;
        size_t end = at + 4;
        if (value.substr(at, 5) == ".npz/") end = std::min(value.find_first_of("[:", end), value.size());
        if (end == value.size() || value[end] == ':' || value[end] == '[') return end;
    }
    const size_t end = std::min(value.find_first_of("[:,"), value.size());
    const bool path = !is_generator(value.substr(0, end)) && end > 0 && value.find('/') != std::string::npos;
    return path ? value.size() : end;
}

bool is_slice(const std::string& brackets) {
    return brackets.find(':') != std::string::npos || brackets.find("...") != std::string::npos;
}

}  // namespace

Assignment parse_assignment(const std::string& text) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
        throw Failure(kUsage, fmt::format("'{}', expected name=value", text));
    Assignment word{text.substr(0, equals), text.substr(equals + 1), {}};
    const size_t colon = word.name.find(':');
    if (colon == std::string::npos) return word;
    word.dtype = dtype_of(word.name.substr(colon + 1));
    word.name.resize(colon);
    return word;
}

std::vector<int64_t> parse_list(const std::string& value, const Sizes& sizes) {
    if (value.size() < 2 || value.front() != '[' || value.back() != ']')
        throw Failure(kUsage, fmt::format("'{}', expected a list such as [128,256]", value));
    std::vector<int64_t> list;
    for (const std::string& part : split(value.substr(1, value.size() - 2), ','))
        list.push_back(evaluate_integer(part, sizes));
    return list;
}

Wish parse_wish(const std::string& value, const Sizes& sizes) {
    size_t at = end_of_base(value);
    Wish wish;
    wish.base = value.substr(0, at);
    const bool says_shape = is_file(wish.base) && !is_raw_file(wish.base);  // then brackets are left for a part of it
    while (at < value.size() && value[at] != ',') {
        if (value[at] == '[') {
            const size_t end = value.find(']', at);
            if (end == std::string::npos) throw Failure(kUsage, fmt::format("'{}': ']' is missing", value));
            const std::string brackets = value.substr(at, end + 1 - at);
            const bool part = is_slice(brackets) || says_shape || (is_raw_file(wish.base) && wish.shape);
            if (part ? wish.slice.has_value() : wish.shape.has_value())
                throw Failure(kUsage, fmt::format("'{}': '{}' is not expected there", value, brackets));
            if (part)
                wish.slice = brackets.substr(1, brackets.size() - 2);
            else
                wish.shape = parse_list(brackets, sizes);
            at = end + 1;
        } else if (value[at] == ':' && !wish.dtype) {
            const size_t end = std::min(value.find_first_of("[,", at), value.size());
            wish.dtype = dtype_of(value.substr(at + 1, end - at - 1));
            at = end;
        } else {
            throw Failure(kUsage, fmt::format("'{}': '{}' is not expected there", value, value.substr(at)));
        }
    }
    for (const std::string& option : split(at < value.size() ? value.substr(at + 1) : "", ',')) {
        const size_t equals = option.find('=');
        if (equals == std::string::npos)
            throw Failure(kUsage, fmt::format("'{}': '{}', expected option=value", value, option));
        wish.options[option.substr(0, equals)] = option.substr(equals + 1);
    }
    if (wish.slice && !is_file(wish.base))
        throw Failure(kUsage, fmt::format("'{}': [{}] is a part of a file, and this is none", value, *wish.slice));
    return wish;
}

bool is_raw_file(const std::string& path) { return path.ends_with(".bin"); }

bool is_file(const std::string& base) {
    return base == "-" || base.ends_with(".npy") || base.ends_with(".npz") || is_raw_file(base) ||
           (!is_generator(base) && base.find('/') != std::string::npos);
}

}  // namespace gradus::cli
