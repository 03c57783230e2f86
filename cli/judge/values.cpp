#include "cli/judge/values.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <thread>

#include "cli/tensor/half.h"
#include "gradus/gradus.h"

namespace gradus::cli {
namespace {

int exponent_of(double magnitude) { return static_cast<int>(std::bit_cast<uint64_t>(magnitude) >> 52) - 1023; }

double power_of_two(int exponent) { return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52); }

template <typename T, typename Convert>
void decode(const std::byte* from, std::span<double> to, const Convert& convert) {
    for (size_t i = 0; i < to.size(); ++i) {
        T value;
        std::memcpy(&value, from + i * sizeof(T), sizeof(T));
        to[i] = convert(value);
    }
}

template <typename T>
double widened(T value) {
    return static_cast<double>(value);
}

}  // namespace

Grid grid_of(aclDataType dtype) {
    switch (dtype) {
        case ACL_FLOAT:
            return {24, -126, 127, false};
        case ACL_FLOAT16:
            return {11, -14, 15, false};
        case ACL_BF16:
            return {8, -126, 127, false};
        case ACL_DOUBLE:
            return {53, -960, 1022, false};  // short of the real range by what a power of two as double can say
        default:
            return {64, 0, 63, true};
    }
}

double half_unit(aclDataType dtype) { return std::ldexp(1.0, -grid_of(dtype).digits); }

double Grid::ulp(double magnitude) const {
    if (integer) return 1;
    const int exponent = std::clamp(exponent_of(magnitude), least_exponent, most_exponent);
    return power_of_two(exponent - (digits - 1));
}

double Grid::top() const { return power_of_two(most_exponent + 1); }

double Grid::least_normal() const { return integer ? 0 : power_of_two(least_exponent); }

double Grid::rounded(double x) const {
    if (!std::isfinite(x) || digits > 52) return x;
    const double unit = ulp(std::abs(x)), result = std::nearbyint(x / unit) * unit;
    return std::abs(result) < top() ? result : std::copysign(HUGE_VAL, x);
}

Values::Values(const Tensor& tensor)
    : Values(tensor.dtype(), tensor.data(), tensor.count(), std::make_shared<const Tensor>(tensor)) {}

double Values::at(int64_t i) const {
    double value = 0;
    load(i, {&value, 1});
    return value;
}

void Values::load(int64_t first, std::span<double> to) const {
    const auto each = [&]<typename T>(T, auto convert) {
        decode<T>(data_ + first * static_cast<int64_t>(sizeof(T)), to, convert);
    };
    switch (dtype_) {
        case ACL_FLOAT:
            return each(float{}, widened<float>);
        case ACL_FLOAT16:
            return each(uint16_t{}, from_f16);
        case ACL_BF16:
            return each(uint16_t{}, from_bf16);
        case ACL_DOUBLE:
            return each(double{}, widened<double>);
        case ACL_INT64:
            return each(int64_t{}, widened<int64_t>);
        case ACL_INT32:
            return each(int32_t{}, widened<int32_t>);
        case ACL_UINT64:
            return each(uint64_t{}, widened<uint64_t>);
        case ACL_UINT32:
            return each(uint32_t{}, widened<uint32_t>);
        case ACL_INT16:
            return each(int16_t{}, widened<int16_t>);
        case ACL_UINT16:
            return each(uint16_t{}, widened<uint16_t>);
        case ACL_INT8:
            return each(int8_t{}, widened<int8_t>);
        default:
            return each(uint8_t{}, widened<uint8_t>);
    }
}

void in_parallel(int64_t count, const std::function<void(int64_t)>& work) {
    const char* option = gradusGetOption("num_threads");
    const int64_t most = option != nullptr ? std::atoll(option) : 1;
    std::atomic<int64_t> next = 0;
    const auto loop = [&] {
        for (int64_t i = next++; i < count; i = next++) work(i);
    };
    std::vector<std::jthread> others;
    for (int64_t i = 1; i < std::min(most, count); ++i) others.emplace_back(loop);
    loop();
}

}  // namespace gradus::cli
