// Ranks that are threads of one process. They hand each other their addresses: whoever comes last does the work of all,
// on all CPUs, while the others' streams are held by their unready tasks. No thread ever waits for another rank, so
// that one thread may drive them all, and so may a process that can have no threads.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "hccl/communicator.h"

namespace gradus::hccl {

class LocalTask;
class LocalBatch;
struct Letter;

// One collective. Meetings are a list: each rank holds the one that it joined last, and finds the next behind it.
// Behind the process lock, like all of this file's data.
struct Meeting {
    explicit Meeting(uint32_t ranks) : tasks(ranks) {}

    std::vector<LocalTask*> tasks;  // of the ranks that have issued it
    uint32_t arrived = 0;
    LocalTask* last = nullptr;  // who came last, and does the work
    bool open = false;          // all meetings before it are over
    bool done = false;
    Status result;
    uint64_t subject = 0;  // where somebody observes: the first of ranks²
    std::shared_ptr<Meeting> next;
};

using GroupKey = std::array<uint64_t, 3>;  // 128 bits of a root info, and of which split

// Sends that wait for their receives, or the other way round.
struct Mailbox {
    Letter *first = nullptr, *last = nullptr;
};

struct LocalGroup {
    LocalGroup(const GroupKey& key, uint32_t ranks);
    ~LocalGroup();

    const GroupKey key;
    const uint32_t ranks;
    Fate fate;
    std::vector<char> joined, gone;                     // by rank
    std::vector<std::shared_ptr<Meeting>> last_joined;  // by rank
    std::vector<Mailbox> mail;                          // [from · ranks + to]

    void fail(const Status& why) noexcept;  // with the lock; the first counts
};

Status destroyed(uint32_t rank);

// The group of this key in this process, made by the first who asks.
// A rank that is there already: HCCL_E_PARA.
Result<std::shared_ptr<LocalGroup>> join_local_group(const GroupKey& key, uint32_t ranks, uint32_t rank);

std::shared_ptr<Communicator> make_local(std::shared_ptr<LocalGroup> group, const GroupKey& key, Membership membership);

// ---- Time-outs: a thread that looks after what waits for ranks of this process

struct Watched {
    Clock::time_point deadline = Clock::time_point::max();
    Watched *previous = nullptr, *next = nullptr;
    bool watched = false;
    virtual ~Watched() = default;
    virtual void expire() noexcept = 0;  // with the lock
};
void watch(Watched& watched) noexcept;    // with the lock
void unwatch(Watched& watched) noexcept;  // with the lock

}  // namespace gradus::hccl
