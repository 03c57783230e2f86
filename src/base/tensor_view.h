// A tensor without its address: shape, strides, dtype. All questions about memory are answered here, once.
#pragma once

#include <array>
#include <cstdint>

#include "acl/acl_base.h"
#include "base/dtype.h"
#include "base/status.h"

namespace gradus {

inline constexpr int kMaxRank = 25;

struct TensorView {
    int rank = 0;
    std::array<int64_t, kMaxRank> size{};
    std::array<int64_t, kMaxRank> stride{};  // in elements
    int64_t offset = 0;                      // in elements
    int64_t storage = 0;                     // elements that the caller says are there; −1: more than can be counted
    DType dtype = DType::f32;
    aclFormat format = ACL_FORMAT_ND;

    int64_t numel() const;
    bool empty() const;
    bool contiguous() const;  // row-major without gaps; dims of size 1 may have any stride
    bool operator==(const TensorView& other) const;

    // Byte range of the elements relative to the address, [begin, end); {0, 0} when empty.
    struct Extent {
        int64_t begin, end;
    };
    Extent extent() const;

    int64_t of(int dim) const { return size[static_cast<size_t>(dim)]; }
    // In elements. That of a dim with at most one may be anything, also a number whose bytes do not fit: then 1.
    int64_t step(int dim) const {
        const auto d = static_cast<size_t>(dim);
        return size[d] <= 1 && stride[d] > INT64_MAX / 16 ? 1 : stride[d];
    }
};

Text shape_text(const TensorView& view);  // "[4, 1, 22016]"

// Sizes, strides and the offset are not negative, every product of sizes and every offset fits int64 in bytes (of an
// empty view with each 0 taken as 1), and every element lies inside the storage.
Status check_extent(const TensorView& view);

// Whether two elements of one view share an address, and whether any element of `a` shares a byte with one of `b` when
// b's address is `distance` bytes behind a's. Both views have passed check_extent. Exact, except that hopelessly
// tangled strides are given up, and count as overlapping; takes no memory, and a millisecond at most.
// Where the ranges from first to last byte do not even meet, nothing overlaps: a few instructions tell that.
enum class Overlap { no, yes, unknown };
bool meet(TensorView::Extent a, TensorView::Extent b, int64_t distance);
bool overlaps_itself(const TensorView& view);
Overlap overlap(const TensorView& a, const TensorView& b, int64_t distance);
inline bool overlaps(const TensorView& a, const TensorView& b, int64_t distance) {
    return overlap(a, b, distance) != Overlap::no;
}

}  // namespace gradus
