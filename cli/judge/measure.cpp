// One pass over both tensors, in chunks that do not depend on the number of threads: the same numbers everywhere.
#include "cli/judge/measure.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <thread>

#include "gradus/gradus.h"

namespace gradus::cli {
namespace {

constexpr int64_t kChunk = int64_t{1} << 18;  // elements

void for_chunks(int64_t chunks, const auto& work) {
    const char* option = gradusGetOption("num_threads");
    const int64_t most = option != nullptr ? std::atoll(option) : 1;
    std::atomic<int64_t> next = 0;
    const auto loop = [&] {
        for (int64_t i = next++; i < chunks; i = next++) work(i);
    };
    std::vector<std::jthread> others;
    for (int64_t i = 1; i < std::min(most, chunks); ++i) others.emplace_back(loop);
    loop();
}

// What one chunk adds to the whole.
struct Part {
    Measured m;
    double ulps = 0, bias = 0, relative = 0, relative_large = 0;
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
    Measurer(const Yardstick& yardstick, const JudgeOptions& options, bool precise, Part& part)
        : yard_(yardstick), options_(options), precise_(precise), part_(part), j_(part.m.judgement) {
        j_.histogram.assign(140, 0);
        if (options.rtol || options.atol) j_.outside_own = 0;
    }

    void line(const Line& line) {
        scale_ = line.scale;
        small_below_ = yard_.small_below(scale_);
        for (size_t k = 0; k < line.got.size(); ++k) {
            const double g = line.got[k], w = line.want[k];
            const int64_t index = line.first + static_cast<int64_t>(k);
            if (std::isfinite(g) && std::isfinite(w))
                finite(index, g, w);
            else
                special(index, g, w);
        }
        j_.count += static_cast<int64_t>(line.got.size());
    }

  private:
    void finite(int64_t index, double g, double w) {
        Measured& m = part_.m;
        ++part_.finite;
        const double magnitude = std::abs(w);
        m.got_want += g * w, m.got_got += g * g, m.want_want += w * w;
        m.got_nonzero += g != 0, m.want_nonzero += w != 0;
        if (precise_) narrow(g, m.got_bf16, m.got_f16), narrow(w, m.want_bf16, m.want_f16);
        const bool is_small = magnitude < small_below_;
        j_.small += is_small;
        if (g == w) {
            ++part_.within, ++j_.histogram[0];
            if (w != 0) m.of_scale.add(0.0), m.of_want.add(0.0);
            return;
        }
        const double error = std::abs(g - w), unit = yard_.grid.ulp(magnitude), ulps = error / unit;
        const double times = yard_.rules.rounding < 0 ? HUGE_VAL : error / yard_.allowed(w, scale_);
        (std::abs(g) < magnitude ? m.towards_zero : m.away) += 1;
        m.error_error += error * error;
        m.of_scale.add(error / scale_), m.of_want.add(error / magnitude);
        const double relative = error / (magnitude + 1e-7);
        part_.relative += relative, j_.worst_relative = std::max(j_.worst_relative, relative);
        if (is_small) {
            j_.small_bad += error > yard_.small_error(w, scale_);
        } else {
            part_.relative_large += relative;
            j_.worst_relative_large = std::max(j_.worst_relative_large, relative);
        }
        m.broken += error > yard_.broken(w, scale_);
        part_.within += error <= yard_.rules.atol + yard_.rules.rtol * magnitude;
        if (j_.outside_own)
            *j_.outside_own += error > options_.atol.value_or(0) + options_.rtol.value_or(0) * magnitude;
        part_.ulps += ulps, part_.bias += std::abs(g) > magnitude ? ulps : -ulps;
        differs({index, g, w, ulps, times});
    }

    // An overflow next to the largest number is one step of the grid, as if the grid went on.
    void special(int64_t index, double g, double w) {
        j_.nan_got += std::isnan(g), j_.nan_want += std::isnan(w);
        if (g == w || (std::isnan(g) && std::isnan(w))) return;
        const double top = yard_.grid.top();
        if (!std::isnan(g) && !std::isnan(w)) {
            const double step = std::abs(std::clamp(g, -top, top) - std::clamp(w, -top, top)) / yard_.grid.ulp(top);
            if (step <= 1 || (std::isinf(g) && std::abs(w) > top)) {  // want of a wider dtype, beyond the range
                if (step > 0) differs({index, g, w, step, 1});
                return;
            }
        }
        j_.nan_extra += std::isnan(g) && !std::isnan(w), j_.nan_missing += std::isnan(w);
        j_.inf_extra += std::isinf(g) && !std::isnan(w), j_.inf_missing += std::isinf(w) && std::isfinite(g);
        if (j_.outside_own) ++*j_.outside_own;
        differs({index, g, w, HUGE_VAL, HUGE_VAL});
    }

    void differs(const Element& element) {
        ++j_.differing;
        j_.beyond += element.times > 1;
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

    const Yardstick& yard_;
    const JudgeOptions& options_;
    const bool precise_;  // a dtype that has room for the numbers of a narrower one
    Part& part_;
    Judgement& j_;
    double scale_ = 0, small_below_ = 0;
};

void add(Part& to, const Part& from, size_t top) {
    Measured& m = to.m;
    const Measured& n = from.m;
    Judgement& j = m.judgement;
    const Judgement& k = n.judgement;
    j.count += k.count, j.differing += k.differing, j.beyond += k.beyond;
    j.small += k.small, j.small_bad += k.small_bad;
    j.nan_got += k.nan_got, j.nan_want += k.nan_want, j.nan_extra += k.nan_extra, j.nan_missing += k.nan_missing;
    j.inf_extra += k.inf_extra, j.inf_missing += k.inf_missing;
    j.worst_ulps = std::max(j.worst_ulps, k.worst_ulps);
    j.worst_relative = std::max(j.worst_relative, k.worst_relative);
    j.worst_relative_large = std::max(j.worst_relative_large, k.worst_relative_large);
    for (size_t i = 0; i < k.histogram.size(); ++i) j.histogram[i] += k.histogram[i];
    if (k.outside_own) *j.outside_own += *k.outside_own;
    for (const Element& element : k.worst) keep_worst(j.worst, element, top);
    m.of_scale.add(n.of_scale), m.of_want.add(n.of_want);
    m.broken += n.broken, m.towards_zero += n.towards_zero, m.away += n.away;
    m.got_bf16 += n.got_bf16, m.want_bf16 += n.want_bf16, m.got_f16 += n.got_f16, m.want_f16 += n.want_f16;
    m.got_nonzero += n.got_nonzero, m.want_nonzero += n.want_nonzero;
    m.got_want += n.got_want, m.got_got += n.got_got, m.want_want += n.want_want, m.error_error += n.error_error;
    to.ulps += from.ulps, to.bias += from.bias, to.relative += from.relative, to.relative_large += from.relative_large;
    to.within += from.within, to.finite += from.finite;
}

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

Measured finished(Part& whole, const JudgeOptions& options) {
    Measured& m = whole.m;
    Judgement& j = m.judgement;
    const auto finite = static_cast<double>(whole.finite), small = static_cast<double>(j.small);
    j.mean_ulps = ratio(whole.ulps, finite), j.bias_ulps = ratio(whole.bias, finite);
    j.within_cann = whole.finite > 0 ? static_cast<double>(whole.within) / finite : 1;
    j.mean_relative = ratio(whole.relative, finite);
    j.mean_relative_large = ratio(whole.relative_large, finite - small);
    j.rule_a = j.within_cann >= 0.99;
    const double limit = j.rules.relative;
    j.rule_b = j.mean_relative < limit && j.worst_relative < 10 * limit;
    j.rule_b_large = j.mean_relative_large < limit && j.worst_relative_large < 10 * limit;
    j.relative_l2 = m.error_error > 0 ? std::sqrt(m.error_error / m.want_want) : 0;
    j.correlation = m.error_error > 0 ? ratio(m.got_want, std::sqrt(m.got_got * m.want_want)) : 1;
    j.own_rtol = options.rtol.value_or(0), j.own_atol = options.atol.value_or(0);
    while (!j.histogram.empty() && j.histogram.back() == 0) j.histogram.pop_back();
    return m;
}

}  // namespace

Measured measure(const Tensor& got, const Tensor& want, const std::string& promise, const JudgeOptions& options) {
    const Lines lines(got, want);
    const int64_t length = std::max<int64_t>(1, got.count() / std::max<int64_t>(1, lines.size()));
    const int64_t step = std::max<int64_t>(1, kChunk / length), chunks = (lines.size() + step - 1) / step;
    const auto each_line = [&](int64_t chunk, const auto& work) {
        Lines::Buffer buffer;
        const int64_t end = std::min((chunk + 1) * step, lines.size());
        for (int64_t i = chunk * step; i < end; ++i) work(lines.load(i, buffer));
    };
    std::vector<double> scales(static_cast<size_t>(chunks), 0.0);
    for_chunks(chunks, [&](int64_t chunk) {
        double& scale = scales[static_cast<size_t>(chunk)];
        each_line(chunk, [&](const Line& line) { scale = std::max(scale, line.scale); });
    });
    Yardstick yardstick{rules_of(got.dtype(), promise), grid_of(got.dtype()), 0};
    for (const double scale : scales) yardstick.tensor_scale = std::max(yardstick.tensor_scale, scale);
    const bool precise = got.dtype() == ACL_FLOAT || got.dtype() == ACL_DOUBLE;
    std::vector<Part> parts(static_cast<size_t>(chunks));
    for_chunks(chunks, [&](int64_t chunk) {
        Measurer measurer(yardstick, options, precise, parts[static_cast<size_t>(chunk)]);
        each_line(chunk, [&](const Line& line) { measurer.line(line); });
    });
    Part whole;
    const Measurer nothing(yardstick, options, precise, whole);  // its histogram and tolerance are set up
    whole.m.yardstick = yardstick;
    whole.m.judgement.dtype = got.dtype(), whole.m.judgement.rules = yardstick.rules;
    for (const Part& part : parts) add(whole, part, options.top);
    return finished(whole, options);
}

}  // namespace gradus::cli
