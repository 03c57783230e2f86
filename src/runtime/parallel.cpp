#include "runtime/parallel.h"

#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/config.h"
#include "base/lock.h"

namespace gradus {
namespace {

// One arena for the process. Never destroyed: streams may still work while the process exits.
struct Arena {
    int threads;
    std::unique_ptr<tbb::global_control> more;  // oneTBB stops at the number of CPUs unless told otherwise
    tbb::task_arena arena;

    explicit Arena(int count) : threads(count), arena(count) {
        if (count > static_cast<int>(std::thread::hardware_concurrency()))
            more = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism,
                                                         static_cast<size_t>(count));
    }
};

[[maybe_unused]] std::shared_ptr<Arena> current_arena(int threads) {
    static std::shared_ptr<Arena>& current = *new std::shared_ptr<Arena>;
    std::shared_ptr<Arena> replaced;  // its destructor runs after the lock is released
    const Lock lock = hold();
    if (!current || current->threads != threads) {
        replaced = std::move(current);
        current = std::make_shared<Arena>(threads);
    }
    return current;
}

}  // namespace

void parallel_blocks(int64_t blocks, int slots, BlockFunction f, const void* context) noexcept {
    const int64_t tasks = std::min<int64_t>(blocks, slots);
    if (tasks <= 1 || is_forked_child()) {  // oneTBB's threads do not survive a fork
        for (int64_t block = 0; block < blocks; ++block) f(context, block, 0);
        return;
    }
    std::atomic<int64_t> next = 0;
    const auto work = [&](int64_t slot) {
        for (int64_t block; (block = next.fetch_add(1, std::memory_order_relaxed)) < blocks;)
            f(context, block, static_cast<int>(slot));
    };
#if defined(__SANITIZE_THREAD__)
    // the sanitizer cannot see how oneTBB orders memory; with plain threads it sees the races of kernels, and only
    // those
    std::vector<std::thread> threads;
    for (int64_t slot = 1; slot < tasks; ++slot) threads.emplace_back(work, slot);
    work(0);
    for (std::thread& thread : threads) thread.join();
#else
    current_arena(slots)->arena.execute([&] {
        tbb::parallel_for(
            tbb::blocked_range<int64_t>(0, tasks, 1),
            [&](const tbb::blocked_range<int64_t>& range) {
                for (int64_t slot = range.begin(); slot < range.end(); ++slot) work(slot);
            },
            tbb::simple_partitioner());
    });
#endif
}

}  // namespace gradus
