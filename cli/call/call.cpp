// What follows from the words, and what is made up.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "cli/base/text.h"
#include "cli/call/builder.h"
#include "cli/call/generate.h"
#include "cli/tensor/files.h"

namespace gradus::cli {
namespace {

bool allows(const Argument& argument, aclDataType dtype) {
    return std::ranges::count(argument.dtypes, dtype) + std::ranges::count(argument.golden_dtypes, dtype) > 0;
}

bool parse_bool(const std::string& value) {
    for (const char* yes : {"true", "1", "yes", "on"})
        if (value == yes) return true;
    for (const char* no : {"false", "0", "no", "off"})
        if (value == no) return false;
    throw Failure(kUsage, fmt::format("'{}', expected true or false", value));
}

}  // namespace

void Builder::inherit(const Builder& other) {
    known_ = other.known_;
    for (const Argument& argument : op_.arguments) {
        if (argument.direction == Argument::output) continue;
        if (const auto found = other.attributes_.find(argument.name); found != other.attributes_.end())
            set_attribute(argument, found->second);
        if (const auto found = other.tensors_.find(argument.name);
            found != other.tensors_.end() && argument.is_tensor())
            tensors_.emplace(argument.name, found->second);
    }
}

void Builder::bind(const Argument& argument, aclDataType dtype, const Shape& shape) {
    if (ShapePattern(argument.shape, dtype).bind(shape, known_) || !misfit_.empty()) return;
    misfit_ = fmt::format("{}: shape {}, expected {}", argument.name, text(shape), argument.shape);
    if (const auto dim = attributes_.find("dim"); dim != attributes_.end())
        misfit_ += fmt::format(" where dim is {}", dim->second.dump());
}

nlohmann::json Builder::parse_attribute(const Argument& argument, const std::string& text) const {
    switch (argument.kind) {
        case GRADUS_INT:
            return evaluate_integer(text, known_.sizes);
        case GRADUS_DOUBLE:
            return evaluate(text, known_.sizes);
        case GRADUS_BOOL:
            return parse_bool(text);
        case GRADUS_INT_ARRAY:
            return parse_list(text, known_.sizes);
        default:
            return text;
    }
}

void Builder::set_attribute(const Argument& argument, nlohmann::json value) {
    if (argument.kind == GRADUS_INT) known_.sizes.emplace(argument.name, value.get<int64_t>());
    if (argument.kind == GRADUS_INT_ARRAY) arrays_[argument.name] = value.get<std::vector<int64_t>>();
    attributes_[argument.name] = std::move(value);
}

// As written, or as the tensors have it, or the default, or the example. Before the last round some sizes are not
// known yet: what needs them waits.
void Builder::complete_attributes(bool last) {
    for (const Argument& argument : op_.arguments) {
        if (argument.is_tensor() || attributes_.count(argument.name) != 0) continue;
        const auto written = texts_.find(argument.name);
        const bool given = written != texts_.end() && written->second != "auto";
        if (given && written->second == "none" && argument.optional) continue;
        const auto came_from = [&](const std::string& origin) { origins_[argument.name] = origin; };
        const auto size = known_.sizes.find(argument.name);
        if (!given && size != known_.sizes.end() && argument.kind == GRADUS_INT) {
            set_attribute(argument, size->second);
            came_from("follows from the shapes");
        } else if (!given && argument.preset) {
            if (last) expect_given(argument);
            if (last || argument.kind == GRADUS_INT) set_attribute(argument, *argument.preset), came_from("default");
        } else if (given || (!argument.example.empty() && !(strict_ && argument.optional && !is_auto(argument)))) {
            if (!given && !last) continue;  // a tensor may say it better
            if (!given) expect_given(argument);
            const std::string& text = given ? written->second : argument.example;
            came_from(given ? "given" : text == argument.allowed ? "follows from the shapes" : "made up: " + text);
            try {
                set_attribute(argument, parse_attribute(argument, text));
            } catch (const Failure& failure) {
                if (last) throw Failure(failure.exit, argument.name + ": " + failure.what());
            }
        } else if (last && !argument.optional && argument.kind != GRADUS_STRING) {
            throw Failure(kUsage, fmt::format("{}: missing; {} wants {}=VALUE{}{}", argument.name, op_.name,
                                              argument.name, argument.allowed.empty() ? "" : ", ", argument.allowed));
        }
    }
}

std::optional<aclDataType> Builder::settled_dtype(const Argument& argument) const {
    if (const auto found = tensors_.find(argument.name); found != tensors_.end()) return found->second.dtype();
    if (const auto found = wishes_.find(argument.name); found != wishes_.end()) return found->second.dtype;
    return {};
}

// The dtype of an input that has the same choice: CANN wants them equal.
std::optional<aclDataType> Builder::alike(const Argument& argument) const {
    for (const Argument& other : op_.arguments)
        if (other.direction == Argument::input && other.dtypes == argument.dtypes)
            if (const auto dtype = settled_dtype(other)) return dtype;
    return {};
}

aclDataType Builder::choose_dtype(const Argument& argument) const {
    if (const auto dtype = settled_dtype(argument)) return *dtype;
    const auto like = alike(argument);
    if (like && argument.direction == Argument::output) return *like;
    if (dtype_ && allows(argument, *dtype_)) return *dtype_;
    if (like) return *like;
    for (const Argument& other : op_.arguments)  // bf16 here and f32 there: the first that may be both
        if (const auto dtype = settled_dtype(other); dtype && other.dtypes.size() > 1 && allows(argument, *dtype))
            return *dtype;
    return argument.dtypes.at(0);
}

Shape Builder::infer_shape(const Argument& argument, aclDataType dtype) const {
    const ShapePattern words(argument.shape, dtype);
    if (const auto shape = words.shape(known_)) return *shape;
    if (!misfit_.empty()) throw Failure(kUsage, misfit_);  // the reason
    const auto missing = words.missing(known_);
    throw Failure(
        kUsage,
        fmt::format("{}: its shape ({}) does not follow from the others{}; give {}=[..]", argument.name, argument.shape,
                    missing.empty() ? "" : fmt::format(", {} is not known", fmt::join(missing, ", ")), argument.name));
}

bool Builder::is_auto(const Argument& argument) const {
    const auto& texts = argument.is_tensor() ? wish_texts_ : texts_;
    const auto found = texts.find(argument.name);
    return found != texts.end() && found->second == "auto";
}

// Beside files nothing is made up unasked. What can have one value only is no choice; nor is what has a default, but
// for a factor that somebody forgot: a right result would be called wrong.
void Builder::expect_given(const Argument& argument) const {
    if (!strict_ || is_auto(argument)) return;
    const bool one_value = argument.allowed == argument.example || (argument.preset && argument.allowed == "0");
    const bool factor = judged_ && argument.kind == GRADUS_DOUBLE;
    if (!argument.is_tensor() && (one_value || (argument.preset && !factor))) return;
    throw Failure(kUsage, fmt::format("{0}: missing, and beside files nothing is made up; give {0}={1}, or {0}=auto",
                                      argument.name, argument.is_tensor() ? "FILE" : "VALUE"));
}

bool Builder::absent(const Argument& argument) const {
    const auto text = wish_texts_.find(argument.name);
    if (text == wish_texts_.end()) return argument.optional && (strict_ || argument.example.empty());
    if (text->second != "none") return false;
    if (!argument.optional) throw Failure(kUsage, fmt::format("{}: it is not optional", argument.name));
    return true;
}

void Builder::make_input(const Argument& argument) {
    const auto given = wishes_.find(argument.name);
    Wish wish = given == wishes_.end() ? Wish{} : given->second;
    if (wish.base.empty()) {
        if (!wish.shape) expect_given(argument);
        if (argument.example.empty() && !is_float(argument.dtypes.at(0)))
            throw Failure(kUsage,
                          fmt::format("{}: missing; give {}=FILE or a generator", argument.name, argument.name));
        const Wish example = parse_wish(argument.example.empty() ? "randn" : argument.example, known_.sizes);
        wish.base = example.base;
        for (const auto& [name, value] : example.options) wish.options.emplace(name, value);
        if (!wish.shape) wish.shape = example.shape;
    }
    const aclDataType dtype = choose_dtype(argument);
    const Shape shape = wish.shape ? *wish.shape : infer_shape(argument, dtype);
    naming(argument.name, [&] {
        if (is_raw_file(wish.base)) {
            tensors_.emplace(argument.name, read_raw(wish.base, dtype, shape));
            origins_[argument.name] = "file " + wish.base;
            return;
        }
        const Tensor tensor(dtype, shape);
        Recipe recipe{wish.base, wish.options, argument.name, seed_};
        if (const auto seed = recipe.options.find("seed"); seed != recipe.options.end()) {
            recipe.seed = naming("seed", [&] { return seed_of(seed->second, known_.sizes); });
            recipe.options.erase(seed);
        }
        generate(tensor, recipe, {known_.sizes, arrays_});
        origins_[argument.name] = fmt::format("made up: {}, seed {}", wish.base, recipe.seed);
        tensors_.emplace(argument.name, tensor);
    });
    bind(argument, dtype, shape);
}

// Runs the other operator on what both have in common, but for what the example changes; what it has besides is made up
// by its own examples.
Tensor Builder::referred(const Argument& argument) {
    expect_given(argument);
    origins_[argument.name] = "computed: " + argument.example.substr(1);
    std::vector<std::string> changes = split(argument.example, ',');
    const std::string reference = changes.front();
    changes.erase(changes.begin());
    const size_t dot = reference.find('.');
    const std::string name = reference.substr(1, dot - 1), output = reference.substr(dot + 1);
    const std::string key = name + argument.example.substr(reference.size());
    if (forwards_.count(key) == 0) {
        std::optional<aclDataType> dtype = dtype_;
        for (const Argument& other : op_.arguments)
            if (const auto settled = settled_dtype(other);
                !dtype && settled && is_float(*settled) && other.dtypes.size() > 1)
                dtype = settled;
        Builder builder(find_operator(name), seed_, dtype);
        builder.inherit(*this);
        builder.read(changes);
        const Call call = builder.complete();
        std::optional<ScopedOption> golden;  // f64 is golden's
        if (std::ranges::any_of(call.tensors, [](const auto& t) { return t.second.dtype() == ACL_DOUBLE; }))
            golden.emplace("precision", "golden");
        run(call);
        forwards_.emplace(key, call);
    }
    const auto& tensors = forwards_.at(key).tensors;
    const auto found = tensors.find(output);
    if (found == tensors.end())
        throw Failure(kEnvironment, fmt::format("the catalogue's {} has no output", argument.example));
    return found->second;
}

void Builder::make_output(const Argument& argument) {
    const auto given = wishes_.find(argument.name);
    const aclDataType dtype = choose_dtype(argument);
    const Shape shape =
        given != wishes_.end() && given->second.shape ? *given->second.shape : infer_shape(argument, dtype);
    tensors_.emplace(argument.name, naming(argument.name, [&] { return Tensor(dtype, shape); }));
}

Call Builder::complete() {
    complete_attributes(false);
    const auto wanted = [this](const Argument& argument, Argument::Direction direction) {
        return argument.is_tensor() && argument.direction == direction && tensors_.count(argument.name) == 0 &&
               !absent(argument);
    };
    const auto refers = [this](const Argument& argument) {
        return is_reference(argument.example) && (wishes_.count(argument.name) == 0 || is_auto(argument));
    };
    // Shapes first: an attribute such as "[T1]" needs the sizes, and a generator may need the attribute.
    for (const Argument& argument : op_.arguments)
        if (wanted(argument, Argument::input) && !refers(argument)) {
            const aclDataType dtype = choose_dtype(argument);
            if (const auto shape = ShapePattern(argument.shape, dtype).shape(known_)) bind(argument, dtype, *shape);
        }
    complete_attributes(true);
    for (const Argument& argument : op_.arguments)
        if (wanted(argument, Argument::input) && !refers(argument)) make_input(argument);
    for (const Argument& argument : op_.arguments)
        if (wanted(argument, Argument::input))
            tensors_.emplace(argument.name, naming(argument.name, [&] { return referred(argument); }));
    for (const Argument& argument : op_.arguments)
        if (wanted(argument, Argument::output)) make_output(argument);
    Call call{&op_, tensors_, attributes_, known_.sizes, line_, seed_, ACL_FLOAT};
    for (const Argument& argument : op_.arguments)
        if (argument.direction != Argument::output) {
            const auto origin = origins_.find(argument.name);
            call.origins.emplace_back(argument.name, origin == origins_.end() ? "left out" : origin->second);
        }
    for (const Argument& argument : op_.arguments)
        if (const auto found = tensors_.find(argument.name);
            found != tensors_.end() && argument.dtypes.size() > 1 && is_float(found->second.dtype())) {
            call.dtype = found->second.dtype();
            break;
        }
    return call;
}

Call make_call(const Operator& op, const std::vector<std::string>& words, bool judged) {
    // Somebody's first line has no sizes at all: then the catalogue's small case has.
    const bool sized = std::any_of(words.begin(), words.end(), [&op](const std::string& text) {
        const std::string name = parse_assignment(text).name;
        const Argument* argument = op.find(name);
        return argument == nullptr ? name != "dtype" && name != "seed" : argument->direction == Argument::input;
    });
    std::vector<std::string> all = words;
    for (const std::string& small : sized ? std::vector<std::string>() : split(op.small, ' ')) {
        const std::string start = parse_assignment(small).name + "=";
        if (std::none_of(words.begin(), words.end(), [&](const auto& word) { return word.starts_with(start); }))
            all.push_back(small);
    }
    Builder builder(op, 0, {}, judged);
    builder.read(all);
    return builder.complete();
}

}  // namespace gradus::cli
