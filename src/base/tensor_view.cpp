#include "base/tensor_view.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "aclnn/aclnn_base.h"

namespace gradus {
namespace {

// A dim that moves: d·stride for d from 0 to `most`.
struct Step {
    uint64_t stride, most;
};

struct Steps {
    std::array<Step, 2 * kMaxRank + 1> step;  // the dims of two views and the bytes of an element
    size_t count = 0;

    void add(uint64_t stride, uint64_t most) { step[count++] = {stride, most}; }
    void add(const TensorView& view, int64_t unit) {
        for (int d = 0; d < view.rank; ++d)  // a dim of size 1 may have any stride, also one whose bytes do not fit
            if (view.of(d) > 1) add(static_cast<uint64_t>(view.step(d) * unit), static_cast<uint64_t>(view.of(d) - 1));
    }
    std::span<const Step> ascending() {
        std::sort(step.begin(), step.begin() + count, [](const Step& a, const Step& b) { return a.stride < b.stride; });
        return {step.data(), count};
    }
};

// Sums with one multiple of each stride: is a target among them? Depth first from the largest stride, over the
// multiples that leave what the smaller ones reach, and a multiple of their common divisor; so two strides take one
// step. Sums never exceed two extents of less than 2^63 bytes, and fit.
class Sums {
  public:
    static constexpr int kBudget = 10000;  // steps of a search, about half a millisecond

    // Strides come in ascending order.
    void add(uint64_t stride, uint64_t most) {
        if (stride == 0 || most == 0) return;
        if (terms_[count_].stride == stride) {
            terms_[count_].most += most;
            terms_[count_].reach += stride * most;
            return;
        }
        const Term& below = terms_[count_];
        Term& term = terms_[++count_];
        term = {stride, most, below.reach + stride * most, std::gcd(below.divisor, stride), 0, 0};
        term.period = below.divisor / term.divisor;
        if (term.period > 1) term.inverse = inverse_of(stride / term.divisor % term.period, term.period);
    }

    // Spends the budget; without any left the answer is yes.
    bool contain(uint64_t target, int& budget) const {
        const Term& top = terms_[count_];
        return target <= top.reach && (count_ == 0 || target % top.divisor == 0) && search(count_, target, budget);
    }

  private:
    struct Term {
        uint64_t stride, most;
        uint64_t reach, divisor;   // largest sum and common divisor of all terms up to this one
        uint64_t period, inverse;  // multiples that suit the smaller terms are `period` apart; 1/stride modulo that
    };

    // The target is within the reach of the first n terms and a multiple of their divisor.
    bool search(size_t n, uint64_t target, int& budget) const {
        if (n <= 1 || --budget < 0) return true;
        const Term &term = terms_[n], &below = terms_[n - 1];
        const uint64_t least = target > below.reach ? (target - below.reach - 1) / term.stride + 1 : 0;
        const uint64_t most = std::min(term.most, target / term.stride);
        const uint64_t remainder = multiply(target / term.divisor, term.inverse, term.period);
        const uint64_t first = least + (remainder + term.period - least % term.period) % term.period;
        for (uint64_t d = first; d <= most; d += term.period)
            if (search(n - 1, target - d * term.stride, budget)) return true;
        return false;
    }

    static uint64_t multiply(uint64_t a, uint64_t b, uint64_t modulo) {
        return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b % modulo);
    }

    // x with a·x = 1 modulo m, by Euclid: u·a = r and v·a = s throughout.
    static uint64_t inverse_of(uint64_t a, uint64_t m) {
        int64_t r = static_cast<int64_t>(a), s = static_cast<int64_t>(m), u = 1, v = 0;
        while (s != 0) {
            const int64_t quotient = r / s;
            r = std::exchange(s, r - quotient * s);
            u = std::exchange(v, u - quotient * v);
        }
        return u < 0 ? m - static_cast<uint64_t>(-u) : static_cast<uint64_t>(u);
    }

    std::array<Term, 2 * kMaxRank + 2> terms_{};  // the first is the empty sum
    size_t count_ = 0;
};

// From a's first byte to b's last one.
__int128 apart(TensorView::Extent a, TensorView::Extent b, int64_t distance) {
    return static_cast<__int128>(distance) + b.end - 1 - a.begin;
}

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

Text shape_text(const TensorView& view) {
    Text text = "[";
    for (int d = 0; d < view.rank; ++d) append(text, d == 0 ? "" : ", ", view.of(d));
    append(text, "]");
    return text;
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
    const int64_t item = dtype_size(view.dtype);
    int64_t bytes;
    overflow |= __builtin_mul_overflow(count, item, &bytes);
    overflow |= last == INT64_MAX || __builtin_mul_overflow(last + 1, item, &bytes);
    if (overflow)
        return {ACLNN_ERR_PARAM_INVALID, concat("shape ", shape_text(view), " with its strides exceeds 2^63 bytes")};
    if (!view.empty() && view.storage >= 0 && last >= view.storage)
        return {ACLNN_ERR_PARAM_INVALID,
                concat("elements ", view.offset, " to ", last, " of the view ", shape_text(view),
                       ", expected inside the ", view.storage, " elements of storageDims")};
    return {};
}

// Two elements that share an address differ in some dim; in the one of the largest stride the second is ahead, in the
// smaller ones anywhere. Counted from as far behind as these can be, all multiples are 0 or more.
bool overlaps_itself(const TensorView& view) {
    if (view.empty() || view.contiguous()) return false;
    Steps steps;
    steps.add(view, 1);
    Sums around;  // of both signs, in the dims so far
    uint64_t behind = 0;
    int budget = Sums::kBudget;
    for (const Step& step : steps.ascending()) {
        if (step.stride <= behind) {
            Sums ahead = around;
            ahead.add(step.stride, step.most - 1);
            if (ahead.contain(behind - step.stride, budget)) return true;
        }
        around.add(step.stride, 2 * step.most);
        behind += step.stride * step.most;
    }
    return false;
}

bool meet(TensorView::Extent a, TensorView::Extent b, int64_t distance) {
    const __int128 most = static_cast<__int128>(a.end - 1 - a.begin) + (b.end - 1 - b.begin);
    return apart(a, b, distance) >= 0 && apart(a, b, distance) <= most;
}

// From a's first byte forward, then backward from b's last byte, to a byte that both have.
Overlap overlap(const TensorView& a, const TensorView& b, int64_t distance) {
    if (a.empty() || b.empty()) return Overlap::no;
    const TensorView::Extent in_a = a.extent(), in_b = b.extent();
    if (!meet(in_a, in_b, distance)) return Overlap::no;
    const int64_t a_bytes = dtype_size(a.dtype), b_bytes = dtype_size(b.dtype);
    Steps steps;
    steps.add(1, static_cast<uint64_t>(a_bytes - 1 + b_bytes - 1));
    steps.add(a, a_bytes);
    steps.add(b, b_bytes);
    Sums sums;
    for (const Step& step : steps.ascending()) sums.add(step.stride, step.most);
    int budget = Sums::kBudget;
    if (!sums.contain(static_cast<uint64_t>(apart(in_a, in_b, distance)), budget)) return Overlap::no;
    return budget < 0 ? Overlap::unknown : Overlap::yes;
}

}  // namespace gradus
