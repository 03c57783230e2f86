// The parallel loop. Blocks come from the problem; slots bound how many run at once and own their scratch.
#pragma once

#include <cstdint>

#include "base/nonblocking.h"
#include "gradus/gradus.h"

namespace gradus {

using BlockFunction = void (*)(const void* context, int64_t block, int slot) noexcept;

// Calls f for every block in 0..blocks, in about ascending order, at most `slots` at a time, on this thread and the
// process's workers. A slot never runs two blocks at once, so slot-indexed scratch needs no lock. Which slot gets which
// block is not determined, so results must not depend on it.
void parallel_blocks(int64_t blocks, int slots, BlockFunction f, const void* context) noexcept;

template <typename F>
void parallel_for(int64_t blocks, int slots, const F& f) noexcept {
    parallel_blocks(
        blocks, slots,
        [](const void* context, int64_t block, int slot) noexcept GRADUS_NONBLOCKING {
            (*static_cast<const F*>(context))(block, slot);
        },
        &f);
}

// Whose threads help: a host's loop, as in gradus.h, for the calls inside a BorrowedLoop; null: always our own.
void lend_loop(gradusLoop loop, void* host) noexcept;

// While it lives, loops of this thread run on the host's threads, if it lends any.
class BorrowedLoop {
  public:
    BorrowedLoop() noexcept;
    ~BorrowedLoop();
    BorrowedLoop(const BorrowedLoop&) = delete;
    BorrowedLoop& operator=(const BorrowedLoop&) = delete;
};

// While it lives and work is small, loops of this thread have no helpers: it is done before they would be awake.
class Alone {
  public:
    explicit Alone(bool small) noexcept;
    ~Alone();
    Alone(const Alone&) = delete;
    Alone& operator=(const Alone&) = delete;
};

}  // namespace gradus
