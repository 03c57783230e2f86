// What the tiles after one will read comes into L2 while that one is computed: every k fetches its share.
#pragma once

#include "gemm/gemm.h"

namespace gradus::gemm {
// Without linkage: each file compiles it for its own instruction set, and the linker must not mix them.
namespace {

struct Ahead {
    const std::byte* at = nullptr;
    int64_t step = 0;  // bytes for every k

    Ahead from(int64_t first) const { return {at + first * step, step}; }
    void fetch(int64_t k = 1) {
        __builtin_prefetch(at, 0, 2);
        at += k * step;
    }
};

// Of a block of packed operands whose tiles go strip by strip of A, then strip by strip of B, then by k blocks.
class Next {
  public:
    Next(const Panel& a, const std::byte* packed_a, const Panel& b, const std::byte* packed_b, const Block& block)
        : a_(a),
          b_(b),
          packed_a_(packed_a),
          packed_b_(packed_b),
          block_(block),
          a_step_(a.strip.rows * a.item / block.b_strips),
          b_step_(b.strip.rows * b.item / block.a_strips) {}

    // A tile's share of the same strip of A in the next k block.
    Ahead of_a(int64_t kb, int64_t i, int64_t j) const {
        if (last(kb)) return {packed_a_, 0};
        return Ahead{packed_a_ + a_.at(kb + 1, block_.a_strip + i), a_step_}.from(j * a_.length(kb));
    }
    // A tile's share of the next strip of B.
    Ahead of_b(int64_t kb, int64_t i, int64_t j) const {
        const bool here = j + 1 < block_.b_strips;
        if (last(kb) && !here) return {packed_b_, 0};
        const int64_t at = here ? b_.at(kb, block_.b_strip + j + 1) : b_.at(kb + 1, block_.b_strip);
        return Ahead{packed_b_ + at, b_step_}.from(i * a_.length(kb));
    }

  private:
    bool last(int64_t kb) const { return (kb + 1) * a_.k_block >= a_.k; }

    const Panel &a_, &b_;
    const std::byte *packed_a_, *packed_b_;
    const Block& block_;
    int64_t a_step_, b_step_;
};

}  // namespace
}  // namespace gradus::gemm
