// Workspace arithmetic: the plan books named pieces, the kernel asks for them by the same members.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>

namespace gradus {

inline constexpr int64_t kScratchAlign = 512;  // workspace sizes are multiples of it

// `slots` equal parts of one piece, one for each block that may run at once.
template <typename T>
class Piece {
  public:
    T* at(std::byte* workspace, int64_t slot = 0) const {
        return reinterpret_cast<T*>(workspace + offset_ + slot * stride_);
    }

  private:
    friend class Scratch;
    int64_t offset_ = 0, stride_ = 0;
};

class Scratch {
  public:
    template <typename T>
    constexpr Piece<T> book(int64_t count, int64_t slots = 1) {
        Piece<T> piece;
        piece.offset_ = bytes_;
        overflow_ |= __builtin_mul_overflow(count, static_cast<int64_t>(sizeof(T)), &piece.stride_);
        overflow_ |= __builtin_add_overflow(piece.stride_, kScratchAlign - 1, &piece.stride_);
        piece.stride_ -= piece.stride_ % kScratchAlign;
        int64_t all = 0;
        overflow_ |= __builtin_mul_overflow(piece.stride_, slots, &all);
        overflow_ |= __builtin_add_overflow(bytes_, all, &bytes_);
        return piece;
    }

    // As many bytes as the product of the factors, which may be too large for a number.
    constexpr Piece<std::byte> book_bytes(std::initializer_list<int64_t> factors, int64_t slots = 1) {
        int64_t bytes = 1;
        for (const int64_t factor : factors) overflow_ |= __builtin_mul_overflow(bytes, factor, &bytes);
        return book<std::byte>(bytes, slots);
    }

    // What to ask the caller for: all pieces, and room to round any address up.
    constexpr int64_t bytes() const { return bytes_ == 0 ? 0 : bytes_ + kScratchAlign; }
    constexpr bool overflow() const {
        return overflow_ || bytes_ > std::numeric_limits<int64_t>::max() - kScratchAlign;
    }
    // Where the pieces begin in what the caller gave: kernels load whole vectors.
    static std::byte* align(std::byte* workspace) {
        constexpr uintptr_t kLine = 64;
        return workspace + (-reinterpret_cast<uintptr_t>(workspace) & (kLine - 1));
    }

  private:
    int64_t bytes_ = 0;
    bool overflow_ = false;
};
static_assert([] {
    Scratch scratch;
    scratch.book_bytes({4, 3, kScratchAlign}, 2);
    return scratch.bytes() == 24 * kScratchAlign + kScratchAlign && !scratch.overflow();
}());

}  // namespace gradus
