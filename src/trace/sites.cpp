#include "trace/sites.h"

#include <cstring>

#include "base/symbols.h"

namespace gradus::trace {

std::string_view Sites::text(const void* site) noexcept {
    if (site == nullptr || slots_.size() == 0) return {};
    size_t at = (reinterpret_cast<uintptr_t>(site) * 0x9E3779B97F4A7C15U >> 32) % kSlots;
    while (slots_[at].site != nullptr && slots_[at].site != site) at = (at + 1) % kSlots;
    Slot& slot = slots_[at];
    if (slot.site == site) return slot.text;
    const Text text = place_of(site);
    const std::string_view view = text.view();
    if (known_ == kSlots / 2 || view.size() > memory_.size() - used_) return {};
    std::memcpy(memory_.items().data() + used_, view.data(), view.size());
    slot = {site, {memory_.items().data() + used_, view.size()}};
    used_ += view.size();
    ++known_;
    return slot.text;
}

}  // namespace gradus::trace
