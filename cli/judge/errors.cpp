#include "cli/judge/errors.h"

#include <fmt/format.h>

#include <numeric>

namespace gradus::cli {
namespace {

constexpr int64_t kMostKept = 1 << 20;  // of errors; what they have in common shows in fewer

bool misplaced(double g, double w) {
    return !(std::isfinite(g) && std::isfinite(w)) && g != w && !(std::isnan(g) && std::isnan(w));
}

// Every error twice: counted, then one of every so many kept.
Errors collected(const Subject& subject, const std::function<bool(double g, double w, double m)>& is_error) {
    const Lines lines(subject);
    std::vector<Indices> parts(static_cast<size_t>(lines.chunks()));
    lines.each([&](const Line& line, int64_t chunk) {
        for (size_t k = 0; k < line.got.size(); ++k)
            if (line.got[k] != line.want[k] && is_error(line.got[k], line.want[k], line.magnitude[k]))
                parts[static_cast<size_t>(chunk)].push_back(line.first + static_cast<int64_t>(k));
    });
    Errors errors;
    for (const Indices& part : parts) errors.total += static_cast<int64_t>(part.size());
    errors.step = std::max<int64_t>(1, (errors.total + kMostKept - 1) / kMostKept);
    int64_t n = 0;
    for (const Indices& part : parts)
        for (const int64_t index : part)
            if (n++ % errors.step == 0) errors.at.push_back(index);
    return errors;
}

}  // namespace

Errors errors_beyond(const Subject& subject, const Tolerance& tolerance, double share) {
    const double top = tolerance.grid.top();
    return collected(subject, [&](double g, double w, double m) {
        if (std::isfinite(g) && std::isfinite(w)) return std::abs(g - w) > tolerance.within(share, w, m);
        return misplaced(g, w) && !(std::isinf(g) && std::abs(w) > top) && !tolerance.overflows(g, w, m);
    });
}

Errors misplaced_errors(const Subject& subject, const Tolerance& tolerance) {
    const double top = tolerance.grid.top(), unit = tolerance.grid.ulp(top);
    return collected(subject, [&](double g, double w, double m) {
        if (!misplaced(g, w) || tolerance.overflows(g, w, m)) return false;
        if (std::isnan(g) || std::isnan(w)) return true;
        const double step = std::abs(std::clamp(g, -top, top) - std::clamp(w, -top, top)) / unit;
        return step > 1 && !(std::isinf(g) && std::abs(w) > top);
    });
}

Comparison::Comparison(const Subject& subject, const Tolerance& tolerance, const Values& other, double slack)
    : s_(subject),
      tolerance_(tolerance),
      other_(other),
      slack_(std::max(slack, tolerance.kept_share)),
      lines_(subject) {}

bool Comparison::explains(int64_t index) const {
    const double g = s_.got.at(index), w = s_.want.at(index), a = other_.at(index), off = std::abs(g - a);
    if (!std::isfinite(g) || !std::isfinite(a)) return g == a || (std::isnan(g) && std::isnan(a));
    return off <= 2 * tolerance_.within(slack_, a, std::max(lines_.magnitude_at(index), std::abs(a))) &&
           !(off > 0.25 * std::abs(g - w));
}

double Comparison::share(const Errors& errors) const {
    if (errors.at.empty()) {
        const Sums s = sums();
        // |got − other|² = |got − want|² − 2·(got − want)(other − want) + |other − want|²
        return s.got_got > 0 ? std::max(0.0, (2 * s.got_other - s.other_other) / s.got_got) : 0;
    }
    const size_t step = std::max<size_t>(1, errors.at.size() / 65536);
    int64_t alike = 0, compared = 0;
    for (size_t n = 0; n < errors.at.size(); n += step) alike += explains(errors.at[n]), ++compared;
    const auto total = static_cast<double>(std::max(errors.total, static_cast<int64_t>(errors.at.size())));
    return static_cast<double>(alike) / static_cast<double>(compared) * total / (total + static_cast<double>(silent()));
}

int64_t Comparison::silent() const {
    std::vector<int64_t> parts(static_cast<size_t>(lines_.chunks()), 0);
    lines_.each([&](const Line& line, int64_t chunk) {
        std::vector<double> values(line.want.size());
        other_.load(line.first, values);
        for (size_t k = 0; k < values.size(); ++k) {
            const double within = tolerance_.within(slack_, line.want[k], line.magnitude[k]);
            parts[static_cast<size_t>(chunk)] +=
                std::abs(line.got[k] - line.want[k]) <= within && std::abs(values[k] - line.want[k]) > 4 * within;
        }
    });
    return std::accumulate(parts.begin(), parts.end(), int64_t{0});
}

Indices Comparison::rest(const Indices& errors) const {
    Indices rest;
    for (const int64_t index : errors)
        if (!explains(index)) rest.push_back(index);
    return rest;
}

double Comparison::cosine() const {
    const Sums s = sums();
    return s.got_other != 0 ? s.got_other / std::sqrt(s.got_got * s.other_other) : 0;
}

double Comparison::weight() const {
    const Sums s = sums();
    return s.other_other > 0 ? s.got_other / s.other_other : 0;
}

double Comparison::left() const {
    Subject other = s_;
    other.want = other_;
    const Noise all = noise_of_got(s_, tolerance_), rest = noise_of_got(other, tolerance_);
    if (rest.count < all.count) return 1;  // it is not finite where got is
    return all.squares > 0 ? rest.squares / all.squares : 1;
}

void Comparison::add(Sums& sums, double m, double want, double got, double other) const {
    // next to what underflow leaves, a share of the magnitude says nothing
    if (!(m > 64 * tolerance_.underflow) || !std::isfinite(m + want + got + other)) return;
    const double a = (got - want) / m, b = (other - want) / m;
    sums.got_got += a * a, sums.other_other += b * b, sums.got_other += a * b;
}

Comparison::Sums Comparison::sums() const {
    std::vector<Sums> parts(static_cast<size_t>(lines_.chunks()));
    lines_.each([&](const Line& line, int64_t chunk) {
        Sums& part = parts[static_cast<size_t>(chunk)];
        std::vector<double> values(line.want.size());
        other_.load(line.first, values);
        for (size_t k = 0; k < values.size(); ++k) add(part, line.magnitude[k], line.want[k], line.got[k], values[k]);
    });
    Sums all;
    for (const Sums& part : parts)
        all.got_got += part.got_got, all.other_other += part.other_other, all.got_other += part.got_other;
    return all;
}

std::string plain_sentence(const Subject& subject, const Surface& surface, const Indices& indices, int64_t step) {
    const Lines lines(subject);
    double worst = 0, mean = 0, largest = 0;
    int64_t at = -1, n = 0;
    const size_t stride = std::max<size_t>(1, indices.size() / 65536);
    for (size_t k = 0; k < indices.size(); k += stride) {
        const int64_t i = indices[k];
        const double w = subject.want.at(i), error = std::abs(subject.got.at(i) - w), m = lines.magnitude_at(i);
        if (!std::isfinite(error)) continue;
        mean += error, ++n, largest = std::max(largest, std::abs(w));
        const double share = m > 0 ? error / m : HUGE_VAL;
        if (at < 0 || share > worst) worst = share, at = i;
    }
    const Place where = place(surface, indices, step);
    const char* verb = where.singular ? "is" : "are";
    if (n == 0) return fmt::format("{} {} wrong", where.words, verb);
    const std::string size =
        std::isinf(worst) ? "where nothing is added up" : fmt::format("{:.2g} of the magnitude", worst);
    return fmt::format("{} {} wrong, by {:.2g}{} where up to {:.2g} is expected (worst at {}: {})", where.words, verb,
                       mean / static_cast<double>(n), n > 1 ? " on average" : "", largest,
                       index_text(subject.shape, at), size);
}

}  // namespace gradus::cli
