#include "cli/judge/recognise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace gradus::cli {
namespace {

constexpr int64_t kMostCompared = 65536;

// Where else the value of an element could come from.
struct Move {
    const char* words;
    int64_t (*source)(int64_t index, const Suspects& s);  // −1: nowhere
};

int64_t transposed(int64_t index, const Suspects& s) {
    if (s.shape.size() < 2) return -1;
    const int64_t n = s.columns, m = s.shape[s.shape.size() - 2], matrix = index / (m * n), at = index % (m * n);
    return matrix * m * n + at % m * n + at / m;
}

int64_t other_half(int64_t index, const Suspects& s) {
    const int64_t column = index % s.columns;
    return s.columns % 2 != 0 ? -1 : index - column + (column + s.columns / 2) % s.columns;
}

constexpr Move kMoves[] = {
    {"what belongs one element before", [](int64_t i, const Suspects&) { return i - 1; }},
    {"what belongs one element after", [](int64_t i, const Suspects&) { return i + 1; }},
    {"what belongs in the row before", [](int64_t i, const Suspects& s) { return i - s.columns; }},
    {"what belongs in the row after", [](int64_t i, const Suspects& s) { return i + s.columns; }},
    {"what belongs in the other half of the row: the halves are exchanged", other_half},
    {"what belongs at the transposed place", transposed},
};

// 90 % of the errors are below these shares; the largest of 1e8 normal ones would be at 3.5 times that.
struct Noise {
    double of_scale, of_want;
};

bool is_suspect(double g, double w, double scale, Suspects::Criterion criterion, const Measured& m,
                const Noise& noise) {
    const bool finite = std::isfinite(g) && std::isfinite(w);
    if (criterion == Suspects::misplaced) return !finite && g != w && !(std::isnan(g) && std::isnan(w));
    if (!finite || g == w) return false;
    if (criterion == Suspects::different) return true;
    const double error = std::abs(g - w);
    if (criterion == Suspects::broken) return error > m.yardstick.broken(w, scale);
    const double size = std::abs(w), usual = std::max(noise.of_scale * scale, noise.of_want * size);
    return error > 16 * usual && error > 4 * m.yardstick.allowed(w, scale) &&
           error > 10 * m.yardstick.rules.relative * size && error > m.yardstick.rules.floor * m.yardstick.tensor_scale;
}

class Collector {
  public:
    Collector(Suspects& suspects, const Tensor& want, const Yardstick& yardstick)
        : s_(suspects), want_(want), yardstick_(yardstick) {}

    void add(int64_t index, double g, double w, double scale) {
        if (s_.count++ == 0) s_.first = index, s_.value = g;
        s_.last = index;
        ++s_.in_row[static_cast<size_t>(index / s_.columns)];
        ++s_.in_column[static_cast<size_t>(index % s_.columns)];
        s_.same += g == s_.value || (std::isnan(g) && std::isnan(s_.value));
        s_.largest_want = std::max(s_.largest_want, std::isfinite(w) ? std::abs(w) : 0);
        if (!std::isfinite(g) || !std::isfinite(w)) return;
        s_.zero += g == 0, s_.unexpected += w == 0;
        s_.negated += w != 0 && std::abs(g + w) <= 4 * yardstick_.allowed(w, scale);
        s_.got_want += g * w, s_.got_got += g * g, s_.want_want += w * w;
        s_.errors += std::abs(g - w);
        if (g != 0 && s_.compared < kMostCompared) compare(index, g, scale);
    }

  private:
    void compare(int64_t index, double g, double scale) {
        ++s_.compared;
        for (size_t k = 0; k < std::size(kMoves); ++k) {
            const int64_t source = kMoves[k].source(index, s_);
            if (source < 0 || source >= want_.count() || source == index) continue;
            const double w = want_.at(source);
            s_.moved[k] += std::abs(g - w) <= yardstick_.allowed(w, scale);
        }
    }

    Suspects& s_;
    const Tensor& want_;
    const Yardstick& yardstick_;
};

// How many of the errors are in rows (or columns) without a suspect. Where most have one, that says nothing: then how
// many are no suspects.
int64_t uncovered(const std::vector<uint32_t>& errors, const std::vector<uint32_t>& suspects) {
    int64_t outside = 0, others = 0;
    size_t covered = 0;
    for (size_t i = 0; i < errors.size(); ++i) {
        covered += suspects[i] > 0;
        outside += suspects[i] > 0 ? 0 : errors[i];
        others += std::max(errors[i], suspects[i]) - suspects[i];
    }
    return 2 * covered > errors.size() ? others : outside;
}

double share(int64_t part, int64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

// The one factor between got and want, if there is one; 1 if not.
double common_factor(const Suspects& s, const Yardstick& yardstick) {
    if (s.count < 4 || s.want_want == 0) return 1;
    const double factor = s.got_want / s.want_want;
    const double spread = 1 - s.got_want / s.got_got * factor;  // squared sine of the angle between the two
    const double rounding = 4 * std::ldexp(1.0, -yardstick.grid.digits);
    return spread <= std::max(rounding * rounding, 1e-11) ? factor : 1;
}

std::string about_the_rest(const Suspects& s, const Measured& m) {
    if (m.judgement.count == s.count || share(s.count, s.numbers) > 0.5) return "";
    if (s.elsewhere == 0) return "; all its errors are there, the rest differs by rounding at most";
    const double rest = share(s.elsewhere, m.judgement.count - s.count);
    return rest < 0.05 ? "" : fmt::format("; of the rest, {:.0f} % are more than one rounding off, too", 100 * rest);
}

// The factor in words: everything, or where it is.
std::string factor_sentence(const Suspects& s, double factor) {
    const Place where = place(s);
    const bool all = share(s.count, s.numbers) > 0.5;  // what is not among them is too small to tell
    if (std::abs(factor + 1) < 1e-3)
        return (all ? "everything" : where.words) + (all || where.singular ? " has" : " have") + " the opposite sign";
    const double whole = std::round(1 / factor);
    const std::string inverse =
        std::abs(factor) < 0.9 && std::abs(1 / factor / whole - 1) < 1e-3 ? fmt::format(" (1/{:g})", whole) : "";
    return fmt::format("{} {} {:.4g}{} times the expected", all ? "everything" : where.words,
                       all || where.singular ? "is" : "are", factor, inverse);
}

}  // namespace

Suspects collect(const Tensor& got, const Tensor& want, const Measured& measured, Suspects::Criterion criterion) {
    Suspects s;
    s.shape = got.shape();
    s.columns = s.shape.empty() ? 1 : std::max<int64_t>(1, s.shape.back());
    s.rows = got.count() / s.columns;
    s.in_row.assign(static_cast<size_t>(s.rows), 0);
    s.in_column.assign(static_cast<size_t>(s.columns), 0);
    s.numbers_in_column = s.in_column;
    s.numbers = measured.want_nonzero;
    s.moved.assign(std::size(kMoves), 0);
    std::vector<uint32_t> row_errors = s.in_row, column_errors = s.in_column;
    const Noise noise = {measured.of_scale.quantile(0.9), measured.of_want.quantile(0.9)};
    const Lines lines(got, want);
    Lines::Buffer buffer;
    Collector collector(s, want, measured.yardstick);
    for (int64_t i = 0; i < lines.size(); ++i) {
        const Line line = lines.load(i, buffer);
        for (size_t k = 0; k < line.got.size(); ++k) {
            const double g = line.got[k], w = line.want[k];
            const int64_t index = line.first + static_cast<int64_t>(k);
            const auto row = static_cast<size_t>(index / s.columns), column = static_cast<size_t>(index % s.columns);
            s.numbers_in_column[column] += w != 0;
            if (g == w) continue;
            if (std::abs(g - w) > measured.yardstick.allowed(w, line.scale)) ++row_errors[row], ++column_errors[column];
            if (is_suspect(g, w, line.scale, criterion, measured, noise)) collector.add(index, g, w, line.scale);
        }
    }
    s.elsewhere = std::min(uncovered(row_errors, s.in_row), uncovered(column_errors, s.in_column));
    // what is missing before the first suspect was only too small to be one
    while (s.count > 0 && s.zero == s.count && s.first > 0 && got.at(s.first - 1) == 0 && want.at(s.first - 1) != 0)
        --s.first;
    return s;
}

std::string common_mistake(const Suspects& s, const Measured& m) {
    if (s.count == 0) return "";
    const Place where = place(s);
    const auto sentence = [&](const char* one, const char* many) {
        return where.words + " " + (where.singular ? one : many) + about_the_rest(s, m);
    };
    if (m.got_nonzero == 0) return "everything is zero, as if it had not been written";
    if (share(s.zero, s.count) > 0.98)
        return sentence("is zero, as if it had not been written", "are zero, as if they had not been written");
    if (share(s.unexpected, s.count) > 0.98) return sentence("should be zero and is not", "should be zero and are not");
    if (share(s.negated, s.count) > 0.95 && share(s.count, s.numbers) <= 0.75)
        return sentence("has the opposite sign", "have the opposite sign");
    if (const double factor = common_factor(s, m.yardstick); std::abs(factor - 1) > 1e-4)
        return factor_sentence(s, factor) + about_the_rest(s, m);
    if (s.count >= 4 && share(s.same, s.count) > 0.98)
        return sentence(fmt::format("holds {:g}", s.value).c_str(), fmt::format("all hold {:g}", s.value).c_str());
    // in few bits, neighbours are alike by chance
    for (size_t k = 0; k < std::size(kMoves); ++k)
        if (s.compared >= (m.yardstick.grid.digits > 11 ? 2 : 8) && share(s.moved[k], s.compared) > 0.9)
            return sentence(fmt::format("holds {}", kMoves[k].words).c_str(),
                            fmt::format("hold {}", kMoves[k].words).c_str());
    return "";
}

std::string mistake(const Suspects& s, const Measured& m) {
    std::string sentence = common_mistake(s, m);
    if (!sentence.empty()) return sentence;
    const Place where = place(s);
    return fmt::format("{} {} wrong, by {:.2g}{} where up to {:.2g} is expected{}", where.words,
                       where.singular ? "is" : "are", s.errors / static_cast<double>(s.count),
                       s.count > 1 ? " on average" : "", s.largest_want, about_the_rest(s, m));
}

std::string misplaced_sentence(const Suspects& s, const Judgement& j) {
    const Place where = place(s);
    const char* verb = where.singular ? "is" : "are";
    if (j.nan_extra == s.count) return fmt::format("{} {} NaN where a number is expected", where.words, verb);
    if (j.nan_missing == s.count)
        return fmt::format("{} {} not NaN where NaN is expected: it must spread", where.words, verb);
    if (j.inf_extra == s.count && j.inf_missing == 0)
        return fmt::format("{} {} Inf where at most {:.4g} is expected: an intermediate overflows{}", where.words, verb,
                           s.largest_want, j.dtype == ACL_FLOAT16 ? ", as f16 does beyond 65504" : "");
    if (j.inf_missing == s.count)
        return fmt::format("{} {} not Inf where Inf is expected{}", where.words, verb,
                           s.same == s.count ? fmt::format(" but {:g}: saturated?", s.value) : "");
    return fmt::format("{}: NaN or Inf is not where it is expected ({} NaN and {} Inf too many, {} and {} missing)",
                       where.words, j.nan_extra, j.inf_extra, j.nan_missing, j.inf_missing);
}

std::string truncation(const Measured& m) {
    const Judgement& j = m.judgement;
    const int64_t differing = m.towards_zero + m.away;
    // rounded to nearest, one in two would go the other way; of 32 all in one direction is no accident
    if (differing < 32 || share(differing, m.want_nonzero) < 0.2 || share(m.towards_zero, differing) < 0.98) return "";
    if (j.worst_ulps > 1) return "";
    return fmt::format(
        "all differences are towards zero and {} one ulp ({:.0f} % of the elements): truncated, not rounded to nearest",
        j.worst_ulps < 1 ? "below" : "of", 100 * share(differing, m.want_nonzero));
}

std::string imprecision(const Measured& m) {
    const Judgement& j = m.judgement;
    const double one_way = share(m.towards_zero, m.towards_zero + m.away);
    const double size = std::log2(std::max(j.relative_l2, 0x1p-60));
    // one rounding to n bits leaves 2^-(n + 1.2) of the values, truncation twice that; more is more than one of them
    const auto narrow = [&](const char* name, int digits, int64_t got, int64_t want) -> std::string {
        if (share(got, m.got_nonzero) < 0.999 || share(want, m.want_nonzero) > 0.5) return "";
        if (size > -digits + 0.2)
            return fmt::format(
                "every value is a number of {}, and about 2^{:.1f} of the values off: looks like sums "
                "carried in {}",
                name, size, name);
        return fmt::format("every value is a number of {}: the result was {} to {} on its way", name,
                           one_way > 0.98 ? "truncated" : "rounded", name);
    };
    if (std::string words = narrow("bf16", 8, m.got_bf16, m.want_bf16); !words.empty()) return words;
    if (std::string words = narrow("f16", 11, m.got_f16, m.want_f16); !words.empty()) return words;
    const char* direction = one_way > 0.7   ? "mostly towards zero"
                            : one_way < 0.3 ? "mostly away from zero"
                                            : "to both sides";
    const char* guess = "a chain of f32 additions that is too long, or an f32 function of few digits";
    if (j.dtype == ACL_BF16 || size > -8)
        guess = "sums carried in bf16 (or f16), not in f32";
    else if (j.dtype == ACL_FLOAT16 || size > -14)
        guess = "sums or factors carried in f16, not in f32";
    return fmt::format("errors in {:.0f} % of the elements, {}, about 2^{:.1f} of the values: looks like {}",
                       100 * share(j.beyond, j.count), direction, size, guess);
}

}  // namespace gradus::cli
