// Ranks that are threads of one process. They hand each other their addresses: whoever comes last does the work of all,
// on all CPUs, while the others' streams are held by their unready tasks. No thread ever waits for another rank, so
// that one thread may drive them all, and so may a process that can have no threads.
#pragma once

#include <array>
#include <list>
#include <memory>
#include <vector>

#include "hccl/communicator.h"

namespace gradus::hccl {

class LocalTask;
class LocalBatch;
struct Letter;
struct LocalGroup;

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

using GroupKey = std::array<uint64_t, 2>;  // of a root info

// Sends that wait for their receives, or the other way round.
struct Mailbox {
    Letter *first = nullptr, *last = nullptr;
};

// A sub-communicator that some of its ranks have made.
struct Opening {
    uint64_t number;
    uint32_t rank;  // who was the first
    std::vector<uint32_t> members;
    std::weak_ptr<LocalGroup> group;
};

struct LocalGroup {
    LocalGroup(const GroupKey& key, uint32_t ranks);
    ~LocalGroup();

    const GroupKey key;  // zeros: of a sub-communicator, found through its parent
    const uint32_t ranks;
    Fate fate;
    std::vector<char> joined, gone;                     // by rank
    std::vector<std::shared_ptr<Meeting>> last_joined;  // by rank
    std::vector<Mailbox> mail;                          // [from · ranks + to]
    std::list<Opening> openings;                        // its sub-communicators, some of them complete
    std::shared_ptr<LocalGroup> parent;                 // of a sub-communicator, as long as it is listed there

    void fail(const Status& why) noexcept;  // with the lock; the first counts
};

Status destroyed(uint32_t rank);

// The group of this key in this process, made by the first who asks.
// A rank that is there already: HCCL_E_PARA.
Result<std::shared_ptr<LocalGroup>> join_local_group(const GroupKey& key, uint32_t ranks, uint32_t rank);

// The sub-communicator of this number and these members, by their ranks in `parent`, that members[sub_rank] has not
// joined yet. HCCL_E_PARA, for its ranks and for those of the other: another of this number waits for some of them.
Result<std::shared_ptr<LocalGroup>> join_local_split(const std::shared_ptr<LocalGroup>& parent, uint64_t number,
                                                     std::span<const uint32_t> members, uint32_t sub_rank);

std::shared_ptr<Communicator> make_local(std::shared_ptr<LocalGroup> group, Membership membership);

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
