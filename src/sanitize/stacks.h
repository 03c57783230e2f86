// Call sites: where in the program a call of the interface came from. A stack is taken as numbers, kept once, and read
// (files, lines, names) only when it is reported.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gradus::sanitize {

struct RawStack {
    static constexpr size_t kMost = 16;
    std::array<uintptr_t, kMost> pc;
    size_t count = 0;
};

// The frames of the calling thread that are the program's: what is inside this library is left out.
void capture(RawStack& stack) noexcept;
// The same from a signal's context: the frame that was interrupted comes first.
void capture_from(uintptr_t interrupted, RawStack& stack) noexcept;

struct Frame {
    std::string file, function;  // the file as the compiler was told; empty: not known
    int line = 0;
};

using Site = uint32_t;  // 0: none

// Behind the process lock.
class Stacks {
  public:
    Site keep(const RawStack& stack);
    const std::vector<Frame>& frames(Site site);  // innermost first, down to main

  private:
    struct Kept {
        std::vector<uintptr_t> pc;
        std::vector<Frame> frames;
        bool resolved = false;
    };
    std::map<std::vector<uintptr_t>, Site> known_;
    std::vector<Kept> kept_;
    std::map<uintptr_t, std::vector<Frame>> resolved_;
    const std::vector<Frame> none_{};
};

std::string place(const Frame& frame);                     // main.cpp:88
std::string stack_text(const std::vector<Frame>& frames);  // main.cpp:88 backward, main.cpp:140 main

}  // namespace gradus::sanitize
