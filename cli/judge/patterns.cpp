// What errors have in common: each hypothesis says what an element would hold if it were so; those that most elements
// agree with are the answer.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>

#include "cli/judge/errors.h"

namespace gradus::cli {
namespace {

constexpr size_t kMostCompared = 8192;  // of the errors, for one hypothesis

struct Expected {
    double value, magnitude;
};

struct Hypothesis {
    std::string one, many;  // "is zero", "are zero"
    std::function<std::optional<Expected>(int64_t index)> expected;
    int64_t least = 1;  // elements to agree before it is more than chance
    double enough = 0.5;
    bool certain = true;  // sums of few bits do not look like that
    bool factor = false;  // which one such sum leaves in its own row
    bool one_number = false;
};

class Recogniser {
  public:
    Recogniser(const Subject& subject, const Tolerance& tolerance, const Surface& surface, double slack)
        : s_(subject), tolerance_(tolerance), surface_(surface), lines_(subject), slack_(slack) {
        // in few bits, neighbours are alike by chance
        few_ = tolerance.grid.digits > 11 ? 2 : 8;
    }

    Explained explain(const Errors& errors) {
        Explained found;
        found.rest = errors.at;
        const auto all = static_cast<double>(errors.at.size());
        for (int round = 0; round < 3 && !found.rest.empty(); ++round) {
            // what is left beside a cause may be the seam of it
            if (round > 0 && static_cast<double>(found.rest.size()) < 0.01 * all) break;
            Indices explained = best(found.rest);
            if (explained.empty()) break;
            if (round == 0) {
                found.certain = best_.certain && !(best_.factor && in_one_row(explained));
                found.one_number = best_.one_number && found.certain;
            }
            const Place where = place(surface_, explained, errors.step);
            found.causes.push_back({static_cast<double>(explained.size()) / all,
                                    where.words + " " + (where.singular ? best_.one : best_.many)});
            Indices rest;
            std::set_difference(found.rest.begin(), found.rest.end(), explained.begin(), explained.end(),
                                std::back_inserter(rest));
            found.rest = std::move(rest);
        }
        return found;
    }

  private:
    bool in_one_row(const Indices& indices) const {
        return surface_.rows > 1 && indices.front() / surface_.columns == indices.back() / surface_.columns;
    }

    bool agrees(const Hypothesis& h, int64_t index) const {
        const std::optional<Expected> e = h.expected(index);
        if (!e) return false;
        const double g = s_.got.at(index), off = std::abs(g - e->value);
        if (std::isnan(g)) return std::isnan(e->value);
        if (off == 0) return g != s_.want.at(index);
        return off <= 2 * tolerance_.within(std::max(slack_, tolerance_.kept_share), e->value, e->magnitude) &&
               off <= 0.25 * std::abs(g - s_.want.at(index));
    }

    // The errors that the best hypothesis explains; it is kept in best_.
    Indices best(const Indices& errors) {
        const size_t stride = std::max<size_t>(1, errors.size() / kMostCompared);
        double most = 0;
        for (const Hypothesis& h : hypotheses(errors)) {
            size_t agreed = 0, compared = 0;
            for (size_t n = 0; n < errors.size(); n += stride) {
                agreed += agrees(h, errors[n]), ++compared;
                if (compared == 256 && agreed == 0) break;
            }
            const double share = static_cast<double>(agreed) / static_cast<double>(compared);
            const bool enough = static_cast<int64_t>(agreed * stride) >= h.least && share > h.enough;
            if (enough && share > most + 0.01) most = share, best_ = h;
        }
        Indices explained;
        if (most > 0)
            for (const int64_t index : errors)
                if (agrees(best_, index)) explained.push_back(index);
        return explained;
    }

    Expected of(int64_t source) const { return {s_.want.at(source), lines_.magnitude_at(source)}; }

    std::vector<Hypothesis> hypotheses(const Indices& errors) const {
        std::vector<Hypothesis> all;
        const auto want = [this](int64_t i) { return s_.want.at(i); };
        all.push_back({"is NaN", "are NaN", [](int64_t) { return Expected{NAN, 0}; }});
        all.push_back({"is zero, as if it had not been written", "are zero, as if they had not been written",
                       [want](int64_t i) -> std::optional<Expected> {
                           if (want(i) == 0) return {};
                           return Expected{0, 0};
                       },
                       1, 0.3});
        all.push_back({"has the opposite sign", "have the opposite sign",
                       [this](int64_t i) -> std::optional<Expected> {
                           const Expected e = of(i);
                           return Expected{-e.value, e.magnitude};
                       },
                       1, 0.3});
        add_constant(all, errors);
        add_factor(all, errors);
        add_offset(all, errors);
        add_unexpected(all);
        if (s_.allowance.exact && s_.got.dtype() == ACL_UINT8) add_bits(all);
        add_moves(all);
        add_rows(all, errors);
        add_own_factors(all);
        return all;
    }

    // The value that most of them hold.
    void add_constant(std::vector<Hypothesis>& all, const Indices& errors) const {
        std::map<double, int64_t> counts;
        const size_t stride = std::max<size_t>(1, errors.size() / 1024);
        for (size_t n = 0; n < errors.size(); n += stride)
            if (const double g = s_.got.at(errors[n]); std::isfinite(g) && g != 0) ++counts[g];
        const auto most = std::max_element(counts.begin(), counts.end(),
                                           [](const auto& a, const auto& b) { return a.second < b.second; });
        if (most == counts.end() || most->second < 4) return;
        const double value = most->first;
        std::set<double> wanted;  // a constant that is rounded is a constant
        for (size_t n = 0; n < errors.size() && wanted.size() < 2; n += stride)
            if (s_.got.at(errors[n]) == value) wanted.insert(s_.want.at(errors[n]));
        if (wanted.size() < 2) return;
        all.push_back({fmt::format("holds {:g}", value), fmt::format("all hold {:g}", value),
                       [value](int64_t) {
                           return Expected{value, 0};
                       },
                       4});
    }

    static std::string factor_words(double factor) {
        const double whole = std::round(1 / factor);
        const bool inverse = std::abs(factor) < 0.9 && std::abs(1 / factor / whole - 1) < 1e-3;
        return fmt::format("{:.4g}{} times the expected", factor, inverse ? fmt::format(" (1/{:g})", whole) : "");
    }

    // The middle of got/want over some elements, where both say something.
    double middle_factor(const Indices& errors, size_t stride) const {
        std::vector<double> factors;
        for (size_t n = 0; n < errors.size(); n += stride) {
            const double w = s_.want.at(errors[n]), g = s_.got.at(errors[n]);
            if (std::isfinite(g) && std::isfinite(w) && w != 0) factors.push_back(g / w);
        }
        if (factors.empty()) return 1;
        std::nth_element(factors.begin(), factors.begin() + static_cast<int64_t>(factors.size() / 2), factors.end());
        return factors[factors.size() / 2];
    }

    // A factor that rounding could make, a scale in 16 bits, is none.
    bool is_factor(double factor) const {
        return std::isfinite(factor) && std::abs(factor - 1) > std::max(4 * slack_, 16 * tolerance_.kept_share) &&
               std::abs(factor - 1) > 1e-4 && std::abs(factor + 1) > 1e-3 && factor != 0;
    }

    void add_factor(std::vector<Hypothesis>& all, const Indices& errors) const {
        const double factor = middle_factor(errors, std::max<size_t>(1, errors.size() / 1024));
        if (!is_factor(factor)) return;
        all.push_back({"is " + factor_words(factor), "are " + factor_words(factor),
                       [this, factor](int64_t i) -> std::optional<Expected> {
                           const Expected e = of(i);
                           return Expected{factor * e.value, std::abs(factor) * e.magnitude};
                       },
                       4, std::abs(factor - 1) < 0.0625 ? 0.9 : 0.5,  // errors to one side are no factor yet
                       true, true, true});
    }

    // The same number is added to all of them.
    void add_offset(std::vector<Hypothesis>& all, const Indices& errors) const {
        const size_t stride = std::max<size_t>(1, errors.size() / 1024);
        std::vector<double> offsets;
        std::set<double> wanted;
        for (size_t n = 0; n < errors.size(); n += stride) {
            const double w = s_.want.at(errors[n]), off = s_.got.at(errors[n]) - w;
            if (std::isfinite(off)) offsets.push_back(off), wanted.insert(w);
        }
        if (offsets.size() < 8 || wanted.size() < 8) return;
        std::nth_element(offsets.begin(), offsets.begin() + static_cast<int64_t>(offsets.size() / 2), offsets.end());
        const double offset = offsets[offsets.size() / 2];
        if (offset == 0) return;
        const std::string words =
            fmt::format("the expected {} {:.4g}", offset > 0 ? "plus" : "minus", std::abs(offset));
        all.push_back({"is " + words, "are " + words,
                       [this, offset](int64_t i) -> std::optional<Expected> {
                           const Expected e = of(i);
                           return Expected{e.value + offset, e.magnitude};
                       },
                       8, 0.9, true, false, true});
    }

    // Every row has a factor of its own: a wrong sum that it was divided by.
    void add_own_factors(std::vector<Hypothesis>& all) const {
        if (surface_.rows < 2 || surface_.columns < 8) return;
        const auto factors = std::make_shared<std::map<int64_t, double>>();
        all.push_back({"is the expected times a factor of its own in every row",
                       "are the expected times a factor of its own in every row",
                       [this, factors](int64_t i) -> std::optional<Expected> {
                           const auto [found, is_new] = factors->emplace(i / surface_.columns, 1.0);
                           if (is_new) found->second = factor_of_row(found->first);
                           if (!is_factor(found->second)) return {};
                           const Expected e = of(i);
                           return Expected{found->second * e.value, std::abs(found->second) * e.magnitude};
                       },
                       16, 0.8, !rows_lose_terms()});
    }

    double factor_of_row(int64_t row) const {
        Indices inside;
        std::set<double> different;  // copies of one number have a factor, whatever they are
        for (int64_t k = 0; k < surface_.columns; ++k)
            if (different.insert(s_.want.at(row * surface_.columns + k)).second)
                inside.push_back(row * surface_.columns + k);
        return inside.size() < 6 ? 1 : middle_factor(inside, std::max<size_t>(1, inside.size() / 64));
    }

    // A sum of few bits loses terms: what is divided by it becomes too large in every row, not much smaller in some or
    // smaller in many.
    bool rows_lose_terms() const {
        int64_t more = 0, less = 0, much_less = 0, looked = 0;
        for (int64_t row = 0; row < surface_.rows; row += std::max<int64_t>(1, surface_.rows / 64), ++looked) {
            const double factor = factor_of_row(row);
            more += factor > 1.0625, much_less += factor < 0.9375, less += factor < 0.984375;
        }
        const bool both_ways = more > 0 && much_less > 0 && 4 * (more + much_less) > looked;
        return !both_ways && 4 * less <= looked;
    }

    void add_unexpected(std::vector<Hypothesis>& all) const {
        all.push_back({"should be zero and is not", "should be zero and are not",
                       [this](int64_t i) -> std::optional<Expected> {
                           if (s_.want.at(i) != 0 || lines_.magnitude_at(i) != 0) return {};
                           return Expected{s_.got.at(i), 0};
                       },
                       1, 0.3});
    }

    void add_bits(std::vector<Hypothesis>& all) const {
        const auto byte = [this](int64_t i) { return static_cast<unsigned>(s_.want.at(i)); };
        all.push_back({"has its bits in reverse order", "have their bits in reverse order",
                       [byte](int64_t i) -> std::optional<Expected> {
                           unsigned reversed = 0;
                           for (unsigned b = 0; b < 8; ++b) reversed |= (byte(i) >> b & 1U) << (7 - b);
                           return Expected{static_cast<double>(reversed), 0};
                       },
                       1, 0.9});
        all.push_back({"has its bits inverted", "have their bits inverted",
                       [byte](int64_t i) -> std::optional<Expected> {
                           return Expected{static_cast<double>(~byte(i) & 255U), 0};
                       },
                       1, 0.9});
    }

    // What belongs at another index of one dim, or of the whole.
    void add_move(std::vector<Hypothesis>& all, const std::string& words,
                  std::function<int64_t(int64_t index)> source) const {
        all.push_back({"holds " + words, "hold " + words,
                       [this, source = std::move(source)](int64_t i) -> std::optional<Expected> {
                           const int64_t from = source(i);
                           if (from < 0 || from >= s_.want.count() || from == i) return {};
                           return of(from);
                       },
                       few_, 0.6});
    }

    void add_moves(std::vector<Hypothesis>& all) const {
        add_move(all, "what belongs one element before", [](int64_t i) { return i - 1; });
        add_move(all, "what belongs one element after", [](int64_t i) { return i + 1; });
        const int64_t c = surface_.columns;
        if (surface_.rows > 1) {
            add_move(all, "what belongs in the row before", [c](int64_t i) { return i - c; });
            add_move(all, "what belongs in the row after", [c](int64_t i) { return i + c; });
        }
        int64_t stride = 1;
        for (size_t d = s_.shape.size(); d-- > 0; stride *= s_.shape[d]) add_moves_along(all, d, stride);
        if (s_.shape.size() >= 2) {
            const int64_t n = c, m = s_.shape[s_.shape.size() - 2];
            add_move(all, "what belongs at the transposed place", [m, n](int64_t i) {
                const int64_t matrix = i / (m * n), at = i % (m * n);
                return matrix * m * n + at % m * n + at / m;
            });
            for (const int64_t b : {4, 8, 16, 32, 64})
                if (m % b == 0 && n % b == 0 && (m > b || n > b))
                    add_move(all, fmt::format("what belongs at the transposed place of its block of {0}x{0}", b),
                             [m, n, b](int64_t i) {
                                 const int64_t column = i % n, row = i / n % m, rest = i - column - row * n;
                                 return rest + (row / b * b + column % b) * n + column / b * b + row % b;
                             });
        }
    }

    void add_moves_along(std::vector<Hypothesis>& all, size_t d, int64_t stride) const {
        const int64_t n = s_.shape[d];
        const bool last = d + 1 == s_.shape.size();
        if (n < 2) return;
        const std::string name =
            last ? "of the row" : "of " + (d < s_.dims.size() ? s_.dims[d] : fmt::format("dim {}", d));
        const auto along = [&](const std::string& words, auto other) {
            add_move(all, words, [n, stride, other](int64_t i) {
                const int64_t at = i / stride % n, to = other(at);
                return to < 0 || to >= n ? -1 : i + (to - at) * stride;
            });
        };
        if (!last) {
            along(fmt::format("what belongs one index {} before", name), [](int64_t k) { return k - 1; });
            along(fmt::format("what belongs one index {} after", name), [](int64_t k) { return k + 1; });
            along(fmt::format("what belongs at the first index {}", name), [](int64_t) { return 0; });
        }
        if (n % 2 == 0 && n > 2) {
            along(last ? "what belongs in the other half of the row: the halves are exchanged"
                       : fmt::format("what belongs in the other half {}: the halves are exchanged", name),
                  [n](int64_t k) { return (k + n / 2) % n; });
            along(fmt::format("what belongs at the even and odd places {}: interleaved, not in halves", name),
                  [n](int64_t k) { return k % 2 == 0 ? k / 2 : n / 2 + k / 2; });
            along(fmt::format("what belongs in the halves {}: in halves, not interleaved", name),
                  [n](int64_t k) { return k < n / 2 ? 2 * k : 2 * (k - n / 2) + 1; });
        }
        if (n > 3)
            along(fmt::format("what belongs at the opposite end {}: in reverse order", name),
                  [n](int64_t k) { return n - 1 - k; });
        for (int64_t b = 1; b < n && b <= 128; b *= 2)
            along(b == 1 ? fmt::format("its neighbour's value {}: pairs are exchanged", name)
                         : fmt::format("what belongs in the neighbouring {} {}: pairs of {} are exchanged", b, name, b),
                  [b](int64_t k) { return k ^ b; });
        for (const int64_t by : {2, 4, 8, 16, 32, 64, 128}) {
            if (by >= n || 2 * by == n) continue;
            along(fmt::format("what belongs {} places {} before", by, name), [by](int64_t k) { return k - by; });
            along(fmt::format("what belongs {} places {} after", by, name), [by](int64_t k) { return k + by; });
        }
    }

    // A wrong row may be another row as a whole.
    void add_rows(std::vector<Hypothesis>& all, const Indices& errors) const {
        const int64_t c = surface_.columns;
        if (surface_.rows < 3 || c < 4 || surface_.rows > 65536) return;
        const auto sources = std::make_shared<std::map<int64_t, int64_t>>();
        std::string words;
        int64_t looked = 0;
        for (size_t n = 0; n < errors.size() && looked < 4; ++n) {
            const int64_t row = errors[n] / c;
            if (sources->count(row) != 0 || (n > 0 && errors[n - 1] / c == row)) continue;
            ++looked;
            const int64_t source = source_of_row(row);
            if (source < 0) continue;
            (*sources)[row] = source;
            if (words.empty()) {
                const Shape shape(s_.shape.begin(), s_.shape.end() - 1);
                words = fmt::format("what belongs in row {}", index_text(shape, source));
            }
        }
        if (sources->size() != 1) return;  // several: a move says it in fewer words
        add_move(all, words, [sources, c](int64_t i) {
            const auto found = sources->find(i / c);
            return found == sources->end() ? -1 : found->second * c + i % c;
        });
    }

    int64_t source_of_row(int64_t row) const {
        const int64_t c = surface_.columns;
        std::vector<double> got(static_cast<size_t>(c)), want(got);
        s_.got.load(row * c, got);
        for (int64_t other = 0; other < surface_.rows; ++other) {
            if (other == row) continue;
            s_.want.load(other * c, want);
            int64_t alike = 0, numbers = 0;
            for (size_t k = 0; k < got.size(); ++k) {
                if (got[k] == 0 && want[k] == 0) continue;
                ++numbers;
                alike += std::abs(got[k] - want[k]) <= 8 * half_unit(s_.got.dtype()) * std::abs(want[k]);
                if (numbers == 16 && alike < 8) break;
            }
            if (numbers >= 4 && 10 * alike > 9 * numbers) return other;
        }
        return -1;
    }

    const Subject& s_;
    const Tolerance& tolerance_;
    const Surface& surface_;
    const Lines lines_;
    const double slack_;
    int64_t few_;
    Hypothesis best_;
};

}  // namespace

Explained recognise(const Subject& subject, const Tolerance& tolerance, const Surface& surface, const Errors& errors,
                    double slack) {
    return Recogniser(subject, tolerance, surface, slack).explain(errors);
}

}  // namespace gradus::cli
