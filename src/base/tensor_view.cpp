#include "base/tensor_view.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "aclnn/aclnn_base.h"

namespace gradus {
namespace {

// Addresses two elements can differ by are sums d·stride with |d| bounded: does any such sum hit the target? Depth
// first from the largest stride; what the smaller ones can still reach prunes nearly everything.
class Difference {
  public:
    void add(int64_t stride, int64_t low, int64_t high) {
        if (low == 0 && high == 0) return;
        for (Term& term : terms_) {
            if (term.stride != stride) continue;
            term.low += low;
            term.high += high;
            merged_ = true;
            return;
        }
        terms_.push_back({stride, low, high});
    }

    // `nonzero`: by another choice than all d = 0. Two dims of one stride can step against each other.
    bool reaches(int64_t target, bool nonzero) {
        if (nonzero && merged_) return true;
        std::sort(terms_.begin(), terms_.end(), [](const Term& a, const Term& b) { return a.stride > b.stride; });
        reach_.assign(terms_.size() + 1, {0, 0});
        divisor_.assign(terms_.size() + 1, 0);
        for (size_t i = terms_.size(); i-- > 0;) {
            reach_[i] = {reach_[i + 1].low + terms_[i].low * terms_[i].stride,
                         reach_[i + 1].high + terms_[i].high * terms_[i].stride};
            divisor_[i] = std::gcd(divisor_[i + 1], terms_[i].stride);
        }
        return search(0, target, nonzero);
    }

  private:
    struct Term {
        int64_t stride, low, high;
    };
    struct Range {
        int64_t low, high;
    };

    bool search(size_t i, int64_t target, bool nonzero) {
        if (target < reach_[i].low || target > reach_[i].high) return false;
        if (i == terms_.size()) return target == 0 && !nonzero;
        if (divisor_[i] != 0 && target % divisor_[i] != 0) return false;
        if (--budget_ < 0) return true;
        const Term& term = terms_[i];
        if (term.stride == 0) return true;  // nothing is left to reach, and this one may step without moving
        // low ≤ (target − rest)/stride ≤ high with rest inside what the smaller strides reach
        const int64_t first = std::max(term.low, ceil_div(target - reach_[i + 1].high, term.stride));
        const int64_t last = std::min(term.high, floor_div(target - reach_[i + 1].low, term.stride));
        for (int64_t d = first; d <= last; ++d)
            if (search(i + 1, target - d * term.stride, nonzero && d == 0)) return true;
        return false;
    }

    static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0 ? 1 : 0); }
    static int64_t ceil_div(int64_t a, int64_t b) { return -floor_div(-a, b); }

    std::vector<Term> terms_;
    bool merged_ = false;
    std::vector<Range> reach_;
    std::vector<int64_t> divisor_;
    int budget_ = 100000;
};

}  // namespace

int64_t TensorView::numel() const {
    int64_t n = 1;
    for (int d = 0; d < rank; ++d) n *= of(d);
    return n;
}

bool TensorView::empty() const {
    return std::any_of(size.begin(), size.begin() + rank, [](int64_t n) { return n == 0; });
}

bool TensorView::contiguous() const {
    int64_t expected = 1;
    for (int d = rank - 1; d >= 0; --d) {
        if (of(d) == 0) return true;
        if (of(d) != 1 && step(d) != expected) return false;
        expected *= of(d);
    }
    return true;
}

bool TensorView::operator==(const TensorView& other) const {
    return rank == other.rank && offset == other.offset && dtype == other.dtype &&
           std::equal(size.begin(), size.begin() + rank, other.size.begin()) &&
           std::equal(stride.begin(), stride.begin() + rank, other.stride.begin());
}

TensorView::Extent TensorView::extent() const {
    if (empty()) return {0, 0};
    int64_t last = offset;
    for (int d = 0; d < rank; ++d) last += (of(d) - 1) * step(d);
    const int64_t bytes = dtype_size(dtype);
    return {offset * bytes, (last + 1) * bytes};
}

std::string shape_text(const TensorView& view) {
    std::string text = "[";
    for (int d = 0; d < view.rank; ++d) text += concat(d == 0 ? "" : ", ", view.of(d));
    return text + "]";
}

Status check_extent(const TensorView& view) {
    for (int d = 0; d < view.rank; ++d) {
        if (view.of(d) < 0)
            return {ACLNN_ERR_PARAM_INVALID, concat("size ", view.of(d), " of dim ", d, ", expected 0 or more")};
        if (view.step(d) < 0)
            return {ACLNN_ERR_PARAM_INVALID, concat("stride ", view.step(d), " of dim ", d, ", expected 0 or more")};
    }
    if (view.offset < 0) return {ACLNN_ERR_PARAM_INVALID, concat("offset ", view.offset, ", expected 0 or more")};
    int64_t count = 1, last = view.offset;
    bool overflow = false;
    for (int d = 0; d < view.rank; ++d) {
        const int64_t size = std::max<int64_t>(view.of(d), 1);  // plans multiply the other sizes of empty views too
        int64_t reach;
        overflow |= __builtin_mul_overflow(count, size, &count);
        overflow |= __builtin_mul_overflow(size - 1, view.step(d), &reach);
        overflow |= __builtin_add_overflow(last, reach, &last);
    }
    int64_t bytes;
    overflow |= __builtin_mul_overflow(count, dtype_size(view.dtype), &bytes);
    overflow |= last == INT64_MAX || __builtin_mul_overflow(last + 1, dtype_size(view.dtype), &bytes);
    if (overflow)
        return {ACLNN_ERR_PARAM_INVALID, concat("shape ", shape_text(view), " with its strides exceeds 2^63 bytes")};
    if (!view.empty() && view.storage >= 0 && last >= view.storage)
        return {ACLNN_ERR_PARAM_INVALID,
                concat("elements ", view.offset, " to ", last, " of the view ", shape_text(view),
                       ", expected inside the ", view.storage, " elements of storageDims")};
    return {};
}

bool overlaps_itself(const TensorView& view) {
    if (view.empty() || view.contiguous()) return false;
    Difference difference;
    for (int d = 0; d < view.rank; ++d) difference.add(view.step(d), 1 - view.of(d), view.of(d) - 1);
    return difference.reaches(0, true);
}

bool overlaps(const TensorView& a, const TensorView& b, int64_t distance) {
    const TensorView::Extent in_a = a.extent(), in_b = b.extent();
    if (in_a.end <= in_b.begin + distance || in_b.end + distance <= in_a.begin || a.empty() || b.empty()) return false;
    const int64_t a_bytes = dtype_size(a.dtype), b_bytes = dtype_size(b.dtype);
    Difference difference;  // byte of a − byte of b
    difference.add(1, 1 - b_bytes, a_bytes - 1);
    for (int d = 0; d < a.rank; ++d) difference.add(a.step(d) * a_bytes, 0, a.of(d) - 1);
    for (int d = 0; d < b.rank; ++d) difference.add(b.step(d) * b_bytes, 1 - b.of(d), 0);
    return difference.reaches(distance + in_b.begin - in_a.begin, false);
}

}  // namespace gradus
