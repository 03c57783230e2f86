#include "runtime/parallel.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "base/lock.h"
#include "runtime/float_environment.h"
#include "runtime/thread.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gradus {
namespace {

// A loop that runs, on the stack of the thread that called for it. That thread works on it until no block is left and
// then waits for the workers that joined. Behind the process lock, but for taking blocks and looking at `inside`.
struct Loop {
    BlockFunction f;
    const void* context;
    int64_t blocks;
    int slots;                      // of its scratch
    int threads;                    // no worker joins while so many compute, those of other loops included
    int joined = 1;                 // slots taken; slot 0 is the caller's
    std::atomic<int> inside = 0;    // workers that have joined and not left
    std::atomic<int64_t> next = 0;  // the first block that nobody has begun
    Loop* older = nullptr;

    void work(int slot) noexcept {
        for (int64_t block; (block = next.fetch_add(1, std::memory_order_relaxed)) < blocks;) f(context, block, slot);
    }
    bool open() const { return joined < slots && next.load(std::memory_order_relaxed) < blocks; }
};

// The threads that help with loops: started when a loop first wants them, asleep between loops, never ended. One team
// for the process, so that streams share the CPUs instead of fighting for them: who calls for a loop always works on
// it, and workers join while there is a CPU left.
struct Team {
    Loop* loops = nullptr;  // the newest first
    int workers = 0;
    int computing = 0;                   // callers and workers that are inside a loop
    bool serial = false;                 // the child of a process that had workers
    std::atomic<int> calls = 0;          // goes up with every loop: what a worker watches before it goes to sleep
    std::condition_variable work, left;  // a loop has begun; a worker has left one
};
Team& team = *new Team;  // at load, so that no fork meets it half made; never destroyed: a stream may work at exit

// A host's threads. Whether the loops of this thread may use them is the thread's own matter.
struct Host {
    gradusLoop loop = nullptr;
    void* self = nullptr;
};
constinit Host lent;  // behind the process lock
constinit thread_local bool borrowing = false;
constinit thread_local bool alone = false;

[[maybe_unused]] const bool loops_prepared = [] {
    after_fork_in_child([] {  // who waited for a signal of the team's was a worker, or waited for one
        team.serial |= team.workers > 0;
        team.loops = nullptr;
        team.computing = 0;
        lent = {};  // its threads did not come along either
    });
    return true;
}();

// Waits a little without giving up the CPU: loops follow each other within microseconds, and waking a thread takes
// tens of them.
template <typename Happened>
void spin(const Happened& happened) {
    constexpr auto kSpin = std::chrono::microseconds(20);
    const auto end = std::chrono::steady_clock::now() + kSpin;
    while (!happened() && std::chrono::steady_clock::now() < end) {
        for (int i = 0; i < 16; ++i) {
#if defined(__x86_64__)
            _mm_pause();
#elif defined(__aarch64__)
            __asm__ volatile("yield");
#endif
        }
    }
}

Loop* find_open() {
    for (Loop* loop = team.loops; loop != nullptr; loop = loop->older)
        if (loop->open() && team.computing < loop->threads) return loop;
    return nullptr;
}

void serve(void*) {
    Lock lock = hold();
    for (;;) {
        Loop* loop = find_open();
        if (loop == nullptr) {
            const int calls = team.calls.load(std::memory_order_relaxed);
            lock.unlock();
            spin([&] { return team.calls.load(std::memory_order_relaxed) != calls; });
            lock.lock();
            team.work.wait(lock, [&] { return (loop = find_open()) != nullptr; });
        }
        const int slot = loop->joined++;
        loop->inside.fetch_add(1, std::memory_order_relaxed);
        ++team.computing;
        lock.unlock();
        loop->work(slot);
        lock.lock();
        --team.computing;
        loop->inside.fetch_sub(1, std::memory_order_release);
        team.left.notify_all();
    }
}

// False in a process that has to do without workers.
bool begin(Loop& loop) {
    const Lock lock = hold();
    if (team.serial) return false;
    ++team.computing;
    loop.older = team.loops;
    team.loops = &loop;
    team.calls.fetch_add(1, std::memory_order_relaxed);
    // where no thread can be had, those that are there do all the work
    while (team.workers < loop.slots - 1 && start_thread("gradus-worker", serve, nullptr)) ++team.workers;
    for (int wanted = 1; wanted < loop.slots; ++wanted) team.work.notify_one();
    return true;
}

void end(Loop& loop) {
    spin([&] { return loop.inside.load(std::memory_order_acquire) == 0; });
    Lock lock = hold();
    team.left.wait(lock, [&] { return loop.inside.load(std::memory_order_relaxed) == 0; });
    Loop** at = &team.loops;
    while (*at != &loop) at = &(*at)->older;
    *at = loop.older;
    --team.computing;
    if (team.loops != nullptr) team.work.notify_one();  // another loop may have waited for a CPU
}

Host borrowed() {
    if (!borrowing) return {};
    const Lock lock = hold();
    return lent;
}

void work_for_host(void* data, int64_t i) {
    const DefaultFloatEnvironment environment;
    static_cast<Loop*>(data)->work(static_cast<int>(i));
}

}  // namespace

void lend_loop(gradusLoop loop, void* host) noexcept {
    const Lock lock = hold();
    lent = {loop, host};
}

BorrowedLoop::BorrowedLoop() noexcept { borrowing = true; }
BorrowedLoop::~BorrowedLoop() { borrowing = false; }

Alone::Alone(bool small) noexcept { alone = small; }
Alone::~Alone() { alone = false; }

void parallel_blocks(int64_t blocks, int slots, BlockFunction f, const void* context) noexcept {
    const int most = alone ? 1 : static_cast<int>(std::min<int64_t>(blocks, slots));
    Loop loop{.f = f, .context = context, .blocks = blocks, .slots = most, .threads = slots};
    if (most > 1)
        if (const Host host = borrowed(); host.loop != nullptr) {
            const MayBlock on_its_threads;  // a host may do what it likes
            return host.loop(host.self, most, work_for_host, &loop);
        }
    const bool helped = most > 1 && begin(loop);
    loop.work(0);
    if (helped) end(loop);
}

}  // namespace gradus
