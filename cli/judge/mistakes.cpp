// Which mistake in the formula gives what was got: every one that the operator lists, and of its sums every part.
#include <fmt/format.h>

#include "cli/judge/errors.h"

namespace gradus::cli {
namespace {

constexpr double kEnough = 0.98;
constexpr double kOpposite = -0.3;  // the cosine of what is counted twice and of what is left out, and noise

// How many rows (of a vector: elements) have their say in the squares of the errors.
double rows_with_errors(const Subject& subject, const Tolerance& tolerance) {
    const int64_t last = subject.shape.empty() ? 1 : std::max<int64_t>(1, subject.shape.back());
    const int64_t columns = last < subject.got.count() ? last : 1;
    const Lines lines(subject);
    double sum = 0, squares = 0, row = 0;
    for (int64_t i = 0; i < subject.got.count(); ++i) {
        const double w = subject.want.at(i), m = lines.magnitude_at(i);
        const double off = std::abs(subject.got.at(i) - w) - tolerance.half_units(w);
        if (off > 0 && m > 0 && std::isfinite(off / m)) row += off / m * (off / m);
        if ((i + 1) % columns != 0) continue;
        sum += row, squares += row * row, row = 0;
    }
    return squares > 0 ? sum * sum / squares : 0;
}

// Of a thousand parts that are tried, one is near the errors of few rows by chance: left^(rows/2) of them are.
double left_by_chance(const Subject& subject, const Tolerance& tolerance) {
    return std::min(0.01, std::pow(10.0, -12 / std::max(0.01, rows_with_errors(subject, tolerance))));
}

class Search {
    using Mistake = Answers::Mistake;
    using Part = Answers::Part;

  public:
    Search(const Subject& subject, const Tolerance& tolerance, const Errors& errors, const Answers& answers,
           double slack, const Values& rounding)
        : s_(subject),
          rounded_(subject),
          tolerance_(tolerance),
          errors_(errors),
          answers_(answers),
          slack_(slack),
          chance_(left_by_chance(subject, tolerance)) {
        rounded_.got = rounding;
    }

    FoundMistake run() {
        for (const Mistake& mistake : answers_.mistakes)
            if (mistake.terms == 0 && !found()) consider(mistake, {});
        for (const Mistake& mistake : answers_.mistakes)
            if (mistake.terms > 1 && !found()) search_part(mistake);
        return best_;
    }

  private:
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
    bool consider(const Mistake& mistake, const Part& part, bool of_many = false) {
        const auto comparison = compared(mistake, part);
        if (!comparison) return false;
        if (mistake.terms > 0 && !part.twice && comparison->cosine() < kOpposite)
            return consider(mistake, {part.begin, part.end, true}, of_many);
        const double left = comparison->left();
        if (of_many && left >= chance_) return false;
        double share = comparison->share(errors_);
        const bool hidden = share < kEnough && mistake.terms == 0 && beneath(*comparison);
        if (hidden) share = std::max(share, comparison->likeness());
        const bool alike = std::abs(share - best_.share) < 1 - kEnough;
        if (best_.fits || alike ? left >= best_.left : share < best_.share && left >= chance_) return false;
        best_.share = share, best_.sentence = sentence(mistake, part), best_.answer = answer_;
        best_.beneath = hidden, best_.left = left;
        best_.part = mistake.terms > 0, best_.fits = left < chance_;
        return true;
    }

    // A mistake that is no larger than rounding: all of it is in got's errors, and nothing of it in those of rounding.
    bool beneath(const Comparison& comparison) const {
        if (!rounded_.got.given() || s_.got.count() < 256) return false;
        if (std::abs(comparison.weight() - 1) > 0.2 || comparison.likeness() < 0.5) return false;
        return std::abs(Comparison(rounded_, tolerance_, answer_, slack_).weight()) < 0.2;
    }

    static std::string sentence(const Mistake& mistake, const Part& part) {
        const std::string text = "is what the formula gives " + mistake.words(part);
        if (mistake.terms == 0) return text;
        const int64_t n = mistake.terms, size = part.end - part.begin;
        const std::string which = part.end == n      ? fmt::format("the last {} of {}", size, n)
                                  : part.begin == 0 ? fmt::format("the first {} of {}", size, n)
                                                    : fmt::format("{} to {} of {}", part.begin, part.end - 1, n);
        return fmt::format("{}: {} are {}", text, which, part.twice ? "counted twice" : "missing");
    }

    // From halves to the part whose answer has most of the differences, or of those of the opposite sign.
    void search_part(const Mistake& mistake) {
        search_ends(mistake);
        if (found()) return;
        int64_t begin = 0, end = mistake.terms;
        double likeness = 0;
        while (end - begin > 1) {
            const int64_t middle = split(begin, end);
            const auto low = compared(mistake, {begin, middle});
            const double of_low = low ? std::abs(low->cosine()) : 0;
            const auto high = compared(mistake, {middle, end});
            const double of_high = high ? std::abs(high->cosine()) : 0, better = std::max(of_low, of_high);
            if (better < 0.05 || better < 0.9 * likeness) break;
            likeness = better;
            (of_low > of_high ? end : begin) = middle;
        }
        if (likeness >= 0.2) refine(mistake, begin, end);
        if (!found() && !(explained() && !best_.part)) search_blocks(mistake);
    }

    // Its ends, step by step.
    void refine(const Mistake& mistake, int64_t begin, int64_t end) {
        consider(mistake, {begin, end});
        for (const int64_t step : {16, 8, 4, 2, 1})
            for (const auto& [down, up] : {std::pair{-step, int64_t{0}}, {step, 0}, {0, -step}, {0, step}}) {
                const int64_t from = begin + down, to = end + up;
                if (found() || from < 0 || to > mistake.terms || from >= to) continue;
                if (consider(mistake, {from, to})) begin = from, end = to;
            }
    }

    // What a kernel forgets most is the last block.
    void search_ends(const Mistake& mistake) {
        const int64_t n = mistake.terms;
        for (const int64_t size : {1, 2, 4, 8, 16, 32, 64, 128, 256})
            if (size < n && !found()) consider(mistake, {n - size, n});
        for (const int64_t size : {1, 16})
            if (size < n && !found()) consider(mistake, {0, size});
    }

    // Where few rows have a say, halves are alike by chance: every block that a kernel may go by.
    void search_blocks(const Mistake& mistake) {
        if (chance_ < 1e-10) return;
        for (const int64_t size : {128, 64, 32, 16, 8})
            for (int64_t begin = 0; begin + size < mistake.terms && !found(); begin += size)
                if (blocks_ < answers_.most_blocks)
                    ++blocks_, consider(mistake, {begin, begin + size}, true);
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
    const double slack_, chance_;
    Values answer_;
    FoundMistake best_;
    int64_t blocks_ = 0;
};

}  // namespace

FoundMistake find_mistake(const Subject& subject, const Tolerance& tolerance, const Errors& errors,
                          const Answers& answers, double slack, const Values& rounding) {
    return Search(subject, tolerance, errors, answers, slack, rounding).run();
}

}  // namespace gradus::cli
