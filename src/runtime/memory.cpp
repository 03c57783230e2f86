#include "runtime/memory.h"

#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <map>

#include "acl/acl_rt.h"
#include "base/lock.h"

namespace gradus {
namespace {

constexpr size_t kPage = 4096, kHugePage = size_t{2} << 20, kHugeAbove = size_t{1} << 20, kPad = 32;

struct Ledger {
    std::map<const std::byte*, std::shared_ptr<const Allocation>, std::less<>> live;  // by first address
    size_t mapped = 0;  // footprints of all allocations, those freed but still in use included
};

Ledger& ledger() {
    static Ledger& the_ledger = *new Ledger;
    return the_ledger;
}

constexpr size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

size_t total_memory() {
    static const size_t total = [] {
        struct sysinfo info;
        return sysinfo(&info) == 0 ? static_cast<size_t>(info.totalram) * info.mem_unit : size_t{0};
    }();
    return total;
}

void* map_pages(size_t bytes, size_t alignment) {
    const size_t slack = alignment - kPage;  // mmap aligns to one small page
    void* raw = mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) return nullptr;
    auto* const begin = static_cast<std::byte*>(raw);
    const size_t before = (alignment - reinterpret_cast<uintptr_t>(begin) % alignment) % alignment;
    if (before > 0) munmap(begin, before);
    if (slack > before) munmap(begin + before + bytes, slack - before);
    if (alignment == kHugePage) madvise(begin + before, bytes, MADV_HUGEPAGE);
    return begin + before;
}

Status exhausted(size_t size) {
    return {ACL_ERROR_RT_MEMORY_ALLOCATION,
            concat("size: ", size, " bytes do not fit into the machine's memory of ", total_memory(), " bytes, ",
                   ledger().mapped, " of them allocated already")};
}

Result<void*> allocate(MemoryKind kind, size_t size, size_t footprint, size_t page, int device) {
    const size_t total = total_memory();
    Ledger& l = ledger();
    {
        const Lock lock = hold();
        if (footprint > total || l.mapped > total - footprint) return exhausted(size);
        l.mapped += footprint;
    }
    void* const address = map_pages(footprint, page);
    if (address == nullptr) {
        const Lock lock = hold();
        l.mapped -= footprint;
        return exhausted(size);
    }
    auto allocation = std::make_shared<const Allocation>(kind, address, footprint, device);
    const Lock lock = hold();
    l.live.emplace(allocation->address(), std::move(allocation));
    return address;
}

}  // namespace

Allocation::~Allocation() {
    munmap(address_, footprint_);
    const Lock lock = hold();
    ledger().mapped -= footprint_;
}

Result<void*> allocate_device(size_t size, bool padded, bool huge_only, int device) {
    if (size > total_memory()) {  // also keeps the sums below from wrapping around
        const Lock lock = hold();
        return exhausted(size);
    }
    const size_t wanted = round_up(size, kPad) + (padded ? kPad : 0);
    const size_t page = huge_only || wanted > kHugeAbove ? kHugePage : kPage;
    return allocate(MemoryKind::device, size, round_up(wanted, page), page, device);
}

Result<void*> allocate_host(size_t size) {
    if (size > total_memory()) {
        const Lock lock = hold();
        return exhausted(size);
    }
    return allocate(MemoryKind::host, size, round_up(size, kPage), kPage, -1);
}

Status release(void* address, MemoryKind kind) {
    std::shared_ptr<const Allocation> last;  // unmaps after the lock is released
    const Lock lock = hold();
    auto& live = ledger().live;
    const auto it = live.find(static_cast<const std::byte*>(address));
    if (it == live.end())
        return {ACL_ERROR_RT_PARAM_INVALID,
                "pointer: not the start of a live allocation (freed before, or never allocated)"};
    if (it->second->kind() != kind)
        return {ACL_ERROR_RT_PARAM_INVALID, kind == MemoryKind::device
                                                ? "pointer: host memory, expected device memory; aclrtFreeHost frees it"
                                                : "pointer: device memory, expected host memory; aclrtFree frees it"};
    last = std::move(it->second);
    live.erase(it);
    return {};
}

std::shared_ptr<const Allocation> find_allocation(const void* address) {
    const Lock lock = hold();
    const auto& live = ledger().live;
    auto it = live.upper_bound(static_cast<const std::byte*>(address));
    if (it == live.begin()) return nullptr;
    --it;
    return static_cast<const std::byte*>(address) < it->first + it->second->footprint() ? it->second : nullptr;
}

MemoryInfo memory_info() {
    struct sysinfo info;
    if (sysinfo(&info) != 0) return {0, total_memory()};
    size_t available = static_cast<size_t>(info.freeram) * info.mem_unit;
    // the page cache counts as free: only the kernel knows how much of it can go
    if (FILE* file = std::fopen("/proc/meminfo", "re")) {
        char line[128];
        size_t kib;
        while (std::fgets(line, sizeof line, file) != nullptr)
            if (std::sscanf(line, "MemAvailable: %zu kB", &kib) == 1) available = kib << 10;
        std::fclose(file);
    }
    return {std::min(available, total_memory()), total_memory()};
}

}  // namespace gradus
