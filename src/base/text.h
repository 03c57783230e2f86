// Messages. A text has room for so much and allocates nothing, so that an error can be told when memory is exhausted;
// what does not fit is cut off.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gradus {

class Text {
  public:
    static constexpr size_t kMost = 1023;  // the longest message lists the names of all operators: about 400

    Text() noexcept { text_[0] = '\0'; }
    Text(std::string_view text) noexcept : Text() { *this += text; }  // NOLINT(google-explicit-constructor)
    Text(const char* text) noexcept : Text() { *this += text; }       // NOLINT(google-explicit-constructor)
    Text(const Text& other) noexcept : Text(other.view()) {}          // copies what is there, not what could be
    Text& operator=(const Text& other) noexcept;
    ~Text() = default;

    Text& operator+=(std::string_view text) noexcept;

    bool empty() const noexcept { return size_ == 0; }
    std::string_view view() const noexcept { return {text_, size_}; }
    operator std::string_view() const noexcept { return view(); }  // NOLINT(google-explicit-constructor)
    const char* c_str() const noexcept { return text_; }

  private:
    size_t size_ = 0;
    char text_[kMost + 1];
};

inline void append_part(Text& to, std::string_view text) noexcept { to += text; }
void append_part(Text& to, int64_t number) noexcept;
void append_part(Text& to, uint64_t number) noexcept;
inline void append_part(Text& to, int number) noexcept { append_part(to, int64_t{number}); }
inline void append_part(Text& to, uint32_t number) noexcept { append_part(to, uint64_t{number}); }

// Joins texts and integers into one message.
template <typename... Parts>
void append(Text& to, const Parts&... parts) noexcept {
    (append_part(to, parts), ...);
}
template <typename... Parts>
Text concat(const Parts&... parts) noexcept {
    Text text;
    append(text, parts...);
    return text;
}

}  // namespace gradus
