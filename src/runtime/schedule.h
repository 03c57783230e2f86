// GRADUS_SCHEDULE: when queued work runs. Any order that streams and events allow is right, so a program that is right
// gives the same bits under all of them, and one that is not may show it.
//   now            every task is run by the call that asks for it, as with ASCEND_LAUNCH_BLOCKING=1
//   late           nothing runs until somebody waits for it; a query runs one task, and what is left alone 100 ms runs
//   random:SEED    late, but with every task asked for, some of those that are ready run, by a seeded choice
#pragma once

#include <cstdint>

namespace gradus {

enum class Schedule { usual, now, late, random };

Schedule schedule() noexcept;
// With the lock: whether work waits for somebody who needs it; a number below n of the seeded choice.
inline bool held_back() noexcept { return schedule() >= Schedule::late; }
uint64_t choose(uint64_t n) noexcept;

}  // namespace gradus
