#include "cli/judge/judge.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/judge/errors.h"
#include "cli/judge/words.h"

namespace gradus::cli {
namespace {

// An arithmetic explains errors of up to so many times its own noise. Golden sums rows and then their sums; a chain
// over all the terms has partial sums as large as they get, and errors accordingly.
constexpr double kNear = 3, kNearSums = 16;

// All differences at most one ulp (and what f32 leaves before it) and towards zero; rounded to nearest, one in two
// would go the other way.
bool truncated(const Measured& m) {
    const auto differing = static_cast<double>(m.towards_zero + m.away);
    return differing >= 32 && differing >= 0.2 * static_cast<double>(m.want_nonzero) && m.beyond_truncation == 0 &&
           static_cast<double>(m.towards_zero) >= 0.98 * differing;
}

class Judge {
  public:
    Judge(const Subject& subject, const JudgeOptions& options, const Answers* answers)
        : s_(subject), answers_(answers), m_(measure(subject, options)), j_(m_.judgement) {}

    Judgement run() {
        if (!exact() && !s_.magnitude.given()) j_.assumed = assumed_words(s_.allowance);
        if (flushes() && !(j_.beyond_kept == 0 && keeps()))  // where terms cancel, 0 may be as right as a tiny number
            decide_flushed();
        else
            decide();
        decide_by_own();
        return j_;
    }

  private:
    bool exact() const { return s_.allowance.exact || m_.tolerance.grid.integer; }
    bool simulates() const { return answers_ != nullptr && answers_->simulated && s_.magnitude.given(); }

    void decide(Verdict verdict, std::string reason) { j_.verdict = verdict, j_.reason = std::move(reason); }

    void decide() {
        if (j_.differing == 0) return decide(Verdict::equal, "equal bit by bit");
        if (j_.misplaced()) return decide_misplaced();
        if (exact()) return accuse(errors_beyond(s_, m_.tolerance, 0), 0, "");
        // truncation stays within what is promised of f32; it is a choice all the same, and its name helps. Among the
        // subnormals it leaves more of the magnitude than any other rounding
        if (truncated(m_)) return decide(Verdict::rounded, truncated_words(m_));
        if (j_.beyond_kept == 0 && keeps()) return decide(Verdict::kept, kept_words(s_, j_));
        if (!simulates()) return decide_alone();
        decide_by_simulation();
    }

    // Where 16-bit roundings are stated, the promise has room for small mistakes; what those roundings leave has not.
    bool keeps() {
        if (s_.allowance.roundings == 0 || s_.allowance.kernel == ACL_FLOAT || !simulates()) return true;
        simulate();
        return near(noise_, 1) && errors_beyond(s_, m_.tolerance, lonely_share()).at.empty();
    }

    // --- subnormal numbers

    // A unit that has no subnormal numbers gives 0 for all of them; a few that are 0 are a mistake like any other, and
    // of a result that has hardly anything else nobody can tell.
    bool flushes() const { return m_.flushed > 0 && m_.subnormal == 0 && m_.flushed <= 10 * m_.normal && !exact(); }

    // Decided by the others.
    void decide_flushed() {
        const Tensor others(s_.got.dtype(), s_.shape);
        const double least = m_.tolerance.grid.least_normal();
        for (int64_t i = 0; i < others.count(); ++i) {
            const double g = s_.got.at(i), w = s_.want.at(i);
            others.set(i, g == 0 && std::abs(w) < least ? w : g);
        }
        Subject subject = s_;
        subject.got = others;
        const Judgement judgement = Judge(subject, {.top = 0, .rtol = {}, .atol = {}}, answers_).run();
        j_.causes = judgement.causes;
        j_.rounding_noise = judgement.rounding_noise, j_.noise_of = judgement.noise_of;
        decide(std::max(judgement.verdict, Verdict::rounded),
               fmt::format("{}; besides, all {} results below {:.2g}, the least normal number of {}, are flushed to 0",
                           judgement.reason, m_.flushed, least, dtype_name(j_.dtype)));
    }

    // --- NaN and Inf

    void decide_misplaced() {
        const Errors errors = misplaced_errors(s_, m_.tolerance);
        const Surface surface(s_);
        double largest = 0;
        for (const int64_t i : errors.at)
            if (const double w = std::abs(s_.want.at(i)); std::isfinite(w)) largest = std::max(largest, w);
        std::string reason = misplaced_words(j_, place(surface, errors.at, errors.step), errors.total, largest);
        if (const FoundMistake found = mistake(errors, j_.rounded_share); found.explains(0.8))
            reason = "it " + found.sentence + " (" + reason + ")";
        Errors others = errors_beyond(s_, m_.tolerance, j_.rounded_share);
        std::erase_if(others.at, [this](int64_t i) { return !std::isfinite(s_.got.at(i) + s_.want.at(i)); });
        if (!others.at.empty()) reason += "; besides, " + words_for(surface, others, j_.rounded_share);
        decide(Verdict::wrong, reason);
    }

    // --- with nothing but the two tensors

    void decide_alone() {
        const Surface surface(s_);
        const Errors errors = errors_beyond(s_, m_.tolerance, j_.kept_share);
        const Explained explained = recognise(s_, m_.tolerance, surface, errors, 0);
        if (explained.accuses()) return accuse(errors, 0, "");
        if (share_of(j_.beyond_any, j_.count) > 0.1 && j_.relative_l2 > 0.7 && j_.correlation < 0.5)
            return decide(Verdict::wrong,
                          fmt::format("unlike what is expected: {:.0f} % of the elements are wrong, correlation {:.2f}",
                                      100 * share_of(j_.beyond_any, j_.count), j_.correlation));
        if (const Errors outliers = errors_beyond(s_, m_.tolerance, outlier_share(0)); !outliers.at.empty())
            return accuse(outliers, 0, "");
        if (j_.beyond_rounded == 0) return decide(Verdict::rounded, rounded_words(j_));
        if (j_.beyond_any > 0) return accuse(errors_beyond(s_, m_.tolerance, j_.any_share), 0, "");
        decide(Verdict::imprecise, imprecise_words(m_));
    }

    // Sixteen times what nine in ten stay below: of 1e8 normally distributed errors the largest would be at 3.5 times.
    double outlier_share(double at_least) const {
        return std::max({16 * m_.shares.quantile(0.9), 4 * j_.kept_share, at_least,
                         s_.magnitude.given() ? 0 : 10 * j_.rules.relative * 0x1p-5});
    }

    // An error that sticks out, of got's own and of whatever the arithmetic leaves on these inputs, is no rounding.
    double lonely_share() const {
        const double spread = noise_.bulk() > 0 ? noise_.worst / noise_.bulk() : 0;
        return std::max({16 * m_.shares.quantile(0.9), 4 * spread * m_.noise.bulk(), 2 * noise_.worst,
                         2 * truncation_.worst, 4 * m_.tolerance.f32_share});
    }

    // Errors of some elements beside others that have none: sums of few bits leave them everywhere.
    bool is_local(const Noise& noise) const {
        return m_.noise.peak() * noise.bulk() > 8 * noise.peak() * m_.noise.bulk() ||
               (m_.noise.peak() > 2 * noise.peak() && m_.noise.share_without() > noise.share_without() + 0.25);
    }

    // --- with other answers

    std::string kernel_name() const {
        return s_.allowance.kernel == ACL_BF16 ? "bf16" : s_.allowance.kernel == ACL_FLOAT16 ? "f16" : "f32";
    }

    void simulate() {
        if (noise_name_.empty()) simulate(kernel_name());
    }

    // Where more is off than factors of the kernel's type leave, it may round products, too.
    void simulate_products() {
        if (s_.allowance.kernel == ACL_FLOAT || near(noise_, kNear)) return;
        simulate(kernel_name() + "_products");
        if (!near(noise_, kNear)) simulate(kernel_name());
    }

    // An f32 kernel may truncate, as matrix units do when they add up.
    void simulate_truncation() {
        if (s_.allowance.kernel != ACL_FLOAT || (near(noise_, kNear) && !sticks_out())) return;
        simulate("f32_truncated");
        if (!near(noise_, kNear) || sticks_out()) simulate("f32");
    }

    bool sticks_out() const {
        return !errors_beyond(s_, m_.tolerance, lonely_share()).at.empty() || !noisy_rows(simulation_, 0).empty();
    }

    void simulate(const std::string& name) {
        noise_name_ = name;
        simulation_ = answers_->simulated(noise_name_);
        m_.tolerance.underflow = 4 * underflow_of(s_, simulation_);
        m_.noise = noise_of_got(s_, m_.tolerance), j_.noise = m_.noise.peak();
        noise_ = noise_of(s_, m_.tolerance, simulation_);
        truncation_ = noise_of_truncation(s_, m_.tolerance);
        j_.rounding_noise = noise_.peak(), j_.noise_of = noise_name_;
    }

    // Whether got's errors are no larger than so many times another arithmetic's, both the many and the large ones.
    bool near(const Noise& noise, double times) const {
        const double least = m_.tolerance.f32_share / 4;
        return m_.noise.peak() <= times * std::max({noise.peak(), truncation_.peak(), least}) &&
               m_.noise.bulk() <= 2 * times * std::max({noise.bulk(), truncation_.bulk(), least});
    }

    void decide_by_simulation() {
        simulate();
        simulate_products();
        simulate_truncation();
        const double slack = std::min(j_.rounded_share, std::max(j_.kept_share, 4 * noise_.peak()));
        const double most = std::clamp(2 * noise_.worst, j_.rounded_share, 0.25);
        const Errors errors = errors_beyond(s_, m_.tolerance, slack);
        if (near(noise_, kNear))
            if (const Errors lonely = errors_beyond(s_, m_.tolerance, lonely_share()); !lonely.at.empty())
                return accuse(lonely, std::min(slack, lonely_share()), "");
        if (near(noise_, kNear))
            if (const Errors alike = errors_beyond(s_, m_.tolerance, j_.kept_share); have_one_number(alike))
                return accuse(alike, j_.kept_share, "");
        if (near(noise_, kNear) && errors_beyond(s_, m_.tolerance, most).at.empty()) {
            const FoundMistake found = mistake(errors, slack);
            if (found.explains(errors.total >= 16 || errors.total == 0 ? 0.9 : 1)) return accuse(errors, slack, "");
            if (const Indices rows = noisy_rows(simulation_, 0); !rows.empty()) {
                if (s_.allowance.kernel == ACL_FLOAT) return accuse({rows, 1, 0}, slack, "");
                return decide_imprecise({rows, 1, 0}, slack);  // a sum may be off, and with it a row
            }
            return decide(Verdict::rounded, rounded_words(m_, noise_name_, noise_));
        }
        const Surface surface(s_);
        const Explained explained = recognise(s_, m_.tolerance, surface, errors, slack);
        const FoundMistake found = mistake(errors, slack);
        const bool explains = explained.accuses() || found.explains(0.8);
        if (explains && !narrow_sums_do(errors, slack, found)) return accuse(errors, slack, "");
        decide_imprecise(errors, slack);
    }

    // The same number added to all results, or the same factor of all: no rounding, however small it is.
    bool have_one_number(const Errors& errors) const {
        if (errors.total < 16 || 2 * errors.total < j_.differing) return false;
        const Explained explained = recognise(s_, m_.tolerance, Surface(s_), errors, j_.kept_share);
        return explained.one_number && explained.share() > 0.9;
    }

    void decide_imprecise(const Errors& errors, double slack) {
        if (const std::string one_way = unlike_any_rounding(errors, slack); !one_way.empty())
            return accuse(errors, slack, "no rounding does that: every result is too " + one_way + " in size");
        const bool of_f32 = s_.allowance.kernel == ACL_FLOAT;
        std::optional<Errors> outliers;  // beside one of the arithmetics
        for (const std::string name : candidates()) {
            const Values other = answers_->simulated(name);
            const Noise noise = noise_of(s_, m_.tolerance, other);
            const bool sums = name.ends_with("_sums"), truncates = name.ends_with("_truncated");
            // f32 has a range that f16 has not: what would be left of its numbers explains anything
            if (of_f32 && noise.peak() > 0.0625) continue;
            // truncated sums lose so much that it would explain anything, but always the same way
            if (truncates && Comparison(s_, m_.tolerance, other, slack).likeness() < 0.8) continue;
            if (!near(noise, truncates ? kNearSums / 2 : sums && !of_f32 ? kNearSums : kNear) || is_local(noise))
                continue;
            Errors beside = outliers_beside(other, noise, sums || truncates, slack);
            if (beside.at.empty()) return decide(Verdict::imprecise, imprecise_words(m_, name, noise));
            if (!outliers) outliers = std::move(beside);
        }
        if (outliers) return accuse(*outliers, slack, "");
        accuse(errors, slack,
               fmt::format("no rounding does that: errors of {:.2g} of the magnitude, where {} leaves {:.2g}",
                           m_.noise.peak(), noise_name_, std::max(noise_.peak(), truncation_.peak())));
    }

    // To nearest, errors go both ways; truncated or lost below the last place, towards zero, or the way that what is
    // divided by such a sum goes. Empty: they may.
    std::string unlike_any_rounding(const Errors& errors, double slack) const {
        const int64_t all = m_.away + m_.towards_zero;
        if (m_.away >= 16 && share_of(m_.away, all) > 0.97 && !narrow_sums_do(errors, slack, {})) return "large";
        if (m_.towards_zero < 16 || share_of(m_.towards_zero, all) < 0.97 || is_narrow(m_)) return "";
        for (const char* name : {"bf16_sums", "f16_sums", "bf16_truncated", "f16_truncated"})
            if (Comparison(s_, m_.tolerance, answers_->simulated(name), slack).cosine() > 0.2) return "";
        return "small";
    }

    // Elements or rows that an arithmetic with such errors would not have.
    Errors outliers_beside(const Values& other, const Noise& noise, bool sums, double slack) const {
        const double most =
            std::min(std::max(outlier_share(2 * noise.worst), slack), std::max(j_.any_share, 2 * noise.worst));
        Errors outliers = errors_beyond(s_, m_.tolerance, most);
        if (outliers.at.empty()) outliers.at = noisy_rows(other, sums ? 2 * kNearSums * noise.peak() : 0);
        return outliers;
    }

    // A sum that is carried in few bits stands still from some term on, as if the rest of it were missing; what is
    // divided by it has a factor. Got is that answer, or, of a 16-bit kernel, goes the same way and not farther; unless
    // it is the answer of a mistake, and far from that of the sums.
    bool narrow_sums_do(const Errors& errors, double slack, const FoundMistake& found) const {
        for (const std::string name : candidates()) {
            if (!name.ends_with("_sums") && !name.ends_with("_truncated")) continue;
            const Values other = answers_->simulated(name);
            const Comparison comparison(s_, m_.tolerance, other, slack);
            if (found.fits && 16 * found.left < comparison.left()) continue;
            if (comparison.share(errors) > 0.8) return true;
            if (s_.allowance.kernel != ACL_FLOAT && comparison.likeness() > 0.9 &&
                near(noise_of(s_, m_.tolerance, other), 1))
                return true;
        }
        return false;
    }

    std::vector<const char*> candidates() const {
        if (s_.allowance.kernel == ACL_BF16) return {"bf16_sums", "bf16_truncated"};
        if (s_.allowance.kernel == ACL_FLOAT16) return {"f16_sums", "bf16", "f16_truncated"};
        return {"f16", "bf16", "f16_sums", "bf16_sums"};
    }

    // Rows whose errors are far larger than the arithmetic leaves in them or elsewhere, while other rows are right. One
    // sum that is off is off in a whole row: `least` is what that can be.
    Indices noisy_rows(const Values& arithmetic, double least) const {
        const std::vector<Noise> got = noise_of_rows(s_, m_.tolerance, s_.got),
                                 other = noise_of_rows(s_, m_.tolerance, arithmetic);
        const double usual =
            std::max({noise_of(s_, m_.tolerance, arithmetic).peak(), truncation_.peak(), m_.noise.peak() / 8});
        std::vector<bool> noisy(got.size());
        for (size_t row = 0; row < got.size(); ++row)
            noisy[row] =
                got[row].count >= 8 && got[row].peak() > std::max(least, 8 * std::max(other[row].peak(), usual));
        const auto rows = std::count(noisy.begin(), noisy.end(), true);
        if (rows == 0 || 2 * rows > static_cast<int64_t>(got.size())) return {};
        const int64_t columns = s_.shape.empty() ? 1 : s_.shape.back();
        Indices found = errors_beyond(s_, m_.tolerance, j_.kept_share).at;
        std::erase_if(found, [&](int64_t i) { return !noisy[static_cast<size_t>(i / columns)]; });
        return found;
    }

    // --- wrong

    const FoundMistake& mistake(const Errors& errors, double slack) {
        if (!mistake_ && answers_ != nullptr && answers_->mistaken)
            mistake_ = find_mistake(s_, m_.tolerance, errors, *answers_, slack,
                                    simulates() && near(noise_, kNear) ? simulation_ : Values());
        if (!mistake_) mistake_.emplace();
        return *mistake_;
    }

    // The causes of these errors, in one sentence.
    std::string words_for(const Surface& surface, const Errors& errors, double slack) {
        const Explained explained = recognise(s_, m_.tolerance, surface, errors, slack);
        std::string words;
        for (const Cause& cause : explained.causes) {
            words += (words.empty() ? "" : "; besides, ") + cause.sentence;
            j_.causes.push_back(cause);
        }
        const double left =
            share_of(static_cast<int64_t>(explained.rest.size()), static_cast<int64_t>(errors.at.size()));
        if (explained.causes.empty()) return plain_sentence(s_, surface, errors.at, errors.step);
        if (left > 0.01) words += "; besides, " + plain_sentence(s_, surface, explained.rest, errors.step);
        return words;
    }

    void accuse(const Errors& errors, double slack, const std::string& instead) {
        const Surface surface(s_);
        const FoundMistake found = mistake(errors, slack);
        std::string reason;
        if (found.explains(0.5)) {
            j_.causes.push_back({found.share, "it " + found.sentence});
            if (found.beneath) return decide(Verdict::wrong, "it " + found.sentence + ", and rounded on the way");
            const Errors rest = {Comparison(s_, m_.tolerance, found.answer, slack).rest(errors.at), errors.step, 0};
            const Explained pattern = recognise(s_, m_.tolerance, surface, errors, slack);
            reason = "it " + found.sentence;
            if (pattern.share() > 0.8)
                reason += " (" + pattern.causes.front().sentence + ")";
            else if (!errors.at.empty())
                reason += " (" + place(surface, errors.at, errors.step).words + ")";
            if (static_cast<double>(rest.at.size()) > 0.01 * static_cast<double>(errors.at.size()))
                reason += "; besides, " + words_for(surface, rest, slack);
        } else {
            // what is no larger than rounding, but no rounding
            reason = words_for(surface, errors.at.empty() ? errors_beyond(s_, m_.tolerance, 0) : errors, slack);
            if (j_.causes.empty() && !instead.empty()) reason += "; " + instead;
            reason += about_the_rest(errors);
        }
        if (found.left_out > 0)
            reason +=
                fmt::format(" ({} mistakes of the formula were not tried: the problem is too large)", found.left_out);
        decide(Verdict::wrong, reason);
    }

    std::string about_the_rest(const Errors& errors) const {
        if (exact() || 2 * errors.total > j_.count || errors.total == 0) return "";
        return errors.total >= j_.beyond_kept ? "; all its errors are there, the rest differs by rounding at most" : "";
    }

    // A tolerance of the caller's own decides between pass and fail; the sentence stays, it says what the difference
    // is.
    void decide_by_own() {
        if (!j_.outside_own || j_.misplaced()) return;
        const bool within = *j_.outside_own == 0;
        if (within == passes(j_.verdict)) return;
        j_.verdict = within ? Verdict::rounded : Verdict::imprecise;
        j_.reason = within ? "within the tolerance given; " + j_.reason
                           : fmt::format("{} elements outside the tolerance given; {}", *j_.outside_own, j_.reason);
    }

    const Subject& s_;
    const Answers* answers_;
    Measured m_;
    Judgement j_;
    std::string noise_name_;  // of the arithmetic that got is expected to have
    Values simulation_;
    Noise noise_, truncation_;
    std::optional<FoundMistake> mistake_;
};

}  // namespace

Judgement judge(const Subject& subject, const JudgeOptions& options, const Answers* answers) {
    return Judge(subject, options, answers).run();
}

}  // namespace gradus::cli
