// Call sites in words. A program has few of them and calls often, so each is looked up once.
#pragma once

#include <cstdint>
#include <string_view>

#include "trace/pages.h"

namespace gradus::trace {

class Sites {
  public:
    // Empty for nullptr, and where there is no room for more.
    std::string_view text(const void* site) noexcept;

  private:
    static constexpr size_t kSlots = size_t{1} << 14, kBytes = size_t{4} << 20;

    struct Slot {
        const void* site;
        std::string_view text;
    };
    Pages<Slot> slots_{kSlots};
    Pages<char> memory_{kBytes};
    size_t used_ = 0, known_ = 0;
};

}  // namespace gradus::trace
