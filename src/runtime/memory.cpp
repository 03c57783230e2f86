#include "runtime/memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <optional>

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

constinit MemoryPolicy policy;
using Freed = std::deque<std::shared_ptr<const Allocation>>;
Freed& quarantine = *new Freed;  // the oldest first
constinit size_t quarantined = 0;

// Puts a freed allocation aside; what has been there longest comes out.
Freed set_aside(std::shared_ptr<const Allocation> freed) {
    Freed out;
    freed->close_pages();
    quarantined += freed->footprint();
    quarantine.push_back(std::move(freed));
    while (quarantined > policy.quarantine) {
        quarantined -= quarantine.front()->footprint();
        out.push_back(std::move(quarantine.front()));
        quarantine.pop_front();
    }
    return out;
}

bool give_back_quarantine() {
    Freed all;  // goes after the lock is released
    const Lock lock = hold();
    all.swap(quarantine);
    quarantined = 0;
    return !all.empty();
}

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
    if (!allocation->book() && !(give_back_quarantine() && allocation->book())) return exhausted(size);
    if (!allocation->map() || !list(allocation)) return exhausted(size);
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
    if (address_ == nullptr || (policy.two_mappings && !map_twice())) return false;
    if (policy.poison && kind_ == MemoryKind::device) std::memset(address_ + shift_, 0xFF, footprint_);
    return true;
}

namespace {

// The same memory at both places; the program's is closed where it is the device's.
bool map_file(int file, std::byte* program, std::byte* library, size_t bytes, MemoryKind kind) {
    const int open = PROT_READ | PROT_WRITE;
    return mmap(program, bytes, kind == MemoryKind::device ? PROT_NONE : open, MAP_SHARED | MAP_FIXED, file, 0) !=
               MAP_FAILED &&
           mmap(library, bytes, open, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
}

}  // namespace

bool Allocation::map_twice() noexcept {
    const int file = memfd_create("gradus", MFD_CLOEXEC);
    auto* const library = static_cast<std::byte*>(map_pages(footprint_, page_));
    if (library != nullptr) shift_ = library - address_;
    const bool done = file >= 0 && library != nullptr && ftruncate(file, static_cast<off_t>(footprint_)) == 0 &&
                      map_file(file, address_, library, footprint_, kind_);
    if (file >= 0) close(file);
    return done;
}

void Allocation::close_pages() const noexcept { mprotect(address_, footprint_, PROT_NONE); }

void Allocation::unshare() const noexcept {
    const int file = shift_ != 0 ? memfd_create("gradus", MFD_CLOEXEC) : -1;
    if (file < 0) return;
    std::byte* const library = address_ + shift_;
    size_t at = 0;
    for (ssize_t n = 1; at < footprint_ && n > 0; at += n > 0 ? static_cast<size_t>(n) : 0)
        n = write(file, library + at, footprint_ - at);
    if (at == footprint_) map_file(file, address_, library, footprint_, kind_);
    close(file);
}

namespace {

// The child of a fork takes its own copy of what is shared; the parent waits, or it would see what the parent writes.
// Of the thread that forks.
constinit thread_local std::array<int, 2> copied = {-1, -1};

void before_fork() {
    if (pipe2(copied.data(), O_CLOEXEC) != 0) copied = {-1, -1};
}
void after_fork_in_parent() {
    close(copied[1]);
    char done;
    while (read(copied[0], &done, 1) < 0 && errno == EINTR) {  // or the child is gone
    }
    close(copied[0]);
}
void unshare_in_child() {
    for (const auto& [address, allocation] : live) allocation->unshare();
    [[maybe_unused]] const ssize_t written = write(copied[1], "", 1);
    close(copied[0]);
    close(copied[1]);
}

}  // namespace

void set_memory_policy(const MemoryPolicy& wanted) noexcept {
    policy = wanted;
    if (policy.two_mappings) pthread_atfork(before_fork, after_fork_in_parent, unshare_in_child);
}
const MemoryPolicy& memory_policy() noexcept { return policy; }

const std::byte* library_address(const std::byte* address) {
    const auto it = find_at_or_before(address);
    if (it == live.end() || address >= it->first + it->second->footprint()) return address;
    return address + it->second->shift();
}

bool is_mapped(const void* begin, size_t bytes) {
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const uintptr_t end = reinterpret_cast<uintptr_t>(begin) + bytes;
    unsigned char present[256];
    for (uintptr_t at = reinterpret_cast<uintptr_t>(begin) / page * page; at < end; at += sizeof present * page) {
        const size_t length = std::min<size_t>(end - at, sizeof present * page);
        if (mincore(reinterpret_cast<void*>(at), length, present) != 0) return false;  // NOLINT: not there
    }
    return true;
}

bool is_quarantined(const void* address) {
    for (const auto& freed : quarantine)
        if (address >= freed->address() && address < freed->address() + freed->footprint()) return true;
    return false;
}

Allocation::~Allocation() {
    if (kind_ != MemoryKind::registered && address_ != nullptr) munmap(address_, footprint_);
    if (shift_ != 0) munmap(address_ + shift_, footprint_);
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
    std::optional<Freed> out;                // an empty one would ask for memory
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
    if (policy.quarantine > 0 && kind != MemoryKind::registered) out = set_aside(std::move(last));
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
