// Scratch memory of calls that bring none, kept from one call to the next: fresh pages cost as much as the work in
// them.
#pragma once

#include <cstddef>

namespace gradus {

class KeptMemory {
  public:
    explicit KeptMemory(size_t bytes);  // throws std::bad_alloc
    ~KeptMemory();
    KeptMemory(const KeptMemory&) = delete;
    KeptMemory& operator=(const KeptMemory&) = delete;

    std::byte* data() const;

  private:
    struct Block;
    Block* block_;
};

}  // namespace gradus
