#include "hccl/local_task.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "hccl/reduce.h"
#include "hccl/types.h"
#include "runtime/parallel.h"

namespace gradus::hccl {
namespace {

// One core does not fill the memory bus above 1 MiB; a reduced block should still be in the cache when it is copied.
constexpr uint64_t kCopyBlock = uint64_t{1} << 20, kReduceBlock = uint64_t{64} << 10;

Status dropped(uint32_t rank) {
    return {HCCL_E_REMOTE,
            concat("rank ", rank, " dropped its work: its stream was destroyed or stopped by a failure")};
}

}  // namespace

LocalTask::LocalTask(std::shared_ptr<Communicator> comm, std::shared_ptr<LocalGroup> group, Work work)
    : CommTask(std::move(comm), std::move(work)),
      group_(std::move(group)),
      meeting_(std::make_shared<Meeting>(group_->ranks)),
      words_(Agreement::size(group_->ranks)),
      all_words_(words_.size() * group_->ranks),
      threads_(config_or_default().num_threads),
      isa_(config_or_default().max_isa) {}

void LocalTask::issue(const Stream& stream) noexcept {
    const uint32_t rank = comm_->is.rank;
    stream_ = &stream;
    collective().terms.sequence = comm_->calls++;
    Agreement::write(collective(), group_->ranks, words_.data());
    Meeting& before = *group_->last_joined[rank];
    if (!before.next) {
        meeting_->open = before.done;
        before.next = meeting_;
    }
    meeting_ = before.next;
    meeting_->tasks[rank] = this;
    group_->last_joined[rank] = meeting_;
    if (info) tell_partners();
}

// Everybody waits for everybody.
void LocalTask::tell_partners() noexcept {
    const uint64_t ranks = group_->ranks, rank = comm_->is.rank;
    if (meeting_->subject == 0) meeting_->subject = fresh_subject(ranks * ranks);
    for (uint64_t r = 0; r < ranks; ++r) {
        if (r == rank) continue;
        info->gives[r] = meeting_->subject + rank * ranks + r;
        info->takes[r] = meeting_->subject + r * ranks + rank;
    }
}

void LocalTask::arrive() noexcept {
    if (group_->fate.failed) return;
    has_arrived_ = true;
    if (++meeting_->arrived == group_->ranks) {
        meeting_->last = this;
        return announce();
    }
    for (uint32_t r = 0; r < group_->ranks; ++r)
        if (group_->gone[r] && meeting_->tasks[r] == nullptr) return group_->fail(destroyed(r));
    deadline = comm_->deadline();
    watch(*this);
}

bool LocalTask::ready() const noexcept {
    if (!complete()) return group_->fate.failed;
    return meeting_->done || (meeting_->last == this && (meeting_->open || group_->fate.failed));
}

const Stream* LocalTask::waits_for() const noexcept {
    for (const LocalTask* task : meeting_->tasks)
        if (task == nullptr || !task->has_arrived_) return task != nullptr ? task->stream_ : nullptr;
    return meeting_->last->stream_;
}

int LocalTask::run() noexcept {
    Status status;
    bool works;
    {
        const Lock lock = hold();
        unwatch(*this);
        works = complete() && meeting_->last == this && !group_->fate.failed;
        status = meeting_->done ? meeting_->result : group_->fate.why;
    }
    if (works) status = work_for_all();
    const int code = end(status);  // before the others may know: they could destroy their communicators
    const Lock lock = hold();
    if (complete() && meeting_->last == this) conclude(status);
    return code;
}

// With the lock.
void LocalTask::conclude(const Status& status) noexcept {
    meeting_->result = status;
    meeting_->done = true;
    if (meeting_->next) meeting_->next->open = true;
    if (!status.ok()) group_->fail(status);
    announce();
}

void LocalTask::abandon() noexcept {
    Lock lock = hold();
    unwatch(*this);
    // whoever works for all may be inside our buffers; not in the child of a fork, where nobody is
    if (has_arrived_ && complete() && !comm_->lost_in_fork() && !(meeting_->last == this))
        announced().wait(lock, [this] { return meeting_->done; });
    if (!meeting_->done) {
        group_->fail(dropped(comm_->is.rank));
        if (complete()) conclude(group_->fate.why);
    }
    lock.unlock();
    end({});
}

Text LocalTask::missing() const noexcept {
    return ranks_that(group_->ranks, [this](uint32_t r) {
        return meeting_->tasks[r] == nullptr || !meeting_->tasks[r]->has_arrived_;
    });
}

void LocalTask::expire() noexcept {
    if (group_->fate.failed) return;  // and others of it may be gone
    group_->fail({HCCL_E_TIMEOUT,
                  concat(function_of(collective().terms.kind), ": rank ", comm_->is.rank, " of ", comm_->is.name,
                         " waited ", comm_->is.exec_timeout_s, " s (HCCL_EXEC_TIMEOUT); missing: rank ", missing())});
}

Status LocalTask::work_for_all() noexcept {
    for (uint32_t r = 0; r < group_->ranks; ++r)
        std::memcpy(all_words_.data() + r * words_.size(), meeting_->tasks[r]->words_.data(), words_.size());
    if (Status agreed = Agreement::check(all_words_.data(), group_->ranks); !agreed.ok()) return agreed;
    for (uint32_t r = 0; r < group_->ranks; ++r) meeting_->tasks[r]->collective().settle(r);
    const Collective& c = collective();
    if (!c.reduces()) {
        move();
    } else if (c.terms.kind == Kind::all_reduce || c.terms.kind == Kind::reduce) {
        reduce(c.terms.root);
    } else {
        // one after the other, so that a result may lie on what an earlier one was made of
        for (uint32_t d = 0; d < group_->ranks; ++d) reduce(d);
    }
    return {};
}

void LocalTask::move() noexcept {
    // what stays on its rank comes last: a scatter in place writes where others' blocks were
    for (const bool own : {false, true})
        for (uint32_t s = 0; s < group_->ranks; ++s)
            for (uint32_t d = 0; d < group_->ranks; ++d) {
                const Collective &from = meeting_->tasks[s]->collective(), &to = meeting_->tasks[d]->collective();
                if ((s == d) != own || from.out[d].bytes == 0) continue;
                const std::byte* const begin = from.send + from.out[d].offset;
                std::byte* const end = to.recv + to.in[s].offset;
                const uint64_t bytes = from.out[d].bytes;
                if (begin == end) continue;
                if (own && bytes > 0 && begin < end + bytes && end < begin + bytes) {
                    std::memmove(end, begin, bytes);
                    continue;
                }
                const auto blocks = static_cast<int64_t>((bytes + kCopyBlock - 1) / kCopyBlock);
                parallel_for(blocks, threads_, [=](int64_t block, int) {
                    const uint64_t at = static_cast<uint64_t>(block) * kCopyBlock;
                    std::memcpy(end + at, begin + at, std::min(kCopyBlock, bytes - at));
                });
            }
}

// What all ranks have for `owner`, to where it belongs.
void LocalTask::reduce(uint32_t owner) noexcept {
    const std::vector<LocalTask*>& tasks = meeting_->tasks;
    const Terms& terms = collective().terms;
    const bool for_all = terms.kind == Kind::all_reduce;
    const uint64_t bytes = collective().out[owner].bytes;
    const Reduction reduction = find_reduction(terms.type, terms.op, isa_);
    const auto blocks = static_cast<int64_t>((bytes + kReduceBlock - 1) / kReduceBlock);
    parallel_for(blocks, threads_, [&, this](int64_t block, int) {
        const uint64_t at = static_cast<uint64_t>(block) * kReduceBlock, n = std::min(kReduceBlock, bytes - at);
        const auto target = [&](uint32_t r) {
            return tasks[r]->collective().recv + tasks[r]->collective().in[0].offset + at;
        };
        const std::byte* sources[kMostRanks];
        for (uint32_t r = 0; r < group_->ranks; ++r)
            sources[r] = tasks[r]->collective().send + tasks[r]->collective().out[owner].offset + at;
        std::byte* const to = target(for_all ? 0 : owner);
        reduction(sources, group_->ranks, to, static_cast<int64_t>(n / size_of(terms.type)));
        for (uint32_t r = 1; for_all && r < group_->ranks; ++r) std::memcpy(target(r), to, n);
    });
}

}  // namespace gradus::hccl
