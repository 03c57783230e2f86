// Arguments as a mistaken kernel would read them.
#include <fmt/format.h>

#include <cmath>

#include "cli/base/failure.h"
#include "cli/base/text.h"
#include "cli/call/shape_pattern.h"
#include "cli/diff/question.h"

namespace gradus::cli {
namespace {

// A new tensor, element by element.
Tensor mapped(const Tensor& from, const std::function<double(int64_t i)>& value) {
    Tensor to(from.dtype(), from.shape());
    for (int64_t i = 0; i < from.count(); ++i) to.set(i, value(i));
    return to;
}

// With the halves along dim exchanged.
Tensor halves(const Tensor& from, int64_t dim) {
    const Shape& shape = from.shape();
    const auto d = static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(shape.size()) : dim);
    int64_t stride = 1;
    for (size_t i = d + 1; i < shape.size(); ++i) stride *= shape[i];
    const int64_t n = shape[d];
    return mapped(from, [&](int64_t i) {
        const int64_t at = i / stride % n;
        return from.at(i + ((at + n / 2) % n - at) * stride);
    });
}

unsigned reversed(unsigned byte) {
    unsigned bits = 0;
    for (unsigned b = 0; b < 8; ++b) bits |= (byte >> b & 1U) << (7 - b);
    return bits;
}

// Nothing: the word is unknown.
std::optional<Tensor> changed_tensor(const Tensor& t, const std::string& word, int64_t dim) {
    const bool is_bool = t.dtype() == ACL_BOOL;
    const int64_t columns = t.shape().empty() ? 1 : std::max<int64_t>(1, t.shape().back());
    const auto shifted = [&](int64_t by) {
        return mapped(t, [&](int64_t i) {
            const int64_t at = i % columns + by;
            return at < 0 || at >= columns ? t.at(i) : t.at(i + by);
        });
    };
    const auto row = [&](int64_t by) {  // along the first dim, all the rest with it
        const int64_t length = t.shape().empty() ? 1 : t.count() / std::max<int64_t>(1, t.shape().front());
        return mapped(t, [&](int64_t i) { return t.at((i + by * length + t.count()) % t.count()); });
    };
    const auto number = [&](size_t at) { return std::stod(word.substr(at)); };
    if (word == "zeros") return mapped(t, [](int64_t) { return 0.0; });
    if (word == "ones") return mapped(t, [](int64_t) { return 1.0; });
    if (word == "all") return mapped(t, [&](int64_t) { return is_bool ? 1.0 : 255.0; });
    if (word == "not") return mapped(t, [&](int64_t i) { return is_bool ? (t.at(i) == 0 ? 1 : 0) : 255 - t.at(i); });
    if (word == "bits" && is_bool) return t;
    if (word == "bits")
        return mapped(t, [&](int64_t i) { return static_cast<double>(reversed(static_cast<unsigned>(t.at(i)))); });
    if (word == "next") return shifted(1);
    if (word == "previous") return shifted(-1);
    if (word == "row_after") return row(1);
    if (word == "row_before") return row(-1);
    if (word.starts_with("plus")) return mapped(t, [&, by = number(4)](int64_t i) { return t.at(i) + by; });
    if (word.starts_with("times")) return mapped(t, [&, by = number(5)](int64_t i) { return t.at(i) * by; });
    if (word == "negated") return mapped(t, [&](int64_t i) { return -t.at(i); });
    if (word == "halves") return halves(t, dim);
    return {};
}

bool same(const Tensor& a, const Tensor& b) {
    return std::equal(a.data(), a.data() + a.bytes(), b.data(), b.data() + b.bytes());
}

// Numbers of attributes may be fractions, which sizes are not: written into the expression.
std::string with_numbers(const std::string& expression, const std::map<std::string, nlohmann::json>& attributes) {
    std::string text = expression;
    for (const std::string& name : names_in(expression)) {
        const auto found = attributes.find(name);
        if (found == attributes.end() || !found->second.is_number_float()) continue;
        const std::string number = fmt::format("({:.17g})", found->second.get<double>());
        for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + number.size()))
            text.replace(at, name.size(), number);
    }
    return text;
}

// False: nothing changes.
bool change_attribute(Call& call, const Argument& argument, const std::string& word) {
    const auto found = call.attributes.find(argument.name);
    if (found == call.attributes.end()) return false;
    if (word == "none") return call.attributes.erase(argument.name), true;
    Sizes sizes = call.sizes;
    for (const auto& [name, value] : call.attributes)
        if (value.is_number_integer()) sizes[name] = value.get<int64_t>();
    const double number = evaluate(with_numbers(word, call.attributes), sizes);
    const nlohmann::json before = found->second;
    if (argument.kind == GRADUS_INT)
        found->second = static_cast<int64_t>(number);
    else
        found->second = number;
    return found->second != before;
}

}  // namespace

std::optional<Call> changed(const Call& call, const std::string& arguments) {
    Call other = call;
    bool any = false;
    for (const std::string& text : split(arguments, ' ')) {
        const size_t equals = text.find('=');
        const std::string name = text.substr(0, equals), word = text.substr(equals + 1);
        const Argument* argument = call.op->find(name);
        if (argument == nullptr) throw Failure(kEnvironment, fmt::format("the catalogue's {} has no argument", text));
        if (!argument->is_tensor()) {
            any = change_attribute(other, *argument, word) || any;
            continue;
        }
        const auto found = other.tensors.find(name);
        if (found == other.tensors.end()) {
            // an optional one that would take another's place, as a softmax does of max and sum
            if (word != "zeros" || !argument->optional) return {};
            const auto shape = ShapePattern(argument->shape, argument->dtypes.at(0)).shape({call.sizes, {}});
            if (!shape) return {};
            other.tensors.emplace(name, Tensor(argument->dtypes.at(0), *shape));
            any = true;
            continue;
        }
        const auto dim = call.attributes.find("dim");
        const auto tensor =
            changed_tensor(found->second, word, dim == call.attributes.end() ? -1 : dim->second.get<int64_t>());
        if (!tensor) throw Failure(kEnvironment, fmt::format("the catalogue's {}: unknown change", text));
        any = any || !same(*tensor, found->second);
        found->second = *tensor;
    }
    return any ? std::optional(other) : std::nullopt;
}

}  // namespace gradus::cli
