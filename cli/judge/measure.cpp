// One pass over the tensors, in chunks that do not depend on the number of threads: the same numbers everywhere.
#include "cli/judge/measure.h"

#include <algorithm>
#include <bit>

namespace gradus::cli {
namespace {

// What one chunk adds to the whole.
struct Part {
    explicit Part(const Subject& subject) : m(subject) { m.judgement.histogram.assign(140, 0); }
    Measured m;
    double ulps = 0, bias = 0, relative = 0;
    int64_t within = 0, finite = 0;
};

size_t histogram_bin(double ulps) {
    if (ulps == 0) return 0;
    if (ulps <= 0.5) return 1;
    if (ulps <= 1) return 2;
    return 2 + static_cast<size_t>(std::ceil(std::log2(ulps)));
}

void keep_worst(std::vector<Element>& worst, const Element& element, size_t top) {
    const auto before = [](const Element& a, const Element& b) {
        return a.times > b.times || (a.times == b.times && a.index < b.index);
    };
    if (top == 0 || (worst.size() == top && !before(element, worst.back()))) return;
    worst.insert(std::upper_bound(worst.begin(), worst.end(), element, before), element);
    if (worst.size() > top) worst.pop_back();
}

class Measurer {
  public:
    Measurer(const Subject& subject, const JudgeOptions& options, Part& part)
        : rules_(rules_of(subject.got.dtype())),
          options_(options),
          precise_(subject.got.dtype() == ACL_FLOAT || subject.got.dtype() == ACL_DOUBLE),
          tolerance_(part.m.tolerance),
          least_normal_(tolerance_.grid.least_normal()),
          part_(part),
          j_(part.m.judgement) {
        if (options.rtol || options.atol) j_.outside_own = j_.outside_own.value_or(0);
    }

    void line(const Line& line) {
        for (size_t k = 0; k < line.got.size(); ++k) {
            const double g = line.got[k], w = line.want[k];
            const int64_t index = line.first + static_cast<int64_t>(k);
            if (std::isfinite(g) && std::isfinite(w))
                finite(index, g, w, line.magnitude[k]);
            else
                special(index, g, w, line.magnitude[k]);
        }
        j_.count += static_cast<int64_t>(line.got.size());
    }

  private:
    void finite(int64_t index, double g, double w, double m) {
        Measured& all = part_.m;
        ++part_.finite;
        const double size = std::abs(w);
        all.got_want += g * w, all.got_got += g * g, all.want_want += w * w;
        all.got_nonzero += g != 0, all.want_nonzero += w != 0;
        all.flushed += g == 0 && tolerance_.grid.rounded(w) != 0 && size < least_normal_;
        all.subnormal += g != 0 && std::abs(g) < least_normal_, all.normal += size >= least_normal_;
        if (precise_) narrow(g, all.got_bf16, all.got_f16), narrow(w, all.want_bf16, all.want_f16);
        const bool counts = m > 0 && std::isfinite(m);
        if (g == w) {
            ++part_.within, ++j_.histogram[0];
            if (counts) all.noise.add(0), all.shares.add(0.0);
            return;
        }
        const double error = std::abs(g - w), ulps = error / tolerance_.grid.ulp(size), half = tolerance_.half_units(w);
        if (counts) {
            all.noise.add(std::max(0.0, error - half) / m);
            all.shares.add(error / m);
            if (error > half) j_.worst_share = std::max(j_.worst_share, error / m);
        }
        (std::abs(g) < size ? all.towards_zero : all.away) += 1;
        all.beyond_truncation += error > tolerance_.grid.ulp(size) + tolerance_.f32_share * m;
        all.error_error += error * error;
        const double relative = error / (size + 1e-7);
        part_.relative += relative, j_.worst_relative = std::max(j_.worst_relative, relative);
        part_.within += error <= rules_.atol + rules_.rtol * size;
        if (j_.outside_own) *j_.outside_own += error > options_.atol.value_or(0) + options_.rtol.value_or(0) * size;
        part_.ulps += ulps, part_.bias += std::abs(g) > size ? ulps : -ulps;
        const double kept = tolerance_.kept(w, m);
        j_.beyond_kept += error > kept;
        j_.beyond_rounded += error > tolerance_.rounded(w, m);
        j_.beyond_any += error > tolerance_.any(w, m);
        differs({index, g, w, ulps, kept > 0 ? error / kept : HUGE_VAL});
    }

    // An overflow next to the largest number is one step of the grid, as if the grid went on.
    void special(int64_t index, double g, double w, double m) {
        j_.nan_got += std::isnan(g), j_.nan_want += std::isnan(w);
        if (g == w || (std::isnan(g) && std::isnan(w))) return;
        const double top = tolerance_.grid.top();
        if (!std::isnan(g) && !std::isnan(w)) {
            const double step =
                std::abs(std::clamp(g, -top, top) - std::clamp(w, -top, top)) / tolerance_.grid.ulp(top);
            if (step <= 1 || (std::isinf(g) && std::abs(w) > top)) {  // want of a wider dtype, beyond the range
                if (step > 0) differs({index, g, w, step, 1});
                return;
            }
            if (tolerance_.overflows(g, w, m)) {
                ++j_.beyond_kept;
                return differs({index, g, w, step, step});
            }
        }
        j_.nan_extra += std::isnan(g) && !std::isnan(w), j_.nan_missing += std::isnan(w);
        j_.inf_extra += std::isinf(g) && !std::isnan(w), j_.inf_missing += std::isinf(w) && std::isfinite(g);
        if (j_.outside_own) ++*j_.outside_own;
        differs({index, g, w, HUGE_VAL, HUGE_VAL});
    }

    void differs(const Element& element) {
        // a wider reference, rounded once, is the same bits
        j_.differing += !std::isfinite(element.got) || element.got != tolerance_.grid.rounded(element.want);
        j_.worst_ulps = std::max(j_.worst_ulps, element.ulps);
        if (std::isfinite(element.ulps)) ++j_.histogram[std::min(histogram_bin(element.ulps), j_.histogram.size() - 1)];
        keep_worst(j_.worst, element, options_.top);
    }

    static void narrow(double x, int64_t& bf16, int64_t& f16) {
        if (x == 0) return;
        const auto bits = std::bit_cast<uint64_t>(x);
        bf16 += (bits & ((uint64_t{1} << 45) - 1)) == 0;
        const bool eleven_bits = (bits & ((uint64_t{1} << 42) - 1)) == 0, subnormal = std::abs(x) < 0x1p-14;
        f16 += eleven_bits && std::abs(x) < 65536 && (!subnormal || x * 0x1p24 == std::trunc(x * 0x1p24));
    }

    const Rules rules_;
    const JudgeOptions& options_;
    const bool precise_;  // a dtype that has room for the numbers of a narrower one
    const Tolerance& tolerance_;
    const double least_normal_;
    Part& part_;
    Judgement& j_;
};

void add(Part& to, const Part& from, size_t top) {
    Measured& m = to.m;
    const Measured& n = from.m;
    Judgement& j = m.judgement;
    const Judgement& k = n.judgement;
    j.count += k.count, j.differing += k.differing;
    j.beyond_kept += k.beyond_kept, j.beyond_rounded += k.beyond_rounded, j.beyond_any += k.beyond_any;
    j.nan_got += k.nan_got, j.nan_want += k.nan_want, j.nan_extra += k.nan_extra, j.nan_missing += k.nan_missing;
    j.inf_extra += k.inf_extra, j.inf_missing += k.inf_missing;
    j.worst_ulps = std::max(j.worst_ulps, k.worst_ulps);
    j.worst_share = std::max(j.worst_share, k.worst_share);
    j.worst_relative = std::max(j.worst_relative, k.worst_relative);
    for (size_t i = 0; i < k.histogram.size(); ++i) j.histogram[i] += k.histogram[i];
    if (k.outside_own) j.outside_own = j.outside_own.value_or(0) + *k.outside_own;
    for (const Element& element : k.worst) keep_worst(j.worst, element, top);
    m.shares.add(n.shares), m.noise.add(n.noise);
    m.towards_zero += n.towards_zero, m.away += n.away, m.beyond_truncation += n.beyond_truncation;
    m.got_bf16 += n.got_bf16, m.want_bf16 += n.want_bf16, m.got_f16 += n.got_f16, m.want_f16 += n.want_f16;
    m.got_nonzero += n.got_nonzero, m.want_nonzero += n.want_nonzero;
    m.flushed += n.flushed, m.subnormal += n.subnormal, m.normal += n.normal;
    m.got_want += n.got_want, m.got_got += n.got_got, m.want_want += n.want_want, m.error_error += n.error_error;
    to.ulps += from.ulps, to.bias += from.bias, to.relative += from.relative;
    to.within += from.within, to.finite += from.finite;
}

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

Measured finished(Part& whole, const Subject& subject, const JudgeOptions& options) {
    Measured& m = whole.m;
    Judgement& j = m.judgement;
    j.dtype = subject.got.dtype(), j.rules = rules_of(j.dtype);
    j.kept_share = m.tolerance.kept_share, j.rounded_share = m.tolerance.rounded_share;
    j.any_share = m.tolerance.any_share;
    j.noise = m.noise.peak();
    const auto finite = static_cast<double>(whole.finite);
    j.mean_ulps = ratio(whole.ulps, finite), j.bias_ulps = ratio(whole.bias, finite);
    j.within_cann = whole.finite > 0 ? static_cast<double>(whole.within) / finite : 1;
    j.mean_relative = ratio(whole.relative, finite);
    j.rule_a = j.within_cann >= 0.99;
    j.rule_b = j.mean_relative < j.rules.relative && j.worst_relative < 10 * j.rules.relative;
    j.relative_l2 = m.error_error > 0 ? std::sqrt(m.error_error / m.want_want) : 0;
    j.correlation = m.error_error > 0 ? ratio(m.got_want, std::sqrt(m.got_got * m.want_want)) : 1;
    j.own_rtol = options.rtol.value_or(0), j.own_atol = options.atol.value_or(0);
    while (!j.histogram.empty() && j.histogram.back() == 0) j.histogram.pop_back();
    return m;
}

}  // namespace

Measured measure(const Subject& subject, const JudgeOptions& options) {
    const Lines lines(subject);
    std::vector<Part> parts(static_cast<size_t>(lines.chunks()), Part(subject));
    lines.each([&](const Line& line, int64_t chunk) {
        Measurer(subject, options, parts[static_cast<size_t>(chunk)]).line(line);
    });
    Part whole(subject);
    if (options.rtol || options.atol) whole.m.judgement.outside_own = 0;
    for (const Part& part : parts) add(whole, part, options.top);
    return finished(whole, subject, options);
}

}  // namespace gradus::cli
