#include "runtime/memory.h"

#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <atomic>
#include <cstdio>
#include <functional>
#include <map>

#include "acl/acl_rt.h"
#include "base/cgroup.h"
#include "base/lock.h"
#include "base/observer.h"

namespace gradus {
namespace {

constexpr size_t kPage = 4096, kHugePage = size_t{2} << 20, kHugeAbove = size_t{1} << 20, kPad = 32;

// Behind the process lock.
using ByAddress = std::map<const std::byte*, std::shared_ptr<const Allocation>, std::less<>>;
ByAddress& live = *new ByAddress;  // at load, so that no fork meets it half made; never destroyed
constinit uint64_t last_id = 0;
constinit size_t mapped = 0;  // footprints of all allocations, those freed but still in use included

constexpr size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

size_t machine_memory() {
    struct sysinfo info;
    return sysinfo(&info) == 0 ? static_cast<size_t>(info.totalram) * info.mem_unit : size_t{0};
}

// Found once: a limit that is changed later counts from the next start.
size_t total_memory() {
    static constinit std::atomic<size_t> known = 0;
    size_t total = known.load(std::memory_order_relaxed);
    if (total == 0) {
        total = machine_memory();
        total = std::min(total, cgroup_limits().memory.value_or(total));
        known.store(total, std::memory_order_relaxed);
    }
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
    const Lock lock = hold();
    return {ACL_ERROR_RT_MEMORY_ALLOCATION,
            concat("size: ", size, " bytes do not fit into the ", total_memory(), " bytes of memory there are, ",
                   mapped, " of them allocated already")};
}

// With the lock. The last one that begins at or before the address.
ByAddress::iterator find_at_or_before(const void* address) {
    const auto it = live.upper_bound(static_cast<const std::byte*>(address));
    return it == live.begin() ? live.end() : std::prev(it);
}

void tell_free(const void* address, MemoryKind kind, const Allocation* allocation) {
    observe([=](Observer& o) { o.on_free(address, kind, allocation != nullptr ? allocation->id() : 0); });
}

// Lists an allocation; false when it shares bytes with another. Its place is made without the lock.
bool list(const std::shared_ptr<Allocation>& allocation) {
    ByAddress place;
    place.emplace(allocation->address(), allocation);
    const Lock lock = hold();
    const std::byte *const begin = allocation->address(), *const last = begin + allocation->footprint() - 1;
    for (;;) {
        const auto before = find_at_or_before(last);
        if (before == live.end() || before->first + before->second->footprint() <= begin) break;
        // pages that we have just been given cannot be in use: the program has unmapped what it once registered there
        const bool stale = before->second->kind() == MemoryKind::registered;
        if (!stale || allocation->kind() == MemoryKind::registered) return false;
        tell_free(before->first, before->second->kind(), before->second.get());
        live.erase(before);
    }
    live.insert(place.extract(place.begin()));
    allocation->set_id(++last_id);
    observe([&a = *allocation](Observer& o) {
        o.on_allocate({a.id(), a.kind(), a.address(), a.size(), a.footprint(), a.device()});
        if (a.kind() == MemoryKind::device) o.on_memory(a.device(), static_cast<int64_t>(a.footprint()));
    });
    return true;
}

Result<void*> allocate(MemoryKind kind, size_t size, size_t footprint, size_t page, int device) {
    const auto allocation = std::make_shared<Allocation>(kind, size, footprint, page, device);
    if (!allocation->book() || !allocation->map() || !list(allocation)) return exhausted(size);
    return static_cast<void*>(allocation->address());
}

const char* kind_words(MemoryKind kind) {
    switch (kind) {
        case MemoryKind::device:
            return "device memory, which aclrtFree frees";
        case MemoryKind::host:
            return "host memory, which aclrtFreeHost frees";
        case MemoryKind::registered:
            return "registered memory, which aclrtHostUnregister releases";
    }
    return "";
}

}  // namespace

bool Allocation::book() noexcept {
    const size_t total = total_memory();
    const Lock lock = hold();
    if (footprint_ > total || mapped > total - footprint_) return false;
    mapped += footprint_;
    return booked_ = true;
}

bool Allocation::map() noexcept {
    address_ = static_cast<std::byte*>(map_pages(footprint_, page_));
    return address_ != nullptr;
}

Allocation::~Allocation() {
    if (kind_ != MemoryKind::registered && address_ != nullptr) munmap(address_, footprint_);
    if (!booked_) return;
    const Lock lock = hold();
    mapped -= footprint_;
}

Result<void*> allocate_device(size_t size, bool padded, bool huge_only, int device) {
    if (size > total_memory()) return exhausted(size);  // also keeps the sums below from wrapping around
    const size_t wanted = round_up(size, kPad) + (padded ? kPad : 0);
    const size_t page = huge_only || wanted > kHugeAbove ? kHugePage : kPage;
    return allocate(MemoryKind::device, size, round_up(wanted, page), page, device);
}

Result<void*> allocate_host(size_t size) {
    if (size > total_memory()) return exhausted(size);
    return allocate(MemoryKind::host, size, round_up(size, kPage), kPage, -1);
}

Status register_host(void* address, size_t size) {
    if (size > UINTPTR_MAX - reinterpret_cast<uintptr_t>(address))
        return {ACL_ERROR_RT_PARAM_INVALID, concat("size: ", size, " bytes lead beyond the end of all memory")};
    const auto allocation = std::make_shared<Allocation>(MemoryKind::registered, size, size, kPage, -1);
    allocation->adopt(address);
    if (list(allocation)) return {};
    return {ACL_ERROR_RT_PARAM_INVALID, "ptr: shares bytes with memory that is allocated or registered already"};
}

Status release(void* address, MemoryKind kind) {
    std::shared_ptr<const Allocation> last;  // unmaps after the lock is released
    const Lock lock = hold();
    const auto it = live.find(static_cast<const std::byte*>(address));
    tell_free(address, kind, it != live.end() && it->second->kind() == kind ? it->second.get() : nullptr);
    if (it == live.end())
        return {ACL_ERROR_RT_PARAM_INVALID,
                "pointer: not the start of a live allocation (freed before, or never allocated)"};
    if (it->second->kind() != kind)
        return {ACL_ERROR_RT_PARAM_INVALID, concat("pointer: ", kind_words(it->second->kind()))};
    last = std::move(it->second);
    live.erase(it);
    if (kind == MemoryKind::device)
        observe([&a = *last](Observer& o) { o.on_memory(a.device(), -static_cast<int64_t>(a.footprint())); });
    return {};
}

std::shared_ptr<const Allocation> find_allocation(const void* address) {
    const Lock lock = hold();
    const auto it = find_at_or_before(address);
    const bool inside =
        it != live.end() && static_cast<const std::byte*>(address) < it->first + it->second->footprint();
    return inside ? it->second : nullptr;
}

MemoryInfo memory_info() {
    const size_t total = total_memory();
    size_t available = total;
    // the page cache counts as free: only the kernel knows how much of it can go
    if (FILE* file = std::fopen("/proc/meminfo", "re")) {
        char line[128];
        size_t kib;
        while (std::fgets(line, sizeof line, file) != nullptr)
            if (std::sscanf(line, "MemAvailable: %zu kB", &kib) == 1) available = kib << 10;
        std::fclose(file);
    }
    if (const CgroupLimits group = cgroup_limits(); group.memory && group.memory_used)
        available = std::min(available, *group.memory - std::min(*group.memory, *group.memory_used));
    return {std::min(available, total), total};
}

}  // namespace gradus
