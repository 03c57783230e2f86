#include "cli/judge/words.h"

#include <fmt/format.h>

namespace gradus::cli {
namespace {

double exponent(double size) { return std::log2(std::max(size, 0x1p-60)); }

// Of is_narrow(), or empty.
std::string narrow_words(const Measured& m) {
    const double size = exponent(m.judgement.relative_l2);
    const bool one_way = share_of(m.towards_zero, m.towards_zero + m.away) > 0.98;
    // one rounding to n bits leaves 2^-(n + 1.2) of the values, truncation twice that; more is more than one of them
    const auto narrow = [&](const char* name, int digits, int64_t got, int64_t want) -> std::string {
        if (share_of(got, m.got_nonzero) < 0.999 || share_of(want, m.want_nonzero) > 0.5) return "";
        if (size > -digits + 0.2)
            return fmt::format(
                "every value is a number of {0}, and about 2^{1:.1f} of the values off: looks like sums "
                "carried in {0}",
                name, size);
        return fmt::format("every value is a number of {}: the result was {} to {} on its way", name,
                           one_way ? "truncated" : "rounded", name);
    };
    const std::string words = narrow("bf16", 8, m.got_bf16, m.want_bf16);
    return words.empty() ? narrow("f16", 11, m.got_f16, m.want_f16) : words;
}

std::string errors_words(const Measured& m) {
    const Judgement& j = m.judgement;
    const double one_way = share_of(m.towards_zero, m.towards_zero + m.away);
    const char* direction = one_way > 0.7   ? "mostly towards zero"
                            : one_way < 0.3 ? "mostly away from zero"
                                            : "to both sides";
    return fmt::format("errors in {:.0f} % of the elements, {}, about 2^{:.1f} of the values",
                       100 * share_of(j.differing, j.count), direction, exponent(j.relative_l2));
}

}  // namespace

bool is_narrow(const Measured& m) { return !narrow_words(m).empty(); }

std::string assumed_words(const Allowance& allowance) {
    return fmt::format(
        "no magnitude is known: that of an element was taken to be the largest of its row, its sums to have {:g} "
        "terms, and its kernel to compute in {}",
        allowance.terms, dtype_name(allowance.kernel));
}

std::string kept_words(const Subject& subject, const Judgement& j) {
    const std::string few = fmt::format("{} of {} elements differ, ", j.differing, j.count);
    if (subject.magnitude.given())
        return few + fmt::format("none by more than one rounding and {:.2g} of its magnitude{}", j.kept_share,
                                 subject.allowance.roundings > 0 ? ", which the stated roundings leave" : "");
    if (j.worst_ulps <= 1) return few + "by one ulp at most: rounding explains it";
    return few + fmt::format(
                     "by no more than f32 rounding leaves beside the largest of the row (up to {:.3g} ulps of "
                     "small values)",
                     j.worst_ulps);
}

std::string truncated_words(const Measured& m) {
    return fmt::format(
        "all differences are towards zero and {} one ulp ({:.0f} % of the elements): truncated, not rounded to nearest",
        m.judgement.worst_ulps < 1 ? "below" : "of", 100 * share_of(m.towards_zero + m.away, m.want_nonzero));
}

std::string rounded_words(const Judgement& j) {
    return fmt::format(
        "{} of {} elements are farther off than one rounding, none by more than {:.2g} of the largest of its row",
        j.beyond_kept, j.count, j.rounded_share);
}

std::string rounded_words(const Measured& m, const std::string& arithmetic, const Noise& noise) {
    const std::string what = arithmetic == "f32" ? "f32 sums in another order"
                             : arithmetic == "f32_truncated"
                                 ? "f32 sums, truncated,"
                                 : fmt::format("{} rounded to {} on the way",
                                               arithmetic.ends_with("_products") ? "factors and products" : "factors",
                                               arithmetic.substr(0, arithmetic.find('_')));
    return fmt::format(
        "{} of {} elements are farther off than this library promises, as much as {} leave (2^{:.1f} of the "
        "magnitude, here 2^{:.1f})",
        m.judgement.beyond_kept, m.judgement.count, what, exponent(noise.peak()), exponent(m.noise.peak()));
}

std::string imprecise_words(const Measured& m) {
    if (std::string words = narrow_words(m); !words.empty()) return words;
    const aclDataType dtype = m.judgement.dtype;
    const double size = exponent(m.judgement.relative_l2);
    const char* guess = dtype == ACL_BF16 || size > -8       ? "sums carried in bf16 (or f16), not in f32"
                        : dtype == ACL_FLOAT16 || size > -14 ? "sums or factors carried in f16, not in f32"
                                                             : "a chain of f32 additions that is too long, or an f32 "
                                                               "function of few digits";
    return errors_words(m) + ": looks like " + guess;
}

std::string imprecise_words(const Measured& m, const std::string& arithmetic, const Noise& noise) {
    const std::string type = arithmetic.substr(0, arithmetic.find('_'));
    const std::string what = arithmetic.ends_with("_sums")        ? "sums carried in " + type
                             : arithmetic.ends_with("_truncated") ? "sums truncated to " + type
                                                                  : "factors rounded to " + type;
    const std::string narrow = narrow_words(m);
    return fmt::format("{}: as much as {} leave on these inputs (2^{:.1f} of the magnitude, here 2^{:.1f})",
                       narrow.empty() ? errors_words(m) : narrow, what, exponent(noise.peak()),
                       exponent(m.noise.peak()));
}

std::string misplaced_words(const Judgement& j, const Place& where, int64_t count, double largest) {
    const char* verb = where.singular ? "is" : "are";
    if (j.nan_extra == count) return fmt::format("{} {} NaN where a number is expected", where.words, verb);
    if (j.nan_missing == count)
        return fmt::format("{} {} not NaN where NaN is expected: it must spread", where.words, verb);
    if (j.inf_extra == count && j.inf_missing == 0)
        return fmt::format("{} {} Inf where at most {:.4g} is expected: an intermediate overflows{}", where.words, verb,
                           largest, j.dtype == ACL_FLOAT16 ? ", as f16 does beyond 65504" : "");
    if (j.inf_missing == count) return fmt::format("{} {} not Inf where Inf is expected", where.words, verb);
    return fmt::format("{}: NaN or Inf is not where it is expected ({} NaN and {} Inf too many, {} and {} missing)",
                       where.words, j.nan_extra, j.inf_extra, j.nan_missing, j.inf_missing);
}

}  // namespace gradus::cli
