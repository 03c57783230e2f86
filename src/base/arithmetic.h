// Whole units: how many of them hold n, and n made up to them.
#pragma once

#include <cstdint>

namespace gradus {

constexpr int64_t ceil_div(int64_t n, int64_t unit) { return (n + unit - 1) / unit; }
constexpr int64_t round_up(int64_t n, int64_t unit) { return ceil_div(n, unit) * unit; }
static_assert(ceil_div(0, 4) == 0 && ceil_div(7, 4) == 2 && ceil_div(8, 4) == 2 && round_up(9, 4) == 12);

}  // namespace gradus
