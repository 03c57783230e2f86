// Device memory is host memory with a footprint: what the device would let a program touch, we do, and no more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"

namespace gradus {

// registered: the program's own host memory, which it has made known by aclrtHostRegister.
enum class MemoryKind { device, host, registered };

// Booked, and mapped unless it is the program's own, until the last owner lets go: the registry, and every queued task
// that uses it.
class Allocation {
  public:
    Allocation(MemoryKind kind, size_t size, size_t footprint, size_t page, int device)
        : kind_(kind), size_(size), footprint_(footprint), page_(page), device_(device) {}
    ~Allocation();
    Allocation(const Allocation&) = delete;
    Allocation& operator=(const Allocation&) = delete;

    bool book() noexcept;  // false: more than the machine has
    bool map() noexcept;
    void adopt(void* address) noexcept { address_ = static_cast<std::byte*>(address); }
    void close_pages() const noexcept;  // to everybody: it is freed, and kept so that its address is not used again
    void unshare() const noexcept;      // in the child of a fork: two mappings are shared memory

    uint64_t id() const { return id_; }  // from 1, never used twice; 0 before it is listed
    void set_id(uint64_t id) { id_ = id; }
    MemoryKind kind() const { return kind_; }
    std::byte* address() const { return address_; }
    size_t size() const { return size_; }
    size_t footprint() const { return footprint_; }
    size_t page() const { return page_; }
    // From the program's address to the one the library works at; 0 unless there are two mappings.
    std::ptrdiff_t shift() const { return shift_; }
    int device() const { return device_; }
    bool contains(const void* begin, size_t bytes) const {
        const auto offset = static_cast<size_t>(static_cast<const std::byte*>(begin) - address_);
        return offset <= footprint_ && bytes <= footprint_ - offset;
    }

  private:
    bool map_twice() noexcept;

    const MemoryKind kind_;
    std::byte* address_ = nullptr;
    const size_t size_, footprint_, page_;  // asked for, and there
    const int device_;
    uint64_t id_ = 0;
    std::ptrdiff_t shift_ = 0;
    bool booked_ = false;
};

// What a sanitizer asks for.
struct MemoryPolicy {
    bool poison = false;        // fresh memory, and workspaces after each run, hold 0xFF: NaN, or −1
    bool two_mappings = false;  // the program's of device memory is closed, the library works in its own
    size_t quarantine = 0;      // so many freed bytes are kept, closed, and not given out again
};
void set_memory_policy(const MemoryPolicy& policy) noexcept;  // at load
const MemoryPolicy& memory_policy() noexcept;
// With the lock: where the library sees this byte; whether it is freed memory that is kept.
const std::byte* library_address(const std::byte* address);
bool is_quarantined(const void* address);
bool is_mapped(const void* begin, size_t bytes);  // whether the process has pages there, whosever

// `padded`: aclrtMalloc's 32 bytes behind the size. 2 MiB pages above 1 MiB or when `huge_only`, else 4 KiB pages.
Result<void*> allocate_device(size_t size, bool padded, bool huge_only, int device);
Result<void*> allocate_host(size_t size);
Status register_host(void* address, size_t size);  // 107000: overlaps memory that is known already
Status release(void* address, MemoryKind kind);    // 107000: not the start of a live allocation of that kind

// The allocation that holds this address, or nullptr.
std::shared_ptr<const Allocation> find_allocation(const void* address);

struct MemoryInfo {
    size_t free, total;
};
MemoryInfo memory_info();  // of the machine, or of the cgroup where that has less

}  // namespace gradus
