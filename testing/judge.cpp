#include "testing/judge.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

namespace gradus::testing {
namespace {

struct Grid {
    int digits, least_exponent, most_exponent;
};

Grid grid(aclDataType type) {
    if (type == ACL_FLOAT16) return {11, -14, 15};
    if (type == ACL_BF16) return {8, -126, 127};
    if (type == ACL_DOUBLE) return {53, -1022, 1023};
    return {24, -126, 127};
}

double top(aclDataType type) { return std::ldexp(1.0, grid(type).most_exponent + 1); }

double clamp_finite(double x, double limit) { return std::clamp(x, -limit, limit); }

}  // namespace

double ulp32(double x) { return 2 * kU * std::fabs(x) + 0x1p-149; }

double ulp(double x, aclDataType type) {
    const Grid g = grid(type);
    if (!std::isfinite(x)) x = top(type);
    const int exponent =
        x == 0 ? g.least_exponent : std::max(std::ilogb(std::min(std::fabs(x), top(type))), g.least_exponent);
    return std::ldexp(1.0, exponent - (g.digits - 1));
}

double rounded(double x, aclDataType type) {
    if (!std::isfinite(x)) return x;
    const double unit = ulp(x, type), r = std::nearbyint(x / unit) * unit;
    return std::fabs(r) >= top(type) ? std::copysign(HUGE_VAL, r) : std::copysign(r, x);
}

bool is_the_nan(const Array& a, int64_t i) {
    const std::byte* const at = a.bytes.data() + i * a.item();
    const auto equals = [at](auto bits) { return std::memcmp(at, &bits, sizeof bits) == 0; };
    if (a.type == ACL_DOUBLE) return equals(uint64_t{0x7FF8000000000000});
    if (a.type == ACL_FLOAT) return equals(uint32_t{0x7FC00000});
    return equals(uint16_t{a.type == ACL_FLOAT16 ? uint16_t{0x7E00} : uint16_t{0x7FC0}});
}

double sum_factor(double n) { return (8 + std::log2(std::max(n, 1.0))) * kU; }

std::string judge(const Array& got, const std::vector<double>& want, const std::vector<double>& slack,
                  Promise promise) {
    const double limit = top(got.type);
    int64_t bad = 0, worst = -1;
    double worst_ratio = -1, worst_bound = 0;
    for (int64_t i = 0; i < got.size(); ++i) {
        const auto k = static_cast<size_t>(i);
        const double g = got.at(i), w = want[k];
        double centre = w, bound = slack[k];
        if (promise == Promise::summed)
            bound += 0.5 * ulp(std::fabs(w) + slack[k], got.type);
        else if (got.type != ACL_FLOAT)
            centre = rounded(w, got.type), bound += ulp(centre, got.type);
        const double error = std::fabs(clamp_finite(g, limit) - clamp_finite(centre, limit));
        bool ok = error <= bound;
        if (std::isnan(w))
            ok = is_the_nan(got, i);
        else if (std::isinf(w))
            ok = g == w;
        if (ok) continue;
        ++bad;
        const double ratio = std::isfinite(error / bound) ? error / bound : HUGE_VAL;
        if (ratio > worst_ratio) worst = i, worst_ratio = ratio, worst_bound = bound;
    }
    if (bad == 0) return {};
    std::ostringstream text;
    text.precision(9);
    text << bad << " of " << got.size() << " elements out of bounds, worst at flat index " << worst << " of "
         << testing::text(got.shape) << " " << type_name(got.type) << ": got " << got.at(worst) << ", expected "
         << rounded(want[static_cast<size_t>(worst)], got.type) << ", allowed error " << worst_bound;
    return text.str();
}

std::string judge_by_cann(const Array& got, const std::vector<double>& want, Promise promise) {
    const bool f16 = got.type == ACL_FLOAT16, f32 = got.type == ACL_FLOAT;
    const double relative = f16 ? 0x1p-9 : f32 ? 0x1p-10 : 0x1p-6, absolute = f16 ? 0x1p-9 : f32 ? 0x1p-16 : 0x1p-6;
    const double mean_limit = f16 ? 0x1p-10 : f32 ? 0x1p-13 : 0x1p-7;
    double finite = 0, close = 0, same = 0, mean = 0, square = 0;
    for (int64_t i = 0; i < got.size(); ++i) {
        const double g = got.at(i), w = rounded(want[static_cast<size_t>(i)], got.type);
        if (!std::isfinite(w)) continue;
        if (!std::isfinite(g)) return "a result is not finite where the reference is";
        ++finite;
        close += std::fabs(g - w) <= (absolute + relative * std::fabs(w)) / 4;
        same += g == w;
        mean += std::fabs(g - w) / (std::fabs(w) + 1e-7);
        square += w * w;
    }
    if (finite < 1000) return {};  // shares of few elements say nothing
    std::ostringstream text;
    // roundings stated for intermediates err by eps·rms; the absolute part covers them for small results only
    if ((promise == Promise::elementwise || square / finite <= 0.25) && close / finite < 0.99)
        text << "only " << 100 * close / finite << " % within a quarter of CANN's tolerance, 99 % wanted";
    else if (promise == Promise::elementwise && mean / finite >= mean_limit / 4)
        text << "mean relative error " << mean / finite << ", less than " << mean_limit / 4 << " wanted";
    else if (promise == Promise::elementwise && !f32 && same / finite < 0.98)
        text << "only " << 100 * same / finite << " % equal the reference rounded once; f32 inside gives over 99 %";
    return text.str();
}

const char* fault_name(Fault fault) {
    static const char* const names[] = {"sign", "one off", "missing tail", "truncation", "bf16 inside", "stale row"};
    return names[static_cast<int>(fault)];
}

Array plant(Fault fault, aclDataType type, const Shape& shape, const std::vector<double>& want) {
    Array array(type, shape);
    const int64_t n = array.size(), row = shape.back();
    const auto smaller = [](double a, double b) { return std::fabs(a) < std::fabs(b); };
    const int64_t largest = std::ranges::max_element(want, smaller) - want.begin();
    int64_t tail = n - std::min<int64_t>(3, n);  // or more, where those are near 0: masked, say
    while (tail > largest &&
           std::fabs(want[static_cast<size_t>(tail)]) < std::fabs(want[static_cast<size_t>(largest)]) / 16)
        --tail;
    for (int64_t i = 0; i < n; ++i) {
        const double w = want[static_cast<size_t>(i)];
        double value = w;
        if (fault == Fault::sign && i == largest) value = -w;  // of one near 0 it would be no fault
        if (fault == Fault::one_off && i > n / 2) value = want[static_cast<size_t>(i - 1)];
        if (fault == Fault::missing_tail && i >= tail) value = 0;
        if (fault == Fault::truncation) {
            const double unit = ulp(w, type);
            value = std::trunc(w / unit) * unit;
            if (type == ACL_FLOAT) value = rounded(w, ACL_FLOAT16);  // f32 itself cannot be told from truncated f32
        }
        if (fault == Fault::bf16_inside) value = rounded(w, ACL_BF16) * (1 + (i % 2 != 0 ? 0x1p-8 : -0x1p-8));
        if (fault == Fault::stale_row && i / row == 1) value = want[static_cast<size_t>(i - row)];
        array.set(i, value);
    }
    return array;
}

}  // namespace gradus::testing
