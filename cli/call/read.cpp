// From words to what they ask for.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/base/text.h"
#include "cli/call/builder.h"
#include "cli/call/generate.h"
#include "cli/tensor/files.h"
#include "cli/tensor/slice.h"

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
    throw Failure(kUsage, fmt::format("{}: no argument of {}{}; it has {}", name, op_.name, suggestion(name, names),
                                      fmt::join(names, ", ")));
}

// dtype= is for every tensor that may have it; one that none may have would change nothing.
void Builder::expect_dtype() const {
    std::vector<std::string> known;
    for (const Argument& argument : op_.arguments)
        for (const auto* dtypes : {&argument.dtypes, &argument.golden_dtypes})
            for (const aclDataType dtype : *dtypes) {
                if (dtype == *dtype_ && is_float(dtype)) return;
                if (is_float(dtype) && std::ranges::count(known, dtype_name(dtype)) == 0)
                    known.emplace_back(dtype_name(dtype));
            }
    throw Failure(
        kUsage, fmt::format("dtype: '{}', {} is made up in {}", dtype_name(*dtype_), op_.name, fmt::join(known, ", ")));
}

void Builder::place(const Assignment& word) {
    const Argument* argument = op_.find(word.name);
    if (argument != nullptr && argument->is_tensor()) {
        if (word.value.empty())
            throw Failure(kUsage, fmt::format("{0}: nothing behind the =; write {0}=FILE or {0}=[4,8]", word.name));
        if (!wish_texts_.emplace(word.name, word.value).second) throw Failure(kUsage, word.name + ": given twice");
        as_[word.name] = word.dtype;
        tensors_.erase(word.name);  // one that was inherited
    } else if (argument != nullptr) {
        if (!texts_.emplace(word.name, word.value).second) throw Failure(kUsage, word.name + ": given twice");
    } else if (word.name == "dtype") {
        dtype_ = dtype_of(word.value);
        expect_dtype();
    } else if (word.name == "seed") {
        seed_ = naming("seed", [&] { return seed_of(word.value, {}); });
    } else {
        const auto sizes = sizes_of(op_);
        if (std::find(sizes.begin(), sizes.end(), word.name) == sizes.end()) unknown(word.name);
        naming(word.name, [&] {
            if (word.value.starts_with('['))
                known_.runs[word.name] = parse_list(word.value, known_.sizes);
            else
                known_.sizes[word.name] = evaluate_integer(word.value, known_.sizes);
        });
    }
}

void Builder::read(const std::vector<std::string>& words) {
    for (const std::string& text : words) {
        place(parse_assignment(text));
        if (!line_.empty()) line_ += ' ';
        line_ += quoted(text);
    }
    complete_attributes(false);  // shapes may be written over them
    for (const Argument& argument : op_.arguments) {
        const auto text = wish_texts_.find(argument.name);
        if (text == wish_texts_.end() || text->second == "none") continue;
        naming(argument.name, [&] {
            const bool to_file = argument.direction == Argument::output && is_file(text->second) &&
                                 !text->second.ends_with(".npz") && text->second != "-";
            Wish wish = to_file || text->second == "auto" ? Wish{} : parse_wish(text->second, known_.sizes);
            if (as_[argument.name]) wish.dtype = as_[argument.name];
            if (argument.direction == Argument::output && !wish.base.empty() && !is_generator(wish.base))
                throw Failure(kUsage, fmt::format("'{}' is no file that can be written, FILE.npy or FILE.bin, and no "
                                                  "shape, [4,8]",
                                                  wish.base));
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
    origins_[argument.name] = "file " + wish.base + (wish.slice ? "[" + *wish.slice + "]" : "");
    const aclDataType* as = wish.dtype ? &*wish.dtype : nullptr;
    const bool raw = is_raw_file(wish.base);
    if (raw && (!wish.shape || as == nullptr)) {
        if (wish.slice) throw Failure(kUsage, "a part of a .bin wants its dtype and shape: FILE.bin:bf16[4,8][0:2]");
        return;  // the rest of the call may tell its shape
    }
    Tensor tensor = raw ? read_raw(wish.base, *as, *wish.shape) : read_npy(wish.base, as, false, argument.name);
    if (wish.slice) tensor = sliced(tensor, *wish.slice);
    wish.shape = tensor.shape();
    wish.dtype = tensor.dtype();
    tensors_.emplace(argument.name, tensor);
}

}  // namespace gradus::cli
