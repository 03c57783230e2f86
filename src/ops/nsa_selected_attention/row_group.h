// Some rows, and all blocks that they selected, block after block: a block that several of them selected is in the
// cache for all of them, and their heads meet it in one product.
#pragma once

#include "base/scratch.h"
#include "ops/nsa_selected_attention/selection.h"

namespace gradus::nsa_selected_attention {

inline constexpr int64_t kMostGroupRows = 64;
// How many rows have scores of some hundred KiB together (in f32, [count, G, width] each): they stay in L2.
inline int64_t rows_of_group(const Problem& e, int64_t width) {
    constexpr int64_t kBytes = 1 << 19;
    return std::clamp<int64_t>(kBytes / (e.count * e.group * width * 4), 1,
                               std::clamp<int64_t>(e.rows, 1, kMostGroupRows));
}
// Heads of the query that a block meets in one product: a k block of the f32 path.
inline constexpr int64_t kHeadsAtOnce = 256;

// A block that a row of the group selected, as the place-th of those it sees.
struct GroupEntry {
    SelectedBlock block;
    int64_t row, place;
};

// Scratch of a thread.
struct GroupScratch {
    Piece<GroupEntry> entries;
    Piece<uint64_t> order;

    void book(Scratch& scratch, int64_t most, int slots) {
        entries = scratch.book<GroupEntry>(most, slots);
        order = scratch.book<uint64_t>(most, slots);
    }
};

class RowGroup {
  public:
    // Rows [begin, end), in any sequences.
    RowGroup(const Problem& problem, const Strided& topk, std::byte* const* address, int64_t key_head, int64_t begin,
             int64_t end, GroupEntry* entries, uint64_t* order)
        : entries_(entries), order_(order) {
        Selection selection;
        for (int64_t row = begin; row < end; ++row) {
            problem.select(topk, address, row, key_head, selection);
            for (int64_t place = 0; place < selection.count; ++place, ++size_) {
                entries[size_] = {selection.at[place], row, place};
                order[size_] = static_cast<uint64_t>(selection.at[place].block) << kBits | static_cast<uint64_t>(size_);
            }
        }
        std::sort(order, order + size_);
    }

    int64_t size() const { return size_; }
    // By block, then by row, then by place.
    const GroupEntry& operator[](int64_t i) const { return entries_[order_[i] & ((uint64_t{1} << kBits) - 1)]; }

    // Calls f(first, last) for runs of entries of one block, at most `most` long. Rows that see a part of a block are
    // alone with it.
    template <typename F>
    void each_run(int64_t most, const F& f) const {
        for (int64_t first = 0, last; first < size_; first = last) {
            const SelectedBlock& block = (*this)[first].block;
            last = first + 1;
            while (block.whole() && last < size_ && last - first < most && (*this)[last].block.block == block.block &&
                   (*this)[last].block.whole())
                ++last;
            f(first, last);
        }
    }

  private:
    static constexpr int kBits = 20;  // of an entry's number; a block's takes at most 44
    GroupEntry* entries_;
    uint64_t* order_;
    int64_t size_ = 0;
};

}  // namespace gradus::nsa_selected_attention
