#include "base/text.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace gradus {
namespace {

template <typename T>
void append_number(Text& to, T number) noexcept {
    char digits[24];
    const auto [end, error] = std::to_chars(digits, digits + sizeof digits, number);
    to += std::string_view(digits, static_cast<size_t>(end - digits));
}

}  // namespace

Text& Text::operator=(const Text& other) noexcept {
    if (this == &other) return *this;
    size_ = 0;
    return *this += other.view();
}

Text& Text::operator+=(std::string_view text) noexcept {
    const size_t count = std::min(text.size(), kMost - size_);
    std::memcpy(text_ + size_, text.data(), count);
    size_ += count;
    text_[size_] = '\0';
    return *this;
}

void append_part(Text& to, int64_t number) noexcept { append_number(to, number); }
void append_part(Text& to, uint64_t number) noexcept { append_number(to, number); }

}  // namespace gradus
