#include "cli/commands/selection.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/base/failure.h"
#include "cli/base/text.h"
#include "cli/call/expression.h"

namespace gradus::cli {
Selected split_selection(const std::vector<std::string>& words) {
    Selected found;
    const auto add = [&found](const Operator& op) {
        if (std::ranges::find(found.operators, &op) == found.operators.end()) found.operators.push_back(&op);
    };
    bool named = false;
    for (const std::string& word : words) {
        if (word.find('=') != std::string::npos) {
            found.arguments.push_back(word);
            continue;
        }
        named = true;
        const std::string plain = lower(word.starts_with("aclnn") ? word.substr(5) : word);
        const auto whole = [&plain](const Operator& op) { return lower(op.name) == plain; };
        const auto begins = [&plain](const Operator& op) { return lower(op.name).starts_with(plain); };
        if (word.empty() || std::ranges::any_of(catalogue(), whole) || std::ranges::none_of(catalogue(), begins)) {
            add(find_operator(word));
            continue;
        }
        for (const Operator& op : catalogue())
            if (begins(op)) add(op);
    }
    if (!named)
        for (const Operator& op : catalogue()) add(op);
    if (!found.arguments.empty() && found.operators.size() != 1)
        throw Failure(kUsage, fmt::format("{}: arguments belong to one operator, {} are meant", found.arguments.front(),
                                          found.operators.size()));
    return found;
}

std::vector<std::string> float_dtypes(const Operator& op) {
    std::vector<std::string> dtypes;
    for (const Argument& argument : op.arguments) {
        if (argument.direction != Argument::input || argument.example.empty()) continue;
        std::vector<std::string> own;
        for (const aclDataType dtype : {ACL_BF16, ACL_FLOAT16, ACL_FLOAT})
            if (std::ranges::count(argument.dtypes, dtype) > 0) own.emplace_back(dtype_name(dtype));
        if (own.size() > dtypes.size()) dtypes = own;  // some are f32 whatever the others are
    }
    return dtypes;
}

bool says(const std::vector<std::string>& words, const std::string& name) {
    return std::ranges::any_of(words, [&](const std::string& word) { return word.starts_with(name + "="); });
}

bool is_typed(const std::vector<std::string>& words) {
    return says(words, "dtype") ||
           std::ranges::any_of(words, [](const std::string& word) { return word.find(':') != std::string::npos; });
}

std::vector<std::string> with_seed(std::vector<std::string> words, std::optional<int64_t> seed) {
    if (seed && !says(words, "seed")) words.push_back(fmt::format("seed={}", *seed));
    return words;
}

}  // namespace gradus::cli
