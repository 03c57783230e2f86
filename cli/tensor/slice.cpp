#include "cli/tensor/slice.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "cli/base/failure.h"
#include "cli/base/text.h"

namespace gradus::cli {
namespace {

// Of one dim: count elements from begin on, every step-th; an index is one element, and its dim is gone.
struct Part {
    int64_t begin, count, step;
    bool keeps_dim;
};

std::optional<int64_t> number(const std::string& text, const std::string& slice) {
    if (text.empty()) return {};
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
        throw Failure(kUsage, fmt::format("[{}]: '{}', expected a number", slice, text));
    return value;
}

Part part_of(const std::string& text, int64_t size, const std::string& slice) {
    std::vector<std::string> fields(1);
    for (const char c : text) {
        if (c == ':')
            fields.emplace_back();
        else if (c != ' ')
            fields.back() += c;
    }
    if (fields.size() == 1) {
        const auto index = number(fields[0], slice);
        const int64_t at = index.value_or(size) + (index.value_or(0) < 0 ? size : 0);
        if (at < 0 || at >= size)
            throw Failure(kUsage, fmt::format("[{}]: index {}, the dim has {}", slice, fields[0], size));
        return {at, 1, 1, false};
    }
    if (fields.size() > 3) throw Failure(kUsage, fmt::format("[{}]: '{}', expected begin:end:step", slice, text));
    const int64_t step = fields.size() == 3 ? number(fields[2], slice).value_or(1) : 1;
    if (step < 1) throw Failure(kUsage, fmt::format("[{}]: step {}, expected 1 or more", slice, step));
    const auto place = [&](const std::string& field, int64_t otherwise) {
        const int64_t at = number(field, slice).value_or(otherwise);
        return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
    };
    const int64_t begin = place(fields[0], 0), end = place(fields[1], size);
    // of a dim without elements the part is as it is; else nothing is a mistake, and would be equal to anything
    if (begin >= end && size > 0)
        throw Failure(kUsage, fmt::format("[{}]: '{}' takes nothing of a dim of {}", slice, text, size));
    return {begin, begin < end ? (end - begin - 1) / step + 1 : 0, step, true};
}

std::vector<Part> parts_of(const Shape& shape, const std::string& slice) {
    std::vector<std::string> texts = split(slice, ',');
    if (texts.empty()) throw Failure(kUsage, fmt::format("[{}]: expected an index, or begin:end", slice));
    const auto dots = std::ranges::find(texts, "...");
    if (std::ranges::count(texts, "...") > 1) throw Failure(kUsage, fmt::format("[{}]: two ellipses", slice));
    const size_t said = texts.size() - (dots == texts.end() ? 0 : 1);
    if (said > shape.size())
        throw Failure(kUsage,
                      fmt::format("[{}]: {} dims, the tensor {} has {}", slice, said, text(shape), shape.size()));
    const auto at = dots == texts.end() ? texts.end() : texts.erase(dots);
    texts.insert(at, shape.size() - said, ":");
    std::vector<Part> parts;
    for (size_t d = 0; d < shape.size(); ++d) parts.push_back(part_of(texts[d], shape[d], slice));
    return parts;
}

}  // namespace

Tensor sliced(const Tensor& tensor, const std::string& slice) {
    const std::vector<Part> parts = parts_of(tensor.shape(), slice);
    Shape shape;
    for (const Part& part : parts)
        if (part.keeps_dim) shape.push_back(part.count);
    Tensor result(tensor.dtype(), shape);
    const auto size = static_cast<size_t>(aclDataTypeSize(tensor.dtype()));
    for (int64_t i = 0; i < result.count(); ++i) {
        int64_t rest = i, from = 0, stride = 1;
        for (size_t d = parts.size(); d-- > 0; stride *= tensor.shape()[d]) {
            from += (parts[d].begin + rest % parts[d].count * parts[d].step) * stride;
            rest /= parts[d].count;
        }
        std::memcpy(result.data() + static_cast<size_t>(i) * size, tensor.data() + static_cast<size_t>(from) * size,
                    size);
    }
    return result;
}

}  // namespace gradus::cli
