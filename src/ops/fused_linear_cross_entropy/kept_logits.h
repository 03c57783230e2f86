// Logits that one phase of a call leaves for the next: as their distance from the largest one of their row and block, in
// 65,535 steps of the widest of these distances, so that one is off by up to 2^-17 of that. Where tokens are no more
// than hidden units they lie in the memory of weightGrad, whose rows are written when the logits of their panel have
// been read; else in scratch memory, of as many words of the vocabulary as fit a fixed size.
#pragma once

#include <algorithm>

#include "base/arithmetic.h"
#include "base/dtype.h"
#include "base/scratch.h"
#include "ops/fused_linear_cross_entropy/kernel.h"

namespace gradus::fused_linear_cross_entropy {

class KeptLogits {
  public:
    static constexpr int64_t kMostBytes = 128 << 20;

    // Made in blocks of so many columns, of which the maker's panels have whole numbers; read in panels. `room`:
    // weightGrad, where its rows are dense.
    void book(const Sizes& maker, int64_t columns, int64_t panel, const Strided* room, Scratch& scratch) {
        tokens_ = maker.tokens, columns_ = columns, panel_ = panel;
        in_place_ = room != nullptr && maker.tokens <= maker.hidden;
        const int64_t most = in_place_ ? maker.words : kMostBytes / int64_t{sizeof(uint16_t)} / maker.tokens;
        words_ = most >= maker.words ? maker.words : most / panel * panel;
        if (words_ == 0) return;
        scales_ = scratch.book<Scale>(tokens_ * ceil_div(words_, columns_));
        pitch_ = in_place_ ? maker.hidden : tokens_;
        if (in_place_)
            room_ = *room;
        else
            values_ = scratch.book<uint16_t>(tokens_ * words_);
    }

    // Whether all words before `end` are kept.
    bool has(int64_t end) const { return end <= words_; }

    // n logits of a token, in one block, of which those are kept that there is room for.
    void keep(const RowFunctions& rows, std::byte* const* address, std::byte* workspace, int64_t token, int64_t word,
              const float* logits, int64_t n, float largest) const {
        if (word >= words_) return;
        const Scale scale = rows.scale(logits, n, largest);
        scales_.at(workspace)[word / columns_ * tokens_ + token] = scale;
        for (const int64_t end = std::min(word + n, words_); word < end;) {
            const int64_t part = std::min(end, (word / panel_ + 1) * panel_) - word;
            rows.keep(logits, part, scale, at(address, workspace, token, word));
            word += part, logits += part;
        }
    }

    // n of them, in one panel.
    void restore(const RowFunctions& rows, std::byte* const* address, std::byte* workspace, int64_t token, int64_t word,
                 int64_t n, float* logits) const {
        for (const int64_t end = word + n; word < end;) {
            const int64_t part = std::min(end, (word / columns_ + 1) * columns_) - word;
            rows.restore(at(address, workspace, token, word), part,
                         scales_.at(workspace)[word / columns_ * tokens_ + token], logits);
            word += part, logits += part;
        }
    }

  private:
    // [tokens, words of the panel], at the beginning of the panel's rows of weightGrad
    uint16_t* at(std::byte* const* address, std::byte* workspace, int64_t token, int64_t word) const {
        uint16_t* const all = in_place_ ? reinterpret_cast<uint16_t*>(room_.at(address, 0)) : values_.at(workspace);
        const int64_t first = word / panel_ * panel_;
        return all + first * pitch_ + token * std::min(panel_, words_ - first) + word - first;
    }

    int64_t tokens_ = 0, words_ = 0, columns_ = 1, panel_ = 1, pitch_ = 0;
    bool in_place_ = false;
    Strided room_;
    Piece<uint16_t> values_;
    Piece<Scale> scales_;  // [blocks, tokens]
};

}  // namespace gradus::fused_linear_cross_entropy
