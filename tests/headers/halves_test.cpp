// op::fp16_t and op::bfloat16 against arithmetic in double: every bit pattern, and every boundary between two of them.
#include "aclnn/opdev/bfloat16.h"
#include "aclnn/opdev/fp16_t.h"

#include <cmath>
#include <cstdio>
#include <limits>
#include <sstream>
#include <type_traits>
#include <vector>

namespace {

int failures = 0;

const int kMostMessages = 20;

void expect(bool good, const char* type, const char* what) {
    if (good || ++failures > kMostMessages) return;
    std::fprintf(stderr, "%s: failed: %s\n", type, what);
}

void expect_at(unsigned bits, bool good, const char* type, const char* what) {
    if (good || ++failures > kMostMessages) return;
    std::fprintf(stderr, "%s at 0x%04x: failed: %s\n", type, bits, what);
}

void expect_bits(unsigned got, unsigned want, const char* what) {
    if (got == want || ++failures > kMostMessages) return;
    std::fprintf(stderr, "%s: got 0x%04x, expected 0x%04x\n", what, got, want);
}

uint16_t bits_of(op::fp16_t half) { return half.val; }
uint16_t bits_of(op::bfloat16 half) { return half.value; }

template <typename Half>
struct Format;
template <>
struct Format<op::fp16_t> {
    static const char* name() { return "fp16_t"; }
    enum { exponent_bits = 5, mantissa_bits = 10, infinity = 0x7c00 };
};
template <>
struct Format<op::bfloat16> {
    static const char* name() { return "bfloat16"; }
    enum { exponent_bits = 8, mantissa_bits = 7, infinity = 0x7f80 };
};

// What the positive pattern stands for; for infinity, the power of two that it rounds like.
template <typename Half>
double meaning(unsigned bits) {
    const int mantissa_bits = Format<Half>::mantissa_bits;
    const int bias = (1 << (Format<Half>::exponent_bits - 1)) - 1;
    const int exponent = static_cast<int>(bits >> mantissa_bits);
    const int mantissa = static_cast<int>(bits & ((1u << mantissa_bits) - 1));
    if (exponent == 0) return std::ldexp(mantissa, 1 - bias - mantissa_bits);
    return std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

template <typename Half>
void check_every_pattern() {
    const char* name = Format<Half>::name();
    const unsigned infinity = Format<Half>::infinity;
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
        const Half half = Half::from_bits(static_cast<uint16_t>(bits));
        const float wide = half;
        const unsigned magnitude = bits & 0x7fff;
        expect_at(bits, bits_of(Half(wide)) == bits, name, "comes back from float");
        expect_at(bits, std::signbit(wide) == (bits >> 15 != 0), name, "keeps its sign");
        if (magnitude > infinity) {
            expect_at(bits, std::isnan(wide), name, "is a NaN");
            expect_at(bits, (bits_of(Half(static_cast<double>(wide))) & 0x7fff) > infinity, name,
                      "is a NaN from double");
            expect_at(bits, half != half, name, "a NaN differs from itself");
            continue;
        }
        expect_at(bits, bits_of(Half(static_cast<double>(wide))) == bits, name, "comes back from double");
        const double value = magnitude == infinity ? std::numeric_limits<double>::infinity() : meaning<Half>(magnitude);
        expect_at(bits, std::fabs(static_cast<double>(wide)) == value, name, "has its value");
    }
}

// Halfway between neighbours goes to the even one, and the least bit beyond halfway decides.
template <typename Half, typename Number>
void check_every_tie() {
    const char* name = Format<Half>::name();
    const Number beyond = std::numeric_limits<Number>::infinity();
    for (unsigned low = 0; low < Format<Half>::infinity; ++low) {
        const Number tie = static_cast<Number>((meaning<Half>(low) + meaning<Half>(low + 1)) / 2);
        const unsigned even = (low & 1) == 0 ? low : low + 1;
        expect_at(low, bits_of(Half(tie)) == even, name, "the tie above it goes to even");
        expect_at(low, bits_of(Half(-tie)) == (even | 0x8000), name, "the negative tie goes to even");
        expect_at(low, bits_of(Half(std::nextafter(tie, Number(0)))) == low, name, "just below the tie goes down");
        expect_at(low, bits_of(Half(std::nextafter(tie, beyond))) == low + 1, name, "just above the tie goes up");
    }
    expect_bits(bits_of(Half(std::numeric_limits<Number>::max())), Format<Half>::infinity, "largest");
    expect_bits(bits_of(Half(-std::numeric_limits<Number>::max())), Format<Half>::infinity | 0x8000, "lowest");
    expect_bits(bits_of(Half(std::numeric_limits<Number>::denorm_min())), 0, "smallest");
    expect_bits(bits_of(Half(-std::numeric_limits<Number>::denorm_min())), 0x8000, "smallest negative");
}

void check_single_rounding() {
    expect_bits(op::fp16_t(1 + std::ldexp(1, -11) + std::ldexp(1, -40)).val, 0x3c01, "fp16_t(1 + 2^-11 + 2^-40)");
    expect_bits(op::fp16_t(1 + std::ldexp(1, -11)).val, 0x3c00, "fp16_t(1 + 2^-11)");
    expect_bits(op::fp16_t(1 + std::ldexp(3, -11) - std::ldexp(1, -40)).val, 0x3c01, "fp16_t(1 + 3*2^-11 - 2^-40)");
    expect_bits(op::bfloat16(1 + std::ldexp(1, -8) + std::ldexp(1, -40)).value, 0x3f81, "bfloat16(1 + 2^-8 + 2^-40)");
    expect_bits(op::fp16_t(65520.0).val, 0x7c00, "fp16_t(65520)");
    expect_bits(op::fp16_t(65519.999).val, 0x7bff, "fp16_t(65519.999)");
    // A NaN whose payload is all in the bits that go must stay one.
    uint64_t bits = UINT64_C(0x7ff0000000000001);
    double nan;
    std::memcpy(&nan, &bits, sizeof nan);
    expect(std::isnan(static_cast<float>(op::fp16_t(nan))), "fp16_t", "a short NaN stays one");
    expect(std::isnan(static_cast<float>(op::bfloat16(nan))), "bfloat16", "a short NaN stays one");
}

void check_integers() {
    expect_bits(op::fp16_t(2049).val, 0x6800, "fp16_t(2049)");
    expect_bits(op::fp16_t(-2051).val, 0xe802, "fp16_t(-2051)");
    expect_bits(op::fp16_t(65519u).val, 0x7bff, "fp16_t(65519u)");
    expect_bits(op::fp16_t(65520L).val, 0x7c00, "fp16_t(65520L)");
    expect_bits(op::fp16_t(std::numeric_limits<int64_t>::min()).val, 0xfc00, "fp16_t(INT64_MIN)");
    expect_bits(op::fp16_t(true).val, 0x3c00, "fp16_t(true)");
    expect_bits(op::fp16_t(static_cast<signed char>(-1)).val, 0xbc00, "fp16_t(signed char -1)");
    expect_bits(op::fp16_t(0).val, 0, "fp16_t(0)");
    expect_bits(op::bfloat16(257).value, 0x4380, "bfloat16(257)");
    expect_bits(op::bfloat16(259).value, 0x4382, "bfloat16(259)");
    expect_bits(op::bfloat16(std::numeric_limits<int64_t>::min()).value, 0xdf00, "bfloat16(INT64_MIN)");
    expect_bits(op::bfloat16(std::numeric_limits<uint64_t>::max()).value, 0x5f80, "bfloat16(UINT64_MAX)");
    // One above a tie, in a bit that a double no longer has.
    const int64_t tie = (INT64_C(1) << 60) + (INT64_C(1) << 52);
    expect_bits(op::bfloat16(tie).value, 0x5d80, "bfloat16(2^60 + 2^52)");
    expect_bits(op::bfloat16(tie + 1).value, 0x5d81, "bfloat16(2^60 + 2^52 + 1)");
    expect_bits(op::bfloat16(-tie - 1).value, 0xdd81, "bfloat16(-2^60 - 2^52 - 1)");
}

template <typename Half>
void check_use_as_a_value() {
    static_assert(sizeof(Half) == 2 && std::is_trivially_copyable<Half>::value, "copied to devices as raw memory");
    const char* name = Format<Half>::name();
    const std::vector<Half> numbers = {1.0f, 2.0, 3, Half(), 2u};
    expect(numbers[0] < numbers[1] && numbers[2] > 2 && numbers[1] == numbers[4], name, "compares");
    expect(numbers[1] == 2.0f && numbers[1] != 2.5 && numbers[1] <= numbers[2], name, "compares");
    expect(numbers[3] == 0 && Half(-0.0) == Half(0.0), name, "zeros are equal");
    expect(numbers[1] * numbers[2] - 1 == 5.0f, name, "computes");
    std::ostringstream text;
    text << numbers[0] << ' ' << Half(0.5);
    expect(text.str() == "1 0.5", name, "prints");
}

template <typename Half>
void check() {
    check_every_pattern<Half>();
    check_every_tie<Half, float>();
    check_every_tie<Half, double>();
    check_use_as_a_value<Half>();
}

}  // namespace

int main() {
    check<op::fp16_t>();
    check<op::bfloat16>();
    check_single_rounding();
    check_integers();
    if (failures != 0) std::fprintf(stderr, "%d checks failed\n", failures);
    return failures == 0 ? 0 : 1;
}
