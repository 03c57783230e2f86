#include "testing/array.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "aclnn/opdev/bfloat16.h"
#include "aclnn/opdev/fp16_t.h"

namespace gradus::testing {
namespace {

template <typename T>
T read(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

template <typename T>
void write(std::byte* at, T value) {
    std::memcpy(at, &value, sizeof value);
}

uint64_t environment_number(const char* name, uint64_t otherwise) {
    const char* value = std::getenv(name);
    return value != nullptr ? std::strtoull(value, nullptr, 10) : otherwise;
}

}  // namespace

int64_t numel(const Shape& shape) {
    return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::string text(const Shape& shape) {
    std::string joined = "[";
    for (size_t i = 0; i < shape.size(); ++i) joined += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
    return joined + "]";
}

const char* type_name(aclDataType type) {
    switch (type) {
        case ACL_FLOAT:
            return "f32";
        case ACL_FLOAT16:
            return "f16";
        case ACL_BF16:
            return "bf16";
        case ACL_DOUBLE:
            return "f64";
        case ACL_INT32:
            return "int32";
        case ACL_INT64:
            return "int64";
        case ACL_UINT8:
            return "uint8";
        case ACL_BOOL:
            return "bool";
        default:
            return "other";
    }
}

Array::Array(aclDataType element_type, Shape dims) : type(element_type), shape(std::move(dims)) {
    bytes.resize(static_cast<size_t>(numel(shape) * item()));
}

// The library's answer for rare types only: asked for every element, it would take a third of the tests' time.
int64_t Array::item() const {
    switch (type) {
        case ACL_DOUBLE:
        case ACL_INT64:
            return 8;
        case ACL_FLOAT:
        case ACL_INT32:
            return 4;
        case ACL_FLOAT16:
        case ACL_BF16:
            return 2;
        case ACL_BOOL:
            return 1;
        default:
            return static_cast<int64_t>(aclDataTypeSize(type));
    }
}

double Array::at(int64_t i) const {
    const std::byte* from = bytes.data() + i * item();
    switch (type) {
        case ACL_FLOAT:
            return read<float>(from);
        case ACL_FLOAT16:
            return static_cast<float>(op::fp16_t::from_bits(read<uint16_t>(from)));
        case ACL_BF16:
            return static_cast<float>(op::bfloat16::from_bits(read<uint16_t>(from)));
        case ACL_DOUBLE:
            return read<double>(from);
        case ACL_INT32:
            return read<int32_t>(from);
        case ACL_INT64:
            return static_cast<double>(read<int64_t>(from));
        default:
            return read<uint8_t>(from);
    }
}

void Array::set(int64_t i, double value) {
    std::byte* to = bytes.data() + i * item();
    switch (type) {
        case ACL_FLOAT:
            return write(to, static_cast<float>(value));
        case ACL_FLOAT16:
            return write(to, op::fp16_t(value));
        case ACL_BF16:
            return write(to, op::bfloat16(value));
        case ACL_DOUBLE:
            return write(to, value);
        case ACL_INT32:
            return write(to, static_cast<int32_t>(value));
        case ACL_INT64:
            return write(to, static_cast<int64_t>(value));
        default:
            return write(to, static_cast<uint8_t>(value));
    }
}

int64_t first_difference(const Array& a, const Array& b) {
    if (a.type != b.type || a.shape != b.shape) return 0;
    const auto [at, other] = std::mismatch(a.bytes.begin(), a.bytes.end(), b.bytes.begin());
    return at == a.bytes.end() ? -1 : (at - a.bytes.begin()) / a.item();
}

Array slice(const Array& a, int64_t begin, int64_t end) {
    Shape shape = a.shape;
    const int64_t row = numel(shape) / shape[0] * a.item();
    shape[0] = end - begin;
    Array part(a.type, shape);
    std::copy(a.bytes.begin() + begin * row, a.bytes.begin() + end * row, part.bytes.begin());
    return part;
}

namespace {

// Strides for dims placed in memory in `order`, slowest first, with `step` elements and `gap` behind each dim.
Layout place(const Shape& shape, const std::vector<size_t>& order, const std::vector<int64_t>& step,
             const std::vector<int64_t>& before, const std::vector<int64_t>& after) {
    Layout layout{std::vector<int64_t>(shape.size()), 0, 1};
    for (size_t k = order.size(); k-- > 0;) {
        const size_t d = order[k];
        layout.stride[d] = layout.storage * step[d];
        layout.offset += before[d] * layout.storage;
        layout.storage *= before[d] + shape[d] * step[d] + after[d];
    }
    return layout;
}

std::vector<size_t> in_order(size_t rank) {
    std::vector<size_t> order(rank);
    std::iota(order.begin(), order.end(), 0);
    return order;
}

}  // namespace

Layout dense(const Shape& shape) {
    const std::vector<int64_t> one(shape.size(), 1), none(shape.size(), 0);
    return place(shape, in_order(shape.size()), one, none, none);
}

Layout padded(const Shape& shape, int64_t gap) {
    const std::vector<int64_t> one(shape.size(), 1), none(shape.size(), 0), after(shape.size(), gap);
    return place(shape, in_order(shape.size()), one, none, after);
}

Layout transposed(const Shape& shape) {
    const std::vector<int64_t> one(shape.size(), 1), none(shape.size(), 0);
    std::vector<size_t> order = in_order(shape.size());
    std::reverse(order.begin(), order.end());
    return place(shape, order, one, none, none);
}

Layout stepped(const Shape& shape, int64_t step) {
    const std::vector<int64_t> steps(shape.size(), step), none(shape.size(), 0);
    return place(shape, in_order(shape.size()), steps, none, none);
}

Layout broadcast(const Shape& shape, int dim) {
    Shape one = shape;
    one[static_cast<size_t>(dim)] = 1;
    Layout layout = dense(one);
    layout.stride[static_cast<size_t>(dim)] = 0;
    return layout;
}

Random::Random(const std::string& name) : seed_(environment_number("GRADUS_TEST_SEED", 1)) {
    std::seed_seq mix{static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32),
                      static_cast<uint32_t>(std::hash<std::string>()(name))};
    engine.seed(mix);
}

std::string Random::repeat() const { return "GRADUS_TEST_SEED=" + std::to_string(seed_); }

Array Random::normals(aclDataType type, const Shape& shape, double scale) {
    return filled(type, shape, [&] { return normal(scale); });
}

Array Random::filled(aclDataType type, const Shape& shape, const std::function<double()>& value) {
    Array array(type, shape);
    for (int64_t i = 0; i < array.size(); ++i) array.set(i, value());
    return array;
}

Layout Random::layout(const Shape& shape) {
    if (shape.empty() || chance(0.3)) return dense(shape);
    std::vector<size_t> order = in_order(shape.size());
    if (chance(0.5)) std::shuffle(order.begin(), order.end(), engine);
    std::vector<int64_t> step, before, after;
    for (size_t d = 0; d < shape.size(); ++d) {
        step.push_back(shape[d] < 4096 ? pick<int64_t>({1, 1, 1, 2, 3}) : 1);
        before.push_back(pick<int64_t>({0, 0, 1, 3}));
        after.push_back(pick<int64_t>({0, 0, 1, 2}));
    }
    return place(shape, order, step, before, after);
}

int rounds() { return static_cast<int>(environment_number("GRADUS_TEST_ROUNDS", 1)); }

int64_t stride_of_numbers(int64_t unless_long) {
    const char* length = std::getenv("GRADUS_TEST_LONG");
    return length == nullptr ? unless_long : std::string(length) == "all" ? 1 : 16;
}

}  // namespace gradus::testing
