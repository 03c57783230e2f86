#include "cli/call/shape_pattern.h"

#include <algorithm>
#include <cmath>

#include "cli/base/failure.h"
#include "cli/base/text.h"

namespace gradus::cli {
namespace {

bool known_name(const std::string& name, const Bindings& known) { return known.sizes.count(name) != 0; }

bool can_evaluate(const std::string& expression, const Bindings& known) {
    for (const std::string& name : names_in(expression))
        if (!known_name(name, known)) return false;
    return true;
}

// "N" or "2*N" with N not known: its name and its factor.
struct Unknown {
    std::string name;
    int64_t factor;
};
std::optional<Unknown> solvable(const std::string& expression, const Bindings& known) {
    const std::vector<std::string> factors = split(expression, '*'), names = names_in(expression);
    if (names.size() != 1 || known_name(names[0], known) || factors.empty() || factors.back() != names[0]) return {};
    if (factors.size() == 1) return Unknown{names[0], 1};
    if (factors.size() != 2 || !names_in(factors[0]).empty()) return {};
    return Unknown{names[0], evaluate_integer(factors[0], {})};
}

// Where the one dim between two ellipses is: the attribute dim says it, of either sign.
std::optional<size_t> axis_of(const Bindings& known, size_t rank) {
    const auto found = known.sizes.find("dim");
    const int64_t dim = found == known.sizes.end() ? -1 : found->second;
    const int64_t axis = dim < 0 ? dim + static_cast<int64_t>(rank) : dim;
    if (axis < 0 || axis >= static_cast<int64_t>(rank)) return {};
    return static_cast<size_t>(axis);
}

}  // namespace

ShapePattern::ShapePattern(const std::string& words, aclDataType dtype) {
    std::string chosen;
    for (const std::string& choice : split(words, ';')) {
        const size_t split_at = choice.find(" for ");
        if (split_at == std::string::npos && chosen.empty()) chosen = choice;
        if (split_at != std::string::npos && choice.substr(split_at + 5) == dtype_name(dtype))
            chosen = choice.substr(0, split_at);
    }
    any_ = chosen.empty() || chosen.starts_with("any");
    if (any_) return;
    for (const std::string& part : split(chosen, ',')) {
        if (part.find(">=") != std::string::npos)
            conditions_.push_back(part);
        else if (part == "...")
            dims_.push_back({dims_.empty() ? "..." : " ...", true, false});
        else if (part.ends_with("..."))
            dims_.push_back({part.substr(0, part.size() - 3), true, false});
        else if (part.ends_with("|1"))
            dims_.push_back({part.substr(0, part.size() - 2), false, true});
        else
            dims_.push_back({part, false, false});
    }
}

bool ShapePattern::bind(const Shape& shape, Bindings& known) const {
    if (any_) return true;
    const size_t runs =
        static_cast<size_t>(std::count_if(dims_.begin(), dims_.end(), [](const Dim& d) { return d.run; }));
    const size_t fixed = dims_.size() - runs;
    if (runs == 0 ? shape.size() != fixed : shape.size() < fixed) return false;
    const std::optional<size_t> axis = axis_of(known, shape.size());
    if (runs == 2 && !axis) return false;
    size_t at = 0;
    for (const Dim& dim : dims_) {
        if (dim.run) {
            const size_t length = runs == 1                            ? shape.size() - fixed
                                  : at == 0 && dim.expression == "..." ? *axis
                                                                       : shape.size() - at;
            const auto begin = shape.begin() + static_cast<std::ptrdiff_t>(at);
            known.runs.emplace(dim.expression, Shape(begin, begin + static_cast<std::ptrdiff_t>(length)));
            at += length;
            continue;
        }
        const int64_t size = shape[at++];
        const std::optional<Unknown> unknown = solvable(dim.expression, known);
        if (!unknown || (dim.or_one && size == 1)) continue;
        if (unknown->factor == 0 || size % unknown->factor != 0) return false;
        known.sizes[unknown->name] = size / unknown->factor;
    }
    return true;
}

std::optional<Shape> ShapePattern::shape(const Bindings& known) const {
    if (any_) return {};
    Bindings all = known;
    for (const std::string& condition : conditions_) {  // the least that satisfies it
        const size_t at = condition.find(">=");
        const std::string left = split(condition.substr(0, at), ',').at(0), right = condition.substr(at + 2);
        const std::optional<Unknown> unknown = solvable(left, all);
        if (!unknown || unknown->factor <= 0 || !can_evaluate(right, all)) continue;
        const double least = evaluate(right, all.sizes) / static_cast<double>(unknown->factor);
        all.sizes[unknown->name] = static_cast<int64_t>(std::ceil(least));
    }
    Shape shape;
    for (const Dim& dim : dims_) {
        if (dim.run) {
            const auto found = all.runs.find(dim.expression);
            if (found == all.runs.end()) return {};
            shape.insert(shape.end(), found->second.begin(), found->second.end());
        } else if (can_evaluate(dim.expression, all)) {
            shape.push_back(evaluate_integer(dim.expression, all.sizes));
        } else if (dim.or_one) {
            shape.push_back(1);
        } else {
            return {};
        }
    }
    return shape;
}

std::vector<std::string> ShapePattern::missing(const Bindings& known) const {
    std::vector<std::string> names;
    for (const Dim& dim : dims_) {
        if (dim.run && known.runs.count(dim.expression) == 0 && dim.expression.find('.') == std::string::npos)
            names.push_back(dim.expression + "...");
        if (dim.run) continue;
        for (const std::string& name : names_in(dim.expression))
            if (!known_name(name, known) && std::find(names.begin(), names.end(), name) == names.end())
                names.push_back(name);
    }
    return names;
}

std::vector<std::string> size_names(const std::string& words) {
    std::vector<std::string> names;
    for (const std::string& choice : split(words, ';')) {
        if (choice.starts_with("any")) continue;
        for (const std::string& name : names_in(choice.substr(0, choice.find(" for ")))) names.push_back(name);
    }
    return names;
}

}  // namespace gradus::cli
