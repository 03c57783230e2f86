// Which mistake in the formula gives what was got: every one that the operator lists, and of its sums every part.
#include <fmt/format.h>

#include "cli/judge/errors.h"

namespace gradus::cli {
namespace {

constexpr double kEnough = 0.98;

class Search {
  public:
    Search(const Subject& subject, const Tolerance& tolerance, const Errors& errors, const Answers& answers,
           double slack, const Values& rounding)
        : s_(subject), rounded_(subject), tolerance_(tolerance), errors_(errors), answers_(answers), slack_(slack) {
        rounded_.got = rounding;
    }

    FoundMistake run() {
        for (const Answers::Mistake& mistake : answers_.mistakes)
            if (mistake.terms == 0 && best_.share < kEnough) consider(mistake, 0, 0);
        for (const Answers::Mistake& mistake : answers_.mistakes)
            if (mistake.terms > 1 && best_.share < kEnough) search_part(mistake);
        return best_;
    }

  private:
    std::optional<Comparison> compared(const Answers::Mistake& mistake, int64_t begin, int64_t end) {
        std::optional<Values> answer = answers_.mistaken(mistake, begin, end);
        best_.tried += answer.has_value();
        best_.left_out += !answer && !answers_.in_time();
        if (!answer) return {};
        answer_ = *answer;
        return std::optional<Comparison>(std::in_place, s_, tolerance_, *answer, slack_);
    }

    double consider(const Answers::Mistake& mistake, int64_t begin, int64_t end) {
        const auto comparison = compared(mistake, begin, end);
        if (!comparison) return 0;
        double share = comparison->share(errors_);
        const bool found = share < kEnough && mistake.terms == 0 && beneath(*comparison);
        if (found) share = std::max(share, comparison->likeness());
        if (share > best_.share) {
            best_.share = share, best_.sentence = sentence(mistake, begin, end), best_.answer = answer_;
            best_.beneath = found;
        }
        return share;
    }

    // A mistake that is no larger than rounding: all of it is in got's errors, and nothing of it in those of rounding.
    bool beneath(const Comparison& comparison) const {
        if (!rounded_.got.given() || s_.got.count() < 256) return false;
        if (std::abs(comparison.weight() - 1) > 0.2 || comparison.likeness() < 0.5) return false;
        return std::abs(Comparison(rounded_, tolerance_, answer_, slack_).weight()) < 0.2;
    }

    static std::string sentence(const Answers::Mistake& mistake, int64_t begin, int64_t end) {
        std::string text = "is what the formula gives " + mistake.name;
        if (mistake.terms == 0) return text;
        const int64_t n = mistake.terms, size = end - begin;
        if (end == n) return text + fmt::format(": the last {} of {} are missing", size, n);
        if (begin == 0) return text + fmt::format(": the first {} of {} are missing", size, n);
        return text + fmt::format(": {} to {} of {} are missing", begin, end - 1, n);
    }

    // From halves to the part whose answer has most of the differences; then its ends, step by step.
    void search_part(const Answers::Mistake& mistake) {
        int64_t begin = 0, end = mistake.terms;
        double likeness = 0;
        while (end - begin > 1) {
            const int64_t middle = split(begin, end);
            const auto low = compared(mistake, begin, middle);
            const double of_low = low ? low->likeness() : 0;
            const auto high = compared(mistake, middle, end);
            const double of_high = high ? high->likeness() : 0, better = std::max(of_low, of_high);
            if (better < 0.05 || better < 0.9 * likeness) break;
            likeness = better;
            (of_low > of_high ? end : begin) = middle;
        }
        if (likeness < 0.2) return search_ends(mistake);
        double share = consider(mistake, begin, end);
        for (const int64_t step : {16, 8, 4, 2, 1})
            for (const auto& [down, up] : {std::pair{-step, int64_t{0}}, {step, 0}, {0, -step}, {0, step}}) {
                if (share >= kEnough) return;
                const int64_t from = begin + down, to = end + up;
                if (from < 0 || to > mistake.terms || from >= to) continue;
                if (const double other = consider(mistake, from, to); other > share)
                    share = other, begin = from, end = to;
            }
        if (share < kEnough) search_ends(mistake);
    }

    // Where few rows have a say, halves are alike by chance: what a kernel forgets most is the last block.
    void search_ends(const Answers::Mistake& mistake) {
        const int64_t n = mistake.terms;
        for (const int64_t size : {1, 16, 64, 128})
            if (size < n && best_.share < kEnough) consider(mistake, n - size, n);
        for (const int64_t size : {1, 16})
            if (size < n && best_.share < kEnough) consider(mistake, 0, size);
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
    Values answer_;
    FoundMistake best_;
};

}  // namespace

FoundMistake find_mistake(const Subject& subject, const Tolerance& tolerance, const Errors& errors,
                          const Answers& answers, double slack, const Values& rounding) {
    return Search(subject, tolerance, errors, answers, slack, rounding).run();
}

}  // namespace gradus::cli
