// Where suspects are, in as few words as their pattern needs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "cli/judge/recognise.h"

namespace gradus::cli {
namespace {

// The entries of a count per row or column that are not zero.
struct Used {
    int64_t number = 0, least = -1, most = -1;
    std::vector<int64_t> some;  // the first few

    explicit Used(const std::vector<uint32_t>& counts) {
        for (size_t i = 0; i < counts.size(); ++i) {
            if (counts[i] == 0) continue;
            most = static_cast<int64_t>(i);
            if (number++ == 0) least = most;
            if (some.size() < 4) some.push_back(most);
        }
    }
    bool dense() const { return number == most - least + 1; }
};

std::string elements(int64_t count) { return fmt::format("{} element{}", count, count == 1 ? "" : "s"); }

Shape leading(const Shape& shape) { return {shape.begin(), shape.end() - (shape.empty() ? 0 : 1)}; }

Place few(const Suspects& s) {
    if (s.count == 1) return {"element " + index_text(s.shape, s.first), true};
    return {fmt::format("elements {} and {}", index_text(s.shape, s.first), index_text(s.shape, s.last)), false};
}

Place in_rows(const Suspects& s, const Used& rows) {
    const Shape shape = leading(s.shape);
    const auto name = [&](int64_t row) { return index_text(shape, row); };
    const std::string among = fmt::format("of {} ({} of {})", s.rows, elements(s.count), rows.number * s.columns);
    if (rows.number == 1) return {fmt::format("row {} {}", name(rows.least), among), true};
    if (rows.dense()) return {fmt::format("rows {} to {} {}", name(rows.least), name(rows.most), among), false};
    std::vector<std::string> names;
    for (const int64_t row : rows.some) names.push_back(name(row));
    return {fmt::format("rows {} {}", fmt::join(names, ", "), among), false};
}

}  // namespace

Place place(const Suspects& s) {
    if (s.count <= 2) return few(s);
    const int64_t size = s.rows * s.columns, tail = size - s.first;
    const auto at_least = [&](double share, int64_t whole) {
        return static_cast<double>(s.count) >= share * static_cast<double>(whole);
    };
    if (s.count == size) return {fmt::format("all {}", elements(s.count)), false};
    const Used rows(s.in_row), columns(s.in_column);
    // Where zeros are expected, a missing value is right by chance: numbers count.
    const auto numbers = [&](int64_t from, int64_t to) {
        return std::accumulate(s.numbers_in_column.begin() + from, s.numbers_in_column.begin() + to, int64_t{0});
    };
    const int64_t to_end = s.columns - columns.least;
    if (rows.number > 1 && 2 * to_end <= s.columns && at_least(0.75, numbers(columns.least, s.columns)))
        return {fmt::format("the last {} of every row ({})", to_end, elements(s.count)), false};
    if (rows.number > 1 && 2 * columns.most < s.columns && at_least(0.75, numbers(0, columns.most + 1)))
        return {fmt::format("the first {} of every row ({})", columns.most + 1, elements(s.count)), false};
    if (s.last == size - 1 && s.first > 0 && at_least(0.5, tail) && tail % s.columns != 0)
        return {fmt::format("the last {} of the tensor (from {} on)", tail, index_text(s.shape, s.first)), false};
    if (s.rows > 1 &&
        (rows.number <= 4 || (rows.dense() && 2 * rows.number <= s.rows && at_least(0.5, rows.number * s.columns))))
        return in_rows(s, rows);
    if (s.rows > 1 && columns.number <= 4)
        return {fmt::format("column{} {} of {} ({} in {} of {} rows)", columns.number > 1 ? "s" : "",
                            fmt::join(columns.some, ", "), s.columns, elements(s.count), rows.number, s.rows),
                columns.number == 1};
    if (s.rows == 1 && at_least(0.5, s.last - s.first + 1))
        return {
            fmt::format("elements {} to {} ({})", index_text(s.shape, s.first), index_text(s.shape, s.last), s.count),
            false};
    if (at_least(0.75, s.numbers)) return {fmt::format("almost all elements ({} of {})", s.count, size), false};
    return {fmt::format("{} in {} of {} rows (the first at {})", elements(s.count), rows.number, s.rows,
                        index_text(s.shape, s.first)),
            s.count == 1};
}

}  // namespace gradus::cli
