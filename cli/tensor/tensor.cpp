#include "cli/tensor/tensor.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include "cli/base/failure.h"
#include "cli/tensor/half.h"

namespace gradus::cli {
namespace {

struct Kind {
    aclDataType dtype;
    const char* name;  // the catalogue's word, then what else people write
    std::vector<const char*> aliases;
};

const std::vector<Kind>& kinds() {
    static const std::vector<Kind> all = {
        {ACL_FLOAT, "f32", {"float32", "fp32", "float"}},
        {ACL_FLOAT16, "f16", {"float16", "fp16", "half"}},
        {ACL_BF16, "bf16", {"bfloat16"}},
        {ACL_DOUBLE, "f64", {"float64", "fp64", "double"}},
        {ACL_BOOL, "bool", {"b1"}},
        {ACL_INT8, "int8", {"i8"}},
        {ACL_UINT8, "uint8", {"u8"}},
        {ACL_INT16, "int16", {"i16"}},
        {ACL_UINT16, "uint16", {"u16"}},
        {ACL_INT32, "int32", {"i32", "int"}},
        {ACL_UINT32, "uint32", {"u32"}},
        {ACL_INT64, "int64", {"i64", "long"}},
        {ACL_UINT64, "uint64", {"u64"}},
    };
    return all;
}

// Freed by the kernel at the latest; what matters is that a wish beyond the machine is refused before memory is
// touched, because malloc itself would say yes.
double available_bytes() {
    std::ifstream file("/proc/meminfo");
    for (std::string line; std::getline(file, line);) {
        unsigned long long kib = 0;
        if (std::sscanf(line.c_str(), "MemAvailable: %llu kB", &kib) == 1) return static_cast<double>(kib) * 1024;
    }
    return std::numeric_limits<double>::infinity();
}

// The nearest number with so many significant bits, none of them below `least`; ties to even. Exact in double, so the
// conversion that follows does not round again.
double to_precision(double value, int bits, double least) {
    if (!std::isfinite(value) || value == 0) return value;
    const double grain = std::max(std::ldexp(1.0, std::ilogb(value) + 1 - bits), least);
    return std::nearbyint(value / grain) * grain;
}

struct Half {
    uint16_t bits;
};
struct Brain {
    uint16_t bits;
};

// function(T()) with the element type of the dtype.
template <typename F>
auto visit(aclDataType dtype, F&& function) {
    switch (dtype) {
        case ACL_FLOAT:
            return function(float());
        case ACL_FLOAT16:
            return function(Half());
        case ACL_BF16:
            return function(Brain());
        case ACL_DOUBLE:
            return function(double());
        case ACL_BOOL:
            return function(bool());
        case ACL_INT8:
            return function(int8_t());
        case ACL_INT16:
            return function(int16_t());
        case ACL_UINT16:
            return function(uint16_t());
        case ACL_INT32:
            return function(int32_t());
        case ACL_UINT32:
            return function(uint32_t());
        case ACL_INT64:
            return function(int64_t());
        case ACL_UINT64:
            return function(uint64_t());
        default:
            return function(uint8_t());
    }
}

template <typename T>
double load(const std::byte* data, int64_t i) {
    if constexpr (std::is_same_v<T, bool>) {
        return data[i] != std::byte{0} ? 1 : 0;  // any other byte is true, too
    } else {
        T value;
        std::memcpy(&value, data + i * static_cast<int64_t>(sizeof value), sizeof value);
        if constexpr (std::is_same_v<T, Half>)
            return from_f16(value.bits);
        else if constexpr (std::is_same_v<T, Brain>)
            return from_bf16(value.bits);
        else
            return static_cast<double>(value);
    }
}

// To nearest even, integers clamped.
template <typename T>
T narrowed(double value) {
    if constexpr (std::is_same_v<T, bool>) {
        return value != 0;
    } else if constexpr (std::is_same_v<T, Half>) {
        return {to_f16(to_precision(value, 11, 0x1p-24))};
    } else if constexpr (std::is_same_v<T, Brain>) {
        if (std::isnan(value)) return {0x7FC0};
        const auto wide = static_cast<float>(to_precision(value, 8, 0x1p-133));
        return {static_cast<uint16_t>(std::bit_cast<uint32_t>(wide) >> 16)};
    } else if constexpr (std::is_integral_v<T>) {
        using Limits = std::numeric_limits<T>;
        const double nearest = std::nearbyint(value);
        if (!(nearest >= static_cast<double>(Limits::min()))) return Limits::min();
        // 2^n, not 2^n - 1, which has no double of its own for 64 bits
        return nearest >= std::ldexp(1.0, Limits::digits) ? Limits::max() : static_cast<T>(nearest);
    } else {
        return static_cast<T>(value);
    }
}

template <typename T>
void store(std::byte* data, int64_t i, double value) {
    const T narrow = narrowed<T>(value);
    std::memcpy(data + i * static_cast<int64_t>(sizeof narrow), &narrow, sizeof narrow);
}

class Device {
  public:
    Device() {
        if (const int status = aclInit(nullptr); status != ACL_ERROR_REPEAT_INITIALIZE)
            expect_success(status, "aclInit");
        expect_success(aclrtSetDevice(0), "aclrtSetDevice");
        expect_success(aclrtCreateStream(&stream_), "aclrtCreateStream");
    }
    ~Device() {
        aclrtDestroyStream(stream_);
        aclrtResetDevice(0);
        aclFinalize();
    }
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;
    aclrtStream stream() const { return stream_; }

  private:
    aclrtStream stream_ = nullptr;
};

}  // namespace

aclrtStream stream() {
    static const Device device;
    return device.stream();
}

void expect_success(int status, const std::string& doing) {
    if (status == ACL_SUCCESS) return;
    const char* message = aclGetRecentErrMsg();
    throw Failure(kEnvironment,
                  fmt::format("{}: error {}{}{}", doing, status, message ? ": " : "", message ? message : ""));
}

std::string text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

const char* dtype_name(aclDataType dtype) {
    for (const Kind& kind : kinds())
        if (kind.dtype == dtype) return kind.name;
    return "unknown";
}

aclDataType dtype_of(const std::string& name) {
    std::string known;
    for (const Kind& kind : kinds()) {
        if (name == kind.name) return kind.dtype;
        for (const char* alias : kind.aliases)
            if (name == alias) return kind.dtype;
        known += std::string(known.empty() ? "" : ", ") + kind.name;
    }
    throw Failure(kUsage, fmt::format("dtype '{}', expected one of {}", name, known));
}

bool is_float(aclDataType dtype) {
    return dtype == ACL_FLOAT || dtype == ACL_FLOAT16 || dtype == ACL_BF16 || dtype == ACL_DOUBLE;
}

struct Tensor::Memory {
    Memory(aclDataType type, Shape dims);
    ~Memory() {
        aclDestroyTensor(tensor);
        aclrtFree(data);
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    aclDataType dtype;
    Shape shape;
    int64_t count = 1, bytes = 0;
    void* data = nullptr;
    aclTensor* tensor = nullptr;
};

Tensor::Memory::Memory(aclDataType type, Shape dims) : dtype(type), shape(std::move(dims)) {
    stream();
    double wanted = static_cast<double>(aclDataTypeSize(dtype));
    for (const int64_t dim : shape) {
        if (dim < 0) throw Failure(kUsage, fmt::format("shape {}: a negative size", text(shape)));
        wanted *= static_cast<double>(dim);
    }
    if (const double free = available_bytes(); wanted > free)
        throw Failure(kEnvironment, fmt::format("{} of {} wants {:.3g} GB, this machine has {:.3g} GB free",
                                                text(shape), dtype_name(dtype), wanted / 1e9, free / 1e9));
    if (std::ranges::count(shape, 0) > 0) count = 0;  // before the others, whose product may be anything
    for (const int64_t dim : shape)
        if (count != 0) count *= dim;
    bytes = count * static_cast<int64_t>(aclDataTypeSize(dtype));
    const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));  // an empty tensor has an address, too
    expect_success(aclrtMalloc(&data, size, ACL_MEM_MALLOC_HUGE_FIRST), "allocating " + text(shape));
    std::memset(data, 0, size);
    tensor =
        aclCreateTensor(shape.data(), shape.size(), dtype, nullptr, 0, ACL_FORMAT_ND, shape.data(), shape.size(), data);
    if (tensor == nullptr) {
        aclrtFree(data);
        throw Failure(kUsage, fmt::format("shape {}: {} dims, a tensor has at most 25", text(shape), shape.size()));
    }
}

Tensor::Tensor(aclDataType dtype, Shape shape) : memory_(std::make_shared<Memory>(dtype, std::move(shape))) {}

aclDataType Tensor::dtype() const { return memory_->dtype; }
const Shape& Tensor::shape() const { return memory_->shape; }
int64_t Tensor::count() const { return memory_->count; }
int64_t Tensor::bytes() const { return memory_->bytes; }
std::byte* Tensor::data() const { return static_cast<std::byte*>(memory_->data); }
const aclTensor* Tensor::handle() const { return memory_->tensor; }

double Tensor::at(int64_t i) const {
    const std::byte* data = this->data();
    return visit(memory_->dtype, [data, i](auto sample) { return load<decltype(sample)>(data, i); });
}

void Tensor::set(int64_t i, double value) const {
    std::byte* data = this->data();
    visit(memory_->dtype, [data, i, value](auto sample) { store<decltype(sample)>(data, i, value); });
}

std::string index_text(const Shape& shape, int64_t i) {
    Shape index(shape.size());
    for (size_t d = shape.size(); d-- > 0; i /= std::max<int64_t>(shape[d], 1))
        index[d] = i % std::max<int64_t>(shape[d], 1);
    return text(index);
}

}  // namespace gradus::cli
