// Call sites: where in the program a call of the interface came from. A stack is taken as numbers, kept once, and read
// (files, lines, names) only when it is reported.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace gradus::sanitize {

using Site = uint32_t;  // 0: none

struct RawStack {
    static constexpr size_t kMost = 16;
    std::array<uintptr_t, kMost> pc;
    size_t count = 0;
    const void* frame = nullptr;  // how deep it was taken

    bool operator==(const RawStack& other) const {
        return std::equal(pc.begin(), pc.begin() + count, other.pc.begin(), other.pc.begin() + other.count);
    }
    struct Hash {
        size_t operator()(const RawStack& stack) const noexcept;
    };
};

// The frames of the calling thread that are the program's: what is inside this library is left out. `site`: where the
// function of the interface returns to, by which a stack that was here before is recognised; nullptr: not known. What
// remember() was told of that stack, or 0.
Site capture(RawStack& stack, const void* site) noexcept;
// Where the calling thread keeps this stack, as long as it recognises it.
void remember(const RawStack& stack, const void* site, Site kept) noexcept;
// The same from a signal's context: the frame that was interrupted comes first.
void capture_from(uintptr_t interrupted, RawStack& stack) noexcept;

struct Frame {
    std::string file, function;  // the file as the compiler was told; empty: not known
    int line = 0;
};

// Behind the process lock.
class Stacks {
  public:
    Site keep(const RawStack& stack);
    const std::vector<Frame>& frames(Site site);  // innermost first, down to main

  private:
    struct Kept {
        RawStack stack;
        std::vector<Frame> frames;
        bool resolved = false;
    };
    std::unordered_map<RawStack, Site, RawStack::Hash> known_;
    std::vector<Kept> kept_;
    std::map<uintptr_t, std::vector<Frame>> resolved_;
    const std::vector<Frame> none_{};
};

std::string place(const Frame& frame);                     // main.cpp:88
std::string stack_text(const std::vector<Frame>& frames);  // main.cpp:88 backward, main.cpp:140 main

}  // namespace gradus::sanitize
