#include "cli/call/words.h"

#include <fmt/core.h>

#include "cli/base/failure.h"
#include "cli/call/generate.h"

namespace gradus::cli {
namespace {

bool ends_with(const std::string& text, const std::string& end) {
    return text.size() > end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// Where the base ends. A path may have brackets and colons of its own, so its extension decides.
size_t end_of_base(const std::string& value) {
    for (const char* extension : {".npy", ".bin"}) {
        const size_t at = value.rfind(extension);
        if (at == std::string::npos) continue;
        const size_t end = at + 4;
        if (end == value.size() || value[end] == ':' || value[end] == '[') return end;
    }
    const size_t end = std::min(value.find_first_of("[:,"), value.size());
    const bool path = !is_generator(value.substr(0, end)) && end > 0 && value.find('/') != std::string::npos;
    return path ? value.size() : end;
}

}  // namespace

Word parse_word(const std::string& text) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
        throw Failure(kUsage, fmt::format("'{}', expected name=value", text));
    Word word{text.substr(0, equals), text.substr(equals + 1), {}};
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
    while (at < value.size() && value[at] != ',') {
        if (value[at] == '[' && !wish.shape) {
            const size_t end = value.find(']', at);
            if (end == std::string::npos) throw Failure(kUsage, fmt::format("'{}': ']' is missing", value));
            wish.shape = parse_list(value.substr(at, end + 1 - at), sizes);
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
    return wish;
}

bool is_raw_file(const std::string& path) { return ends_with(path, ".bin"); }

bool is_file(const std::string& base) {
    return !is_generator(base) && (ends_with(base, ".npy") || is_raw_file(base) || base.find('/') != std::string::npos);
}

std::string quoted(const std::string& word) {
    if (word.find_first_of(" []()*?;&|<>$'\"\\") == std::string::npos) return word;
    std::string text = "'";
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return text + "'";
}

}  // namespace gradus::cli
