#include "sanitize/teller.h"

#include <sched.h>
#include <semaphore.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "runtime/thread.h"
#include "sanitize/install.h"
#include "sanitize/sanitizer.h"

namespace gradus::sanitize {
namespace {

constinit std::atomic<bool> wanted = false, there = false, dying = false;
constinit std::atomic<uint64_t> wishes = 0, granted = 0;
sem_t wished;

void serve(void*) {
    for (;;) {
        while (sem_wait(&wished) != 0) {
        }
        const uint64_t until = wishes;
        the_sanitizer()->tell_touches();
        if (dying) the_sanitizer()->at_death();
        granted = until;
    }
}

}  // namespace

void start_teller() noexcept {
    if (wanted.load(std::memory_order_relaxed) || wanted.exchange(true)) return;
    sem_init(&wished, 0, 0);
    there = start_thread("gradus-teller", serve, nullptr);
}

bool teller_wanted() noexcept { return wanted; }

void wish_for_summary() noexcept {
    dying = true;
    wish_for_touches();
}

void wish_for_touches() noexcept {
    constexpr int kYields = 100, kMilliseconds = 1000;
    if (!there) return;
    const int before = errno;
    const uint64_t mine = ++wishes;
    sem_post(&wished);
    for (int tries = 0; granted < mine && tries < kYields + kMilliseconds; ++tries)
        tries < kYields ? static_cast<void>(sched_yield()) : static_cast<void>(usleep(1000));
    errno = before;
}

void forget_teller() noexcept { wanted = there = false; }

}  // namespace gradus::sanitize
