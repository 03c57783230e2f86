// What operators were called with: shapes, dtypes, path. Programs call the same again and again, so each is kept once,
// and a launch remembers its number.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/observer.h"
#include "trace/pages.h"

namespace gradus::trace {

struct Operand {
    const char* name;
    const int64_t* size;
    int32_t rank;
    DType dtype;
    bool writes;

    std::span<const int64_t> sizes() const { return {size, static_cast<size_t>(rank)}; }
};

struct Detail {
    const char *path, *why;
    int64_t workspace;
    std::span<const Operand> operands;  // without the workspace
};

class Details {
  public:
    // With the lock. Of operators and copies; 0: of others, or no room.
    uint32_t number_of(const TaskInfo& task) noexcept;
    const Detail* find(uint32_t number) const noexcept;

  private:
    static constexpr size_t kSlots = size_t{1} << 14, kBytes = size_t{16} << 20;

    template <typename T>
    T* take(size_t count) noexcept;
    const Detail* keep(const TaskInfo& task, std::span<const Access> operands) noexcept;

    Pages<std::atomic<const Detail*>> slots_{kSlots};
    Pages<std::byte> memory_{kBytes};
    size_t used_ = 0, kept_ = 0;
};

}  // namespace gradus::trace
