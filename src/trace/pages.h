// Memory for a signal handler: straight from the system.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <span>

namespace gradus::trace {

// So many zeros of T, which must be fine with zeros; none where there is no memory.
template <typename T>
class Pages {
  public:
    explicit Pages(size_t count) noexcept {
        if (count == 0) return;
        void* const pages = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (pages != MAP_FAILED) items_ = {static_cast<T*>(pages), count};
    }
    ~Pages() {
        if (!items_.empty()) munmap(items_.data(), items_.size_bytes());
    }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;

    std::span<T> items() const noexcept { return items_; }
    size_t size() const noexcept { return items_.size(); }
    T& operator[](size_t i) const noexcept { return items_[i]; }

  private:
    std::span<T> items_;
};

}  // namespace gradus::trace
