#include "hccl/local.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "hccl/local_task.h"
#include "runtime/parallel.h"

namespace gradus::hccl {
namespace {

struct Groups {
    std::map<GroupKey, std::weak_ptr<LocalGroup>> by_key;
};
Groups& groups = *new Groups;  // at load; behind the process lock

// A rank is not needed any more when nobody has issued what it has not.
class LocalCommunicator final : public Communicator {
  public:
    LocalCommunicator(std::shared_ptr<LocalGroup> group, const GroupKey& key, Membership membership)
        : Communicator(std::move(membership)), group_(std::move(group)), key_(key) {}
    ~LocalCommunicator() override { leave(); }

    std::unique_ptr<CommTask> make_task(Work work) override {
        if (std::holds_alternative<Batch>(work))
            return std::make_unique<LocalBatch>(shared_from_this(), group_, std::move(work));
        return std::make_unique<LocalTask>(shared_from_this(), group_, std::move(work));
    }

    void leave() noexcept override {
        const Lock lock = hold();
        if (std::exchange(group_->gone[is.rank], true) || lost_in_fork()) return;
        bool needed = group_->last_joined[is.rank]->next != nullptr;
        for (uint32_t r = 0; r < is.ranks; ++r)
            for (const size_t box : {size_t{r} * is.ranks + is.rank, size_t{is.rank} * is.ranks + r})
                needed |= group_->mail[box].first != nullptr;
        if (needed) group_->fail(destroyed(is.rank));
    }

    Status failure() override {
        const Lock lock = hold();
        if (lost_in_fork()) return {HCCL_E_UNAVAIL, "comm: made before a fork, and the parent's"};
        return group_->fate.failed ? group_->fate.why : Status();
    }

    Result<std::shared_ptr<Communicator>> split(std::span<const uint32_t> ids, uint64_t number, uint64_t time,
                                                Membership membership) override {
        GroupKey key = key_;
        for (const uint64_t word : {number, time, uint64_t{ids.size()}}) key[2] = mix(key[2] ^ word);
        for (const uint32_t id : ids) key[2] = mix(key[2] ^ id);
        auto group = join_local_group(key, membership.ranks, membership.rank);
        if (!group.ok()) return group.status();
        return make_local(std::move(*group), key, std::move(membership));
    }

  private:
    static uint64_t mix(uint64_t x) {  // that of SplitMix64
        x += 0x9E3779B97F4A7C15;
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
        x = (x ^ x >> 27) * 0x94D049BB133111EB;
        return x ^ x >> 31;
    }

    const std::shared_ptr<LocalGroup> group_;
    const GroupKey key_;
};

}  // namespace

LocalGroup::LocalGroup(const GroupKey& its_key, uint32_t count)
    : key(its_key), ranks(count), joined(count), gone(count), mail(size_t{count} * count) {
    const auto first = std::make_shared<Meeting>(0);
    first->done = true;
    last_joined.assign(count, first);
}

LocalGroup::~LocalGroup() {
    // No task is left that could hold one of them. One by one: a long chain of destructors would overflow the stack.
    for (std::shared_ptr<Meeting>& last : last_joined)
        for (auto meeting = std::move(last); meeting != nullptr && meeting.use_count() == 1;)
            meeting = std::exchange(meeting->next, nullptr);
    std::map<GroupKey, std::weak_ptr<LocalGroup>>::node_type place;  // goes without the lock
    const Lock lock = hold();
    if (const auto it = groups.by_key.find(key); it != groups.by_key.end() && it->second.expired())
        place = groups.by_key.extract(it);
}

Status destroyed(uint32_t rank) { return {HCCL_E_REMOTE, concat("rank ", rank, " has destroyed its communicator")}; }

void LocalGroup::fail(const Status& why) noexcept {
    if (!fate.failed) fate = {true, why};
    announce();
}

Result<std::shared_ptr<LocalGroup>> join_local_group(const GroupKey& key, uint32_t ranks, uint32_t rank) {
    auto made = std::make_shared<LocalGroup>(key, ranks);
    std::map<GroupKey, std::weak_ptr<LocalGroup>> place{{key, made}};
    auto node = place.extract(key);
    std::shared_ptr<LocalGroup> group;
    const Lock lock = hold();
    std::weak_ptr<LocalGroup>& known = groups.by_key.insert(std::move(node)).position->second;
    group = known.lock();
    if (!group) known = group = made;  // its last owner is about to take it off the list
    if (group->ranks != ranks) return Status(HCCL_E_PARA, concat("ranks: ", ranks, ", others said ", group->ranks));
    if (group->joined[rank]) return Status(HCCL_E_PARA, concat("rank: ", rank, " is there already"));
    group->joined[rank] = true;
    return group;
}

std::shared_ptr<Communicator> make_local(std::shared_ptr<LocalGroup> group, const GroupKey& key,
                                         Membership membership) {
    return std::make_shared<LocalCommunicator>(std::move(group), key, std::move(membership));
}

}  // namespace gradus::hccl
