#include "numbers.h"

#include <cmath>
#include <cstring>

namespace gradus::testing {
namespace {

template <typename T>
T read_as(const unsigned char* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

double half_value(uint16_t bits, int exponent_bits) {
    const int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1),
              fraction = bits & ((1 << fraction_bits) - 1);
    double x;
    if (exponent == (1 << exponent_bits) - 1)
        x = fraction != 0 ? NAN : HUGE_VAL;
    else if (exponent == 0)
        x = std::ldexp(fraction, 1 - bias - fraction_bits);
    else
        x = std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
    return bits >> 15 != 0 ? -x : x;
}

// To nearest even, by looking for it among all patterns' neighbours.
uint16_t half_bits(double x, int exponent_bits) {
    const int fraction_bits = 15 - exponent_bits;
    if (std::isnan(x))
        return static_cast<uint16_t>(((1 << exponent_bits) - 1) << fraction_bits | 1 << (fraction_bits - 1));
    const uint16_t sign = std::signbit(x) ? 0x8000 : 0,
                   infinity = static_cast<uint16_t>(((1 << exponent_bits) - 1) << fraction_bits);
    const double magnitude = std::fabs(x);
    int low = 0, high = infinity;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        (half_value(static_cast<uint16_t>(middle), exponent_bits) <= magnitude ? low : high) = middle;
    }
    const double below = half_value(static_cast<uint16_t>(low), exponent_bits);
    const double above = high == infinity ? std::ldexp(1.0, 1 << (exponent_bits - 1))
                                          : half_value(static_cast<uint16_t>(high), exponent_bits);
    const double tie = below / 2 + above / 2;
    const int nearest = magnitude < tie ? low : magnitude > tie ? high : low % 2 == 0 ? low : high;
    return static_cast<uint16_t>(sign | nearest);
}

// In rank order; f32 and 16-bit floats step by step in f32, as is promised.
double combine(double a, double b, HcclReduceOp op, bool in_f32) {
    double r = 0;
    if (op == HCCL_REDUCE_SUM) r = a + b;
    if (op == HCCL_REDUCE_PROD) r = a * b;
    if (op == HCCL_REDUCE_MAX) r = std::isnan(a) || std::isnan(b) ? NAN : a > b || (a == b && std::signbit(b)) ? a : b;
    if (op == HCCL_REDUCE_MIN) r = std::isnan(a) || std::isnan(b) ? NAN : a < b || (a == b && std::signbit(a)) ? a : b;
    return in_f32 ? static_cast<double>(static_cast<float>(r)) : r;
}

// Integers modulo 2^64; the low bytes are those of any width.
uint64_t combine(uint64_t a, uint64_t b, HcclReduceOp op, bool is_signed) {
    if (op == HCCL_REDUCE_SUM) return a + b;
    if (op == HCCL_REDUCE_PROD) return a * b;
    const bool less = is_signed ? static_cast<int64_t>(a) < static_cast<int64_t>(b) : a < b;
    return less == (op == HCCL_REDUCE_MIN) ? a : b;
}

uint64_t integer_at(const unsigned char* at, const Type& t) {
    switch (t.type) {
        case HCCL_DATA_TYPE_INT8:
            return static_cast<uint64_t>(read_as<int8_t>(at));
        case HCCL_DATA_TYPE_INT16:
            return static_cast<uint64_t>(read_as<int16_t>(at));
        case HCCL_DATA_TYPE_INT32:
            return static_cast<uint64_t>(read_as<int32_t>(at));
        case HCCL_DATA_TYPE_UINT8:
            return read_as<uint8_t>(at);
        case HCCL_DATA_TYPE_UINT16:
            return read_as<uint16_t>(at);
        case HCCL_DATA_TYPE_UINT32:
            return read_as<uint32_t>(at);
        default:
            return read_as<uint64_t>(at);
    }
}

}  // namespace

Bytes expected_reduction(const std::vector<Bytes>& inputs, const Type& t, HcclReduceOp op) {
    Bytes result(inputs[0].size());
    for (size_t i = 0; i * t.size < result.size(); ++i) {
        const auto at = [&](size_t r) { return inputs[r].data() + i * t.size; };
        unsigned char* const to = result.data() + i * t.size;
        const bool f32 = t.type == HCCL_DATA_TYPE_FP32, f64 = t.type == HCCL_DATA_TYPE_FP64;
        const int half = t.type == HCCL_DATA_TYPE_FP16 ? 5 : t.type == HCCL_DATA_TYPE_BFP16 ? 8 : 0;
        if (f32 || f64 || half != 0) {
            const auto value = [&](size_t r) {
                return f32   ? static_cast<double>(read_as<float>(at(r)))
                       : f64 ? read_as<double>(at(r))
                             : half_value(read_as<uint16_t>(at(r)), half);
            };
            double total = value(0);
            for (size_t r = 1; r < inputs.size(); ++r) total = combine(total, value(r), op, !f64);
            if (std::isnan(total)) total = std::fabs(total);
            if (f32) {
                const float x = static_cast<float>(total);
                std::memcpy(to, &x, 4);
            } else if (f64) {
                std::memcpy(to, &total, 8);
            } else {
                const uint16_t x = half_bits(total, half);
                std::memcpy(to, &x, 2);
            }
        } else {
            const bool is_signed = t.type <= HCCL_DATA_TYPE_INT32 || t.type == HCCL_DATA_TYPE_INT64;
            uint64_t total = integer_at(at(0), t);
            for (size_t r = 1; r < inputs.size(); ++r) total = combine(total, integer_at(at(r), t), op, is_signed);
            std::memcpy(to, &total, t.size);
        }
    }
    return result;
}

Bytes input(const Type& t, size_t count, uint32_t rank, bool special) {
    Bytes bytes(count * t.size);
    uint32_t state = 12345 + rank * 7919;
    const auto random = [&] { return state = state * 1664525u + 1013904223u; };
    for (size_t i = 0; i < count; ++i) {
        unsigned char* const to = bytes.data() + i * t.size;
        double x = static_cast<double>(static_cast<int32_t>(random())) / 1073741824.0;
        const uint32_t kind = random() >> 8 & 63;
        if (special && kind < 6)
            x = kind == 0   ? 0.0
                : kind == 1 ? -0.0
                : kind == 2 ? HUGE_VAL
                : kind == 3 ? -HUGE_VAL
                : kind == 4 ? NAN
                            : 1e-41;
        if (t.type == HCCL_DATA_TYPE_FP32) {
            const float f = static_cast<float>(x);
            std::memcpy(to, &f, 4);
        } else if (t.type == HCCL_DATA_TYPE_FP64) {
            std::memcpy(to, &x, 8);
        } else if (t.type == HCCL_DATA_TYPE_FP16 || t.type == HCCL_DATA_TYPE_BFP16) {
            const uint16_t h = half_bits(x, t.type == HCCL_DATA_TYPE_FP16 ? 5 : 8);
            std::memcpy(to, &h, 2);
        } else {
            for (size_t b = 0; b < t.size; ++b) to[b] = static_cast<unsigned char>(random() >> 16);
        }
    }
    return bytes;
}

Bytes slice(const Bytes& bytes, size_t begin, size_t count) {
    return {bytes.begin() + static_cast<long>(begin), bytes.begin() + static_cast<long>(begin + count)};
}

}  // namespace gradus::testing
