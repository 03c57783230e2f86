// Where errors are, in as few words as their pattern needs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "cli/judge/errors.h"

namespace gradus::cli {
namespace {

// The entries of a count per row, column or index of a dim that are not zero.
struct Used {
    int64_t number = 0, least = -1, most = -1, size = 0;
    std::vector<int64_t> some;  // the first few

    explicit Used(const std::vector<uint32_t>& counts) : size(static_cast<int64_t>(counts.size())) {
        for (size_t i = 0; i < counts.size(); ++i) {
            if (counts[i] == 0) continue;
            most = static_cast<int64_t>(i);
            if (number++ == 0) least = most;
            if (some.size() < 4) some.push_back(most);
        }
    }
    bool dense() const { return number == most - least + 1; }
    std::string words() const {
        if (number == 1) return fmt::format("{}", least);
        if (dense()) return fmt::format("{} to {}", least, most);
        return fmt::format("{}{}", fmt::join(some, ", "), number > 4 ? " ..." : "");
    }
};

Shape leading(const Shape& shape) { return {shape.begin(), shape.end() - (shape.empty() ? 0 : 1)}; }

class Places {
  public:
    Places(const Surface& surface, const Indices& indices, int64_t step)
        : s_(surface),
          at_(indices),
          count_(static_cast<int64_t>(indices.size()) * step),
          exact_(step == 1),
          rows_(by(surface.columns, surface.rows)),
          columns_(by(1, surface.columns)) {}

    Place find() const {
        const int64_t size = s_.rows * s_.columns;
        if (at_.empty()) return {"nothing", true};
        if (exact_ && count_ == 1) return {"element " + index_text(s_.shape, at_.front()), true};
        if (exact_ && count_ == 2)
            return {fmt::format("elements {} and {}", index_text(s_.shape, at_[0]), index_text(s_.shape, at_[1])),
                    false};
        if (count_ >= size || (at_least(0.95, s_.numbers) && count_ >= 8)) return {"everything", true};
        if (auto found = edge_of_rows()) return *found;
        const int64_t tail = size - at_.front();
        if (at_.back() == size - 1 && at_.front() > 0 && at_least(0.5, tail) && tail % s_.columns != 0)
            return {fmt::format("the last {} of the tensor (from {} on)", tail, index_text(s_.shape, at_.front())),
                    false};
        if (s_.rows > 1 && rows_.number <= 4) return in_rows();
        if (auto found = in_a_dim()) return *found;
        if (s_.rows > 1 && rows_.dense() && 2 * rows_.number <= s_.rows && at_least(0.5, rows_.number * s_.columns))
            return in_rows();
        if (s_.rows > 1 && columns_.number <= 4)
            return {fmt::format("column{} {} of {} ({} in {} of {} rows)", columns_.number > 1 ? "s" : "",
                                columns_.words(), s_.columns, elements(), rows_.number, s_.rows),
                    columns_.number == 1};
        if (s_.rows == 1 && at_least(0.5, at_.back() - at_.front() + 1))
            return {fmt::format("elements {} to {} ({})", index_text(s_.shape, at_.front()),
                                index_text(s_.shape, at_.back()), count_),
                    false};
        if (at_least(0.75, s_.numbers)) return {fmt::format("almost all elements ({} of {})", count_, size), false};
        std::string where = fmt::format("{} in {} of {} rows", elements(), rows_.number, s_.rows);
        if (s_.rows > 1 && 2 * (columns_.most - columns_.least + 1) <= s_.columns)
            where += fmt::format(", columns {} to {}", columns_.least, columns_.most);
        return {fmt::format("{} (the first at {})", where, index_text(s_.shape, at_.front())), false};
    }

  private:
    // How many there are at each index of a dim.
    Used by(int64_t stride, int64_t size) const {
        std::vector<uint32_t> counts(static_cast<size_t>(std::max<int64_t>(1, size)), 0);
        for (const int64_t i : at_) ++counts[static_cast<size_t>(i / stride % size)];
        return Used(counts);
    }
    std::string elements() const { return fmt::format("{}{} elements", exact_ ? "" : "about ", count_); }
    bool at_least(double share, int64_t whole) const {
        return static_cast<double>(count_) >= share * static_cast<double>(whole);
    }

    std::optional<Place> edge_of_rows() const {
        // Where zeros are expected, a missing value is right by chance: numbers count.
        const auto numbers = [&](int64_t from, int64_t to) {
            const auto begin = s_.numbers_in_column.begin();
            return std::accumulate(begin + from, begin + to, int64_t{0});
        };
        const int64_t to_end = s_.columns - columns_.least;
        if (rows_.number <= 1) return {};
        if (2 * to_end <= s_.columns && at_least(0.75, numbers(columns_.least, s_.columns)))
            return Place{fmt::format("the last {} of every row ({})", to_end, elements()), false};
        if (2 * columns_.most < s_.columns && at_least(0.75, numbers(0, columns_.most + 1)))
            return Place{fmt::format("the first {} of every row ({})", columns_.most + 1, elements()), false};
        return {};
    }

    Place in_rows() const {
        const Shape shape = leading(s_.shape);
        const auto name = [&](int64_t row) { return index_text(shape, row); };
        const std::string among = fmt::format("of {} ({} of {})", s_.rows, elements(), rows_.number * s_.columns);
        if (rows_.number == 1) return {fmt::format("row {} {}", name(rows_.least), among), true};
        if (rows_.dense()) return {fmt::format("rows {} to {} {}", name(rows_.least), name(rows_.most), among), false};
        std::vector<std::string> names;
        for (const int64_t row : rows_.some) names.push_back(name(row));
        return {fmt::format("rows {} {}", fmt::join(names, ", "), among), false};
    }

    // All that is wrong has a few indices of one dim in common: a head, a batch.
    std::optional<Place> in_a_dim() const {
        int64_t stride = s_.columns;
        for (size_t d = s_.shape.size() - 1; d-- > 0; stride *= s_.shape[d]) {
            const int64_t size = s_.shape[d];
            if (size < 2) continue;
            const Used used = by(stride, size);
            if (2 * used.number > size || (!used.dense() && used.number > 4)) continue;
            const std::string name = d < s_.dims.size() ? s_.dims[d] : fmt::format("dim {}", d);
            return Place{fmt::format("everything at {} = {} of {} ({})", name, used.words(), size, elements()), true};
        }
        return {};
    }

    const Surface& s_;
    const Indices& at_;
    const int64_t count_;
    const bool exact_;
    const Used rows_, columns_;
};

}  // namespace

Surface::Surface(const Subject& subject) : shape(subject.shape), dims(subject.dims) {
    columns = shape.empty() ? 1 : std::max<int64_t>(1, shape.back());
    rows = std::max<int64_t>(1, subject.got.count() / columns);
    numbers_in_column.assign(static_cast<size_t>(columns), 0);
    std::vector<double> row(static_cast<size_t>(columns));
    for (int64_t r = 0; r < subject.got.count() / columns; ++r) {
        subject.want.load(r * columns, row);
        for (size_t c = 0; c < row.size(); ++c) numbers_in_column[c] += row[c] != 0;
    }
    for (const uint32_t count : numbers_in_column) numbers += count;
}

Place place(const Surface& surface, const Indices& indices, int64_t step) {
    return Places(surface, indices, step).find();
}

}  // namespace gradus::cli
