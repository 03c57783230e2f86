// Device memory: blocks of aclrtMalloc, kept for the next tensor of their size when a tensor lets go of them.
#include <c10/core/CPUAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <pthread.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "npu.h"

namespace gradus::npu {
namespace {

constexpr size_t kPad = 32;  // aclrtMalloc adds them: a block asks for so much less, and its footprint is round
constexpr size_t kPage = 4096, kHugePage = size_t{2} << 20, kHugeAbove = size_t{1} << 20;

constexpr int64_t kMostIdle = int64_t{256} << 20;

struct Block {
    size_t footprint = 0;
    size_t requested = 0;  // 0: nobody's, kept
    c10::DeviceIndex device = 0;
};

struct Pool {
    std::unordered_map<size_t, std::vector<void*>> kept;  // by footprint
    c10::CachingDeviceAllocator::DeviceStats stats;
};

// Behind one lock, never destroyed: tensors outlive the end of main.
struct Memory {
    std::mutex lock;
    std::unordered_map<void*, Block> blocks;
    std::vector<Pool> pools;
};
Memory& memory = *new Memory;

thread_local c10::DeviceIndex inside = -1;

// Eight sizes between a power of two and the next: a block wastes an eighth of itself at most.
size_t footprint_of(size_t bytes) {
    const size_t wanted = bytes + kPad;
    const size_t page = wanted > kHugeAbove ? kHugePage : kPage;
    const size_t step = std::max(page, std::bit_floor(wanted) / 8);
    return (wanted + step - 1) / step * step;
}

bool keeps_blocks() {
    static const bool keeps = std::getenv("PYTORCH_NO_NPU_MEMORY_CACHING") == nullptr;
    return keeps;
}

c10::CachingAllocator::Stat& sum(c10::CachingAllocator::StatArray& stats) { return stats[0]; }

// The next four are called with the lock.
Pool& pool_of(c10::DeviceIndex device) {
    if (memory.pools.empty()) memory.pools.resize(static_cast<size_t>(device_count()));
    return memory.pools.at(static_cast<size_t>(device));
}

void give_back(void* data) {
    const auto it = memory.blocks.find(data);
    Pool& pool = pool_of(it->second.device);
    sum(pool.stats.reserved_bytes).decrease(it->second.footprint);
    sum(pool.stats.segment).decrease(1);
    pool.stats.num_device_free += 1;
    memory.blocks.erase(it);
    aclrtFree(data);
}

void give_back_kept(Pool& pool) {
    for (auto& [footprint, kept] : pool.kept)
        for (void* data : kept) give_back(data);
    pool.kept.clear();
}

void* take(Pool& pool, size_t footprint, c10::DeviceIndex device) {
    if (const auto it = pool.kept.find(footprint); it != pool.kept.end() && !it->second.empty()) {
        void* data = it->second.back();
        it->second.pop_back();
        return data;
    }
    // sizes that come once and never again must not fill the machine
    const auto reserved = sum(pool.stats.reserved_bytes).current, used = sum(pool.stats.allocated_bytes).current;
    if (reserved - used > used / 2 + kMostIdle) give_back_kept(pool);
    void* data = nullptr;
    const auto request = [&] { return aclrtMalloc(&data, footprint - kPad, ACL_MEM_MALLOC_HUGE_FIRST); };
    aclError code = request();
    if (code == ACL_ERROR_RT_MEMORY_ALLOCATION) {
        pool.stats.num_alloc_retries += 1;
        for (Pool& any : memory.pools) give_back_kept(any);
        code = request();
    }
    if (code == ACL_ERROR_RT_MEMORY_ALLOCATION) {
        pool.stats.num_ooms += 1;
        const char* words = aclGetRecentErrMsg();
        TORCH_CHECK_WITH(OutOfMemoryError, false, "NPU out of memory. Tried to allocate ",
                         c10::CachingAllocator::format_size(footprint - kPad), " on npu:", static_cast<int>(device),
                         ": ", words == nullptr ? "" : words);
    }
    check(code, "aclrtMalloc");
    memory.blocks.emplace(data, Block{footprint, 0, device});
    sum(pool.stats.reserved_bytes).increase(footprint);
    sum(pool.stats.segment).increase(1);
    pool.stats.num_device_alloc += 1;
    return data;
}

// False: none of ours.
bool release(void* data) {
    const std::lock_guard guard(memory.lock);
    const auto it = memory.blocks.find(data);
    if (it == memory.blocks.end()) return false;
    Block& block = it->second;
    Pool& pool = pool_of(block.device);
    for (auto* stats : {&pool.stats.allocated_bytes, &pool.stats.active_bytes, &pool.stats.requested_bytes})
        sum(*stats).decrease(block.requested);
    for (auto* stats : {&pool.stats.allocation, &pool.stats.active}) sum(*stats).decrease(1);
    block.requested = 0;
    if (keeps_blocks())
        pool.kept[block.footprint].push_back(data);
    else
        give_back(data);
    return true;
}

void delete_block(void* data) {
    if (data != nullptr) release(data);
}

// With context = data, as PyTorch's own CPU allocator has it.
c10::DataPtr allocate(size_t bytes, c10::DeviceIndex device, c10::Device label) {
    if (bytes == 0) return {nullptr, nullptr, &delete_block, label};
    TORCH_CHECK_WITH(OutOfMemoryError, bytes < SIZE_MAX / 2, "NPU out of memory. Tried to allocate ", bytes, " bytes");
    const c10::DeviceIndex before = current_device();
    if (before != device) set_current_device(device);
    void* data = nullptr;
    {
        const std::lock_guard guard(memory.lock);
        Pool& pool = pool_of(device);
        data = take(pool, footprint_of(bytes), device);
        Block& block = memory.blocks.at(data);
        block.requested = (bytes + 511) / 512 * 512;  // as the device's own allocator counts
        for (auto* stats : {&pool.stats.allocated_bytes, &pool.stats.active_bytes, &pool.stats.requested_bytes})
            sum(*stats).increase(block.requested);
        for (auto* stats : {&pool.stats.allocation, &pool.stats.active}) sum(*stats).increase(1);
    }
    if (before != device) set_current_device(before);
    return {data, data, &delete_block, label};
}

struct DeviceMemory final : c10::DeviceAllocator {
    c10::DataPtr allocate(size_t bytes) override {
        const c10::DeviceIndex device = current_device();
        return npu::allocate(bytes, device, {kNpu, device});
    }
    c10::DeleterFnPtr raw_deleter() const override { return &delete_block; }
    void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
    bool initialized() override { return true; }
    void emptyCache(c10::MempoolId_t) override {
        const std::lock_guard guard(memory.lock);
        for (Pool& pool : memory.pools) give_back_kept(pool);
    }
    void recordStream(const c10::DataPtr&, c10::Stream) override {}  // no work outlives its call
    c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
        const std::lock_guard guard(memory.lock);
        return pool_of(device).stats;
    }
    void resetAccumulatedStats(c10::DeviceIndex device) override {
        each_stat(device, [](auto& stat) { stat.reset_accumulated(); });
    }
    void resetPeakStats(c10::DeviceIndex device) override {
        each_stat(device, [](auto& stat) { stat.reset_peak(); });
    }
    std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex) override {
        size_t free = 0, total = 0;
        current_device();  // makes a context current
        check(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total), "aclrtGetMemInfo");
        return {free, total};
    }

  private:
    template <class Change>
    void each_stat(c10::DeviceIndex device, Change change) {
        const std::lock_guard guard(memory.lock);
        auto& stats = pool_of(device).stats;
        for (auto* one : {&stats.allocated_bytes, &stats.active_bytes, &stats.requested_bytes, &stats.reserved_bytes,
                          &stats.allocation, &stats.active, &stats.segment})
            change(sum(*one));
    }
};

// Tensors of the CPU as before; of a thread that is inside the device, in the device's memory.
struct CpuMemory final : c10::Allocator {
    c10::DataPtr allocate(size_t bytes) override {
        return inside < 0 ? plain->allocate(bytes) : npu::allocate(bytes, inside, c10::kCPU);
    }
    // Only for raw memory, which has lost its own deleter.
    c10::DeleterFnPtr raw_deleter() const override {
        return [](void* data) {
            if (data != nullptr && !release(data)) plain->raw_deleter()(data);
        };
    }
    void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

    static inline c10::Allocator* const plain = c10::GetCPUAllocator();
};

struct PinnedMemory final : c10::Allocator {
    c10::DataPtr allocate(size_t bytes) override {
        void* data = nullptr;
        current_device();
        if (bytes > 0) check(aclrtMallocHost(&data, bytes), "aclrtMallocHost");
        return {data, data, raw_deleter(), c10::kCPU};
    }
    c10::DeleterFnPtr raw_deleter() const override {
        return [](void* data) {
            if (data != nullptr) aclrtFreeHost(data);
        };
    }
    void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

DeviceMemory& device_memory = *new DeviceMemory;
CpuMemory& cpu_memory = *new CpuMemory;
PinnedMemory& pinned_memory = *new PinnedMemory;

// A fork must not meet the lock in another thread's hands.
const bool installed = [] {
    c10::SetAllocator(kNpu, &device_memory);
    c10::SetCPUAllocator(&cpu_memory, UINT8_MAX);
    pthread_atfork([] { memory.lock.lock(); }, [] { memory.lock.unlock(); }, [] { memory.lock.unlock(); });
    return true;
}();

}  // namespace

c10::Allocator* device_allocator() { return &device_memory; }
c10::Allocator* pinned_allocator() { return &pinned_memory; }
c10::Allocator* cpu_allocator() { return &cpu_memory; }

Inside::Inside(c10::DeviceIndex device) : before_(inside) { inside = device; }
Inside::~Inside() { inside = before_; }

c10::DataPtr adopt(c10::DataPtr&& data, size_t bytes, c10::Device device) {
    if (data.get() == nullptr || data.get_deleter() == &delete_block) {
        data.unsafe_set_device(device);
        return std::move(data);
    }
    c10::DataPtr ours = allocate(bytes, device.index(), device);
    std::memcpy(ours.get(), data.get(), bytes);
    return ours;
}

c10::intrusive_ptr<c10::StorageImpl> adopt(const c10::intrusive_ptr<c10::StorageImpl>& storage, c10::Device device) {
    c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
    if (data.get() != nullptr && data.get_deleter() != &delete_block) {  // somebody else's: left alone, and copied
        c10::DataPtr view(data.get(), c10::kCPU);
        return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), storage->nbytes(),
                                                     adopt(std::move(view), storage->nbytes(), device), &device_memory,
                                                     true);
    }
    data.unsafe_set_device(device);
    storage->set_allocator(&device_memory);
    return storage;
}

}  // namespace gradus::npu
