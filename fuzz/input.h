// The bytes of a case, read as choices. Past the end every choice is the first one, so that any bytes are a case and
// fewer bytes make a plainer one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace gradus::fuzz {

class Input {
  public:
    Input(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}

    // 0 to n − 1, from as few bytes as that needs.
    uint64_t below(uint64_t n) {
        uint64_t value = 0;
        for (uint64_t reach = 1; reach<n; reach = reach>(UINT64_MAX >> 8) ? UINT64_MAX : reach << 8)
            value = value << 8 | byte();
        return n == 0 ? value : value % n;
    }
    int64_t between(int64_t low, int64_t high) {
        return low + static_cast<int64_t>(below(static_cast<uint64_t>(high - low) + 1));
    }
    // Not past the end.
    bool one_in(uint64_t n) { return below(n) == n - 1; }
    uint64_t word() {
        uint64_t value = 0;
        for (int i = 0; i < 8; ++i) value = value << 8 | byte();
        return value;
    }
    template <typename T>
    T pick(std::initializer_list<T> values) {
        return values.begin()[below(values.size())];
    }
    template <typename T>
    const T& pick(const std::vector<T>& values) {
        return values[below(values.size())];
    }
    // Mostly small, now and then around a vector, a tile or a page.
    int64_t size(int64_t most) {
        const int64_t wanted = one_in(4) ? pick<int64_t>({15, 16, 17, 31, 33, 63, 64, 65, 127, 129}) : between(1, 9);
        return wanted < most ? wanted : most;
    }

    bool ended() const { return at_ == end_; }
    std::string rest() {
        std::string text(reinterpret_cast<const char*>(at_), static_cast<size_t>(end_ - at_));
        at_ = end_;
        return text;
    }

  private:
    uint8_t byte() { return at_ == end_ ? uint8_t{0} : *at_++; }

    const uint8_t *at_, *end_;
};

}  // namespace gradus::fuzz
