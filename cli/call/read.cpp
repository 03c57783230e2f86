// From words to what they ask for.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/call/builder.h"
#include "cli/tensor/files.h"

namespace gradus::cli {
namespace {

std::vector<std::string> sizes_of(const Operator& op) {
    std::vector<std::string> names;
    const auto add = [&names](const std::vector<std::string>& more) {
        for (const std::string& name : more)
            if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    };
    for (const Argument& argument : op.arguments) {
        add(size_names(argument.shape));
        if (is_reference(argument.example))
            add(sizes_of(find_operator(argument.example.substr(1, argument.example.find('.') - 1))));
    }
    return names;
}

}  // namespace

void Builder::unknown(const std::string& name) const {
    std::vector<std::string> names = sizes_of(op_);
    for (const Argument& argument : op_.arguments) names.push_back(argument.name);
    names.insert(names.end(), {"dtype", "seed"});
    const std::string near = nearest(name, names);
    throw Failure(kUsage,
                  fmt::format("{}: no argument of {}{}; it has {}", name, op_.name,
                              near.empty() ? "" : fmt::format(", did you mean {}?", near), fmt::join(names, ", ")));
}

void Builder::place(const Word& word) {
    const Argument* argument = op_.find(word.name);
    if (argument != nullptr && argument->is_tensor()) {
        if (!wish_texts_.emplace(word.name, word.value).second) throw Failure(kUsage, word.name + ": given twice");
        as_[word.name] = word.dtype;
    } else if (argument != nullptr) {
        if (!texts_.emplace(word.name, word.value).second) throw Failure(kUsage, word.name + ": given twice");
    } else if (word.name == "dtype") {
        dtype_ = dtype_of(word.value);
    } else if (word.name == "seed") {
        seed_ = static_cast<uint64_t>(naming("seed", [&] { return evaluate_integer(word.value, {}); }));
    } else {
        const auto sizes = sizes_of(op_);
        if (std::find(sizes.begin(), sizes.end(), word.name) == sizes.end()) unknown(word.name);
        naming(word.name, [&] {
            if (word.value.rfind('[', 0) == 0)
                known_.runs[word.name] = parse_list(word.value, known_.sizes);
            else
                known_.sizes[word.name] = evaluate_integer(word.value, known_.sizes);
        });
    }
}

void Builder::read(const std::vector<std::string>& words) {
    for (const std::string& text : words) {
        place(parse_word(text));
        if (!line_.empty()) line_ += ' ';
        line_ += quoted(text);
    }
    complete_attributes(false);  // shapes may be written over them
    for (const Argument& argument : op_.arguments) {
        const auto text = wish_texts_.find(argument.name);
        if (text == wish_texts_.end() || text->second == "none") continue;
        naming(argument.name, [&] {
            const bool to_file = argument.direction == Argument::output && is_file(text->second);
            Wish wish = to_file || text->second == "auto" ? Wish{} : parse_wish(text->second, known_.sizes);
            if (as_[argument.name]) wish.dtype = as_[argument.name];
            if (is_file(wish.base)) load_file(argument, wish);
            wishes_[argument.name] = wish;
        });
    }
    for (const Argument& argument : op_.arguments)
        if (const auto wish = wishes_.find(argument.name); wish != wishes_.end() && wish->second.shape)
            bind(argument, choose_dtype(argument), *wish->second.shape);
}

void Builder::load_file(const Argument& argument, Wish& wish) {
    if (argument.direction == Argument::output) throw Failure(kUsage, "an output is not read from a file");
    strict_ = true;
    origins_[argument.name] = "file " + wish.base;
    if (is_raw_file(wish.base)) {
        if (wish.shape && wish.dtype) tensors_.emplace(argument.name, read_raw(wish.base, *wish.dtype, *wish.shape));
        return;  // the rest of the call may tell its shape
    }
    const Tensor tensor = read_npy(wish.base, wish.dtype ? &*wish.dtype : nullptr);
    if (wish.shape && *wish.shape != tensor.shape())
        throw Failure(kUsage, fmt::format("{} holds {}, not {}", wish.base, text(tensor.shape()), text(*wish.shape)));
    wish.shape = tensor.shape();
    wish.dtype = tensor.dtype();
    tensors_.emplace(argument.name, tensor);
}

}  // namespace gradus::cli
