#include "runtime/kept_memory.h"

#include <sys/mman.h>

#include <atomic>
#include <new>
#include <utility>

namespace gradus {

// Lies at the beginning of its own memory, in front of what is used.
struct KeptMemory::Block {
    size_t bytes;

    static constexpr size_t kFront = 64;
    static constexpr size_t kMappedAbove = size_t{1} << 20;  // below, the allocator keeps it by itself
    static constexpr size_t kMostKept = size_t{256} << 20;

    bool mapped() const { return bytes > kMappedAbove; }

    static Block* make(size_t bytes) {
        void* memory = nullptr;
        if (bytes > kMappedAbove) {
            memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (memory == MAP_FAILED) throw std::bad_alloc();
            madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: may fail
        } else {
            memory = ::operator new(bytes);
        }
        return new (memory) Block{bytes};
    }
    static void free(Block* block) {
        if (block == nullptr) return;
        if (block->mapped())
            munmap(block, block->bytes);
        else
            ::operator delete(block);
    }

    // One for the process: calls that run side by side make their own.
    static inline constinit std::atomic<Block*> spare{nullptr};
};

KeptMemory::KeptMemory(size_t bytes) : block_(nullptr) {
    size_t all = 0;
    if (__builtin_add_overflow(bytes, Block::kFront, &all)) throw std::bad_alloc();
    if (all > Block::kMappedAbove) block_ = Block::spare.exchange(nullptr, std::memory_order_acquire);
    if (block_ != nullptr && block_->bytes >= all) return;
    Block::free(std::exchange(block_, nullptr));
    block_ = Block::make(all);
}

KeptMemory::~KeptMemory() {
    if (block_->mapped() && block_->bytes <= Block::kMostKept)
        block_ = Block::spare.exchange(block_, std::memory_order_acq_rel);
    Block::free(block_);
}

std::byte* KeptMemory::data() const { return reinterpret_cast<std::byte*>(block_) + Block::kFront; }

}  // namespace gradus
