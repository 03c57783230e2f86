// Which mistake in the formula gives what was got: every one that the operator lists, and of its sums every part.
#include <fmt/format.h>

#include <map>
#include <utility>
#include <vector>

#include "cli/judge/errors.h"

namespace gradus::cli {
namespace {

constexpr double kEnough = 0.98;
constexpr int64_t kLeastBlock = 8;
// A number that was searched for takes some of any errors that go one way, as those of truncation do.
constexpr double kLeftByAmount = 0.05;
constexpr int kDigits = 4;          // of a number that is said
constexpr double kOpposite = -0.3;  // the cosine of what is counted twice and of what is left out, beside noise

// How many rows (of a vector: elements) have their say in the squares of the errors. Rows that are alike, as masked
// ones are, have one together.
double rows_with_errors(const Subject& subject, const Tolerance& tolerance) {
    const int64_t last = subject.shape.empty() ? 1 : std::max<int64_t>(1, subject.shape.back());
    const int64_t columns = last < subject.got.count() ? last : 1;
    const Lines lines(subject);
    std::map<double, int64_t> rows;  // by their squares
    double row = 0;
    for (int64_t i = 0; i < subject.got.count(); ++i) {
        const double w = subject.want.at(i), m = lines.magnitude_at(i);
        const double off = std::abs(subject.got.at(i) - w) - tolerance.half_units(w);
        if (off > 0 && m > 0 && std::isfinite(off / m)) row += off / m * (off / m);
        if ((i + 1) % columns == 0) ++rows[std::exchange(row, 0)];
    }
    double sum = 0, squares = 0;
    for (const auto& [square, count] : rows) {
        const double together = square * static_cast<double>(count);
        sum += together, squares += together * together;
    }
    return squares > 0 ? sum * sum / squares : 0;
}

// Of a thousand parts that are tried, one is near the errors of few rows by chance: left^(rows/2) of them are.
double left_by_chance(double rows) { return std::min(0.01, std::pow(10.0, -12 / std::max(0.01, rows))); }

class Search {
    using Mistake = Answers::Mistake;
    using Part = Answers::Part;

  public:
    Search(const Subject& subject, const Tolerance& tolerance, const Errors& errors, const Answers& answers,
           double slack, const Values& rounding)
        : s_(subject), rounded_(subject), tolerance_(tolerance), errors_(errors), answers_(answers), slack_(slack) {
        rounded_.got = rounding;
        best_.rows = rows_with_errors(subject, tolerance);
        chance_ = left_by_chance(best_.rows);
    }

    // What is cheap and likely first: all of it counts, and a large problem has few answers.
    FoundMistake run() {
        std::vector<Sum> sums;
        for (const Mistake& mistake : answers_.mistakes)
            if (mistake.terms == 0 && !mistake.neutral && !found()) consider({mistake, true}, {});
        for (const Mistake& mistake : answers_.mistakes)
            if (mistake.neutral && !found()) search_amount(mistake);
        for (const Mistake& mistake : answers_.mistakes)
            if (mistake.terms > 1 && !found() && has_sum(mistake)) sums.push_back({mistake, is_linear(mistake)});
        for (const Sum& sum : sums) search_ends(sum);
        for (const Sum& sum : sums) search_lanes(sum);
        for (const Sum& sum : sums) search_halves(sum);
        for (const Sum& sum : sums) search_blocks(sum);
        return best_;
    }

  private:
    struct Sum {
        const Mistake& mistake;
        bool linear;  // the answers without a part, and with it twice, are opposite
    };

    // Where the slack is wide, many answers have all of the errors; the right one leaves hardly anything of them, and
    // of two parts of a long sum the wrong one may leave little.
    bool found() const { return explained() && best_.left < (best_.part ? 1e-5 : 0.01); }
    bool explained() const { return best_.share >= kEnough; }

    std::optional<Comparison> compared(const Mistake& mistake, const Part& part) {
        if (best_.tried >= answers_.most) return ++best_.left_out, std::nullopt;
        std::optional<Values> answer = answers_.mistaken(mistake, part);
        if (!answer) return {};
        ++best_.tried;
        answer_ = *answer;
        return std::optional<Comparison>(std::in_place, s_, tolerance_, *answer, slack_);
    }

    // Whether it is better than all before. Of many that are tried, only what fits.
    bool consider(const Sum& sum, const Part& part, bool of_many = false) {
        const auto comparison = compared(sum.mistake, part);
        if (!comparison) return false;
        const bool opposite = sum.mistake.terms > 0 && comparison->cosine() < kOpposite;
        const bool best = !opposite && is_best(sum.mistake, part, *comparison, of_many);
        if (!opposite && (sum.linear || part.end - part.begin < kLeastBlock)) return best;
        const Part twice{part.begin, part.end, true, part.step};
        const auto other = compared(sum.mistake, twice);
        return (other && is_best(sum.mistake, twice, *other, of_many)) || best;
    }

    bool is_best(const Mistake& mistake, const Part& part, const Comparison& comparison, bool of_many) {
        const double left = comparison.left();
        if (of_many && left >= chance_) return false;
        if (mistake.neutral && left > kLeftByAmount) return false;
        double share = comparison.share(errors_);
        const bool hidden = share < kEnough && mistake.terms == 0 && !mistake.neutral && beneath(comparison);
        if (hidden) share = std::max(share, comparison.likeness());
        const bool alike = std::abs(share - best_.share) < 1 - kEnough;
        if (best_.fits || alike ? left >= best_.left : share < best_.share && left >= chance_) return false;
        best_.share = share, best_.sentence = sentence(mistake, part), best_.answer = answer_;
        best_.beneath = hidden, best_.left = left;
        best_.part = mistake.terms > 0 || mistake.neutral, best_.fits = left < chance_ && !mistake.neutral;
        return true;
    }

    // A mistake that is no larger than rounding: all of it is in got's errors, and nothing of it in those of rounding.
    bool beneath(const Comparison& comparison) const {
        if (!rounded_.got.given() || s_.got.count() < 256) return false;
        if (std::abs(comparison.weight() - 1) > 0.2 || comparison.likeness() < 0.5) return false;
        return std::abs(Comparison(rounded_, tolerance_, answer_, slack_).weight()) < 0.2;
    }

    static std::string sentence(const Mistake& mistake, const Part& part) {
        const std::string text = "is what the formula gives " + mistake.words(part, kDigits);
        if (mistake.terms == 0) return text;
        const int64_t n = mistake.terms, size = part.end - part.begin;
        const std::string which = part.step > 1 ? fmt::format("one in {} of {}, from {} on,", part.step, n, part.begin)
                                  : part.end == n   ? fmt::format("the last {} of {}", size, n)
                                  : part.begin == 0 ? fmt::format("the first {} of {}", size, n)
                                                    : fmt::format("{} to {} of {}", part.begin, part.end - 1, n);
        return fmt::format("{}: {} are {}", text, which, part.twice ? "counted twice" : "missing");
    }

    // The number whose answer is nearest to got. How much of got's differences one answer has, 1/weight, is 0 without
    // the mistake and 1 where the number is right; between two answers, as if it went in a straight line.
    void search_amount(const Mistake& mistake) {
        const double neutral = *mistake.neutral;
        double before = 0, had = 0;
        Part part;
        part.amount = neutral + 0x1p-6;
        for (int round = 0; round < 12; ++round) {
            const auto comparison = compared(mistake, part);
            if (!comparison) return;
            const double by = part.amount - neutral, has = 1 / comparison->weight();
            const double next = by + (1 - has) * (by - before) / (has - had), step = std::abs(next - by);
            if (!(std::abs(next) < 0x1p20) || next == 0) return;
            if (step < 0.05 * std::abs(next) && comparison->left() > 0.5) return;  // the nearest is not near
            before = by, had = has;
            part.amount = neutral + next;
            if (step < 1e-6 * std::abs(next)) break;
        }
        if (mistake.words(part, kDigits) != mistake.words({.amount = neutral}, kDigits))
            consider({mistake, true}, part);
    }

    // Whether this result has the sum in it.
    bool has_sum(const Mistake& mistake) {
        const int64_t middle = mistake.terms / 2;
        const auto low = compared(mistake, {0, middle});
        if (low && low->differs()) return true;
        const auto high = compared(mistake, {middle, mistake.terms});
        return high && high->differs();
    }

    bool is_linear(const Mistake& mistake) {
        if (!compared(mistake, {0, mistake.terms / 2})) return true;
        Subject half = s_;
        half.got = answer_;
        if (!compared(mistake, {0, mistake.terms / 2, true})) return true;
        return Comparison(half, tolerance_, answer_, slack_).cosine() < -0.99;
    }

    // How much of the differences the answers without a part, or with it twice, have.
    double likeness(const Sum& sum, const Part& part) {
        const auto without = compared(sum.mistake, part);
        const double cosine = without ? without->cosine() : 0;
        if (sum.linear) return std::abs(cosine);
        const auto twice = compared(sum.mistake, {part.begin, part.end, true});
        return std::max(cosine, twice ? twice->cosine() : 0);
    }

    // From halves to the part whose answer has most of the differences.
    void search_halves(const Sum& sum) {
        int64_t begin = 0, end = sum.mistake.terms;
        double likest = 0;
        while (end - begin > 1 && !found()) {
            const int64_t middle = split(begin, end);
            const double low = likeness(sum, {begin, middle}), high = likeness(sum, {middle, end});
            const double better = std::max(low, high);
            if (better < 0.05 || better < 0.9 * likest) break;
            likest = better;
            (low > high ? end : begin) = middle;
        }
        if (likest >= 0.2 && !found()) refine(sum, begin, end);
    }

    // Its ends, step by step.
    void refine(const Sum& sum, int64_t begin, int64_t end) {
        consider(sum, {begin, end});
        for (const int64_t step : {16, 8, 4, 2, 1})
            for (const auto& [down, up] : {std::pair{-step, int64_t{0}}, {step, 0}, {0, -step}, {0, step}}) {
                const int64_t from = begin + down, to = end + up;
                const bool part = from >= 0 && to <= sum.mistake.terms && from < to && to - from < sum.mistake.terms;
                if (found() || !part) continue;
                if (consider(sum, {from, to})) begin = from, end = to;
            }
    }

    // What a kernel forgets most is the last block.
    void search_ends(const Sum& sum) {
        const int64_t n = sum.mistake.terms;
        for (const int64_t size : {1, 2, 4, 8, 16, 32, 64, 128, 256})
            if (size < n && !found()) consider(sum, {n - size, n});
        for (const int64_t size : {1, 16})
            if (size < n && !found()) consider(sum, {0, size});
    }

    // One lane of a vector that is not added to the others, the last or the first.
    void search_lanes(const Sum& sum) {
        const int64_t n = sum.mistake.terms;
        for (const int64_t lanes : {4, 8, 16, 32})
            for (const int64_t lane : {lanes - 1, int64_t{0}})
                if (2 * lanes <= n && !found()) consider_one_of_many(sum, {lane, n, false, lanes});
    }

    // Where few rows have a say, halves are alike by chance: every block that a kernel may go by.
    void search_blocks(const Sum& sum) {
        if (chance_ < 1e-10 || (explained() && !best_.part)) return;
        for (const int64_t size : {128, 64, 32, 16, 8})
            for (int64_t begin = 0; begin + size < sum.mistake.terms && !found(); begin += size)
                consider_one_of_many(sum, {begin, begin + size});
    }

    void consider_one_of_many(const Sum& sum, const Part& part) {
        if (blocks_ < answers_.most_blocks)
            ++blocks_, consider(sum, part, true);
        else
            ++best_.left_out;
    }

    // In the middle, at a multiple of the largest power of two that is near it: blocks of kernels begin there.
    static int64_t split(int64_t begin, int64_t end) {
        const int64_t size = end - begin;
        int64_t unit = 1;
        while (unit * 2 < size) unit *= 2;
        for (; unit > 1; unit /= 2) {
            const int64_t at = (begin + size / 2 + unit / 2) / unit * unit;
            if (at > begin + size / 4 && at < end - size / 4) return at;
        }
        return begin + size / 2;
    }

    const Subject& s_;
    Subject rounded_;  // with the answer of rounding as got
    const Tolerance& tolerance_;
    const Errors& errors_;
    const Answers& answers_;
    const double slack_;
    double chance_ = 0;
    Values answer_;
    FoundMistake best_;
    int64_t blocks_ = 0;
};

}  // namespace

std::string Answers::Mistake::words(const Part& part, int digits) const {
    if (part.twice) return "with " + name.substr(8) + " twice";
    const size_t mark = name.find('#');
    if (!neutral || mark == std::string::npos) return name;
    return fmt::format("{}{:.{}g}{}", name.substr(0, mark), part.amount, digits, name.substr(mark + 1));
}

FoundMistake find_mistake(const Subject& subject, const Tolerance& tolerance, const Errors& errors,
                          const Answers& answers, double slack, const Values& rounding) {
    return Search(subject, tolerance, errors, answers, slack, rounding).run();
}

}  // namespace gradus::cli
