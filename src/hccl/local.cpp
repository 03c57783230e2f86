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
    LocalCommunicator(std::shared_ptr<LocalGroup> group, Membership membership)
        : Communicator(std::move(membership)), group_(std::move(group)) {}
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

    Result<std::shared_ptr<Communicator>> split(std::span<const uint32_t> ids, uint64_t number,
                                                Membership membership) override {
        auto group = join_local_split(group_, number, ids, membership.rank);
        if (!group.ok()) return group.status();
        return make_local(std::move(*group), std::move(membership));
    }

  private:
    const std::shared_ptr<LocalGroup> group_;
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
    std::list<Opening> over;                                         // like it
    const Lock lock = hold();
    if (parent)
        for (auto at = parent->openings.begin(); at != parent->openings.end();)
            if (const auto it = at++; it->group.expired()) over.splice(over.end(), parent->openings, it);
    if (const auto it = groups.by_key.find(key); it != groups.by_key.end() && it->second.expired())
        place = groups.by_key.extract(it);
}

Status destroyed(uint32_t rank) { return {HCCL_E_REMOTE, concat("rank ", rank, " has destroyed its communicator")}; }

void LocalGroup::fail(const Status& why) noexcept {
    if (!fate.failed) fate = {true, why};
    announce();
}

Result<std::shared_ptr<LocalGroup>> join_local_split(const std::shared_ptr<LocalGroup>& parent, uint64_t number,
                                                     std::span<const uint32_t> members, uint32_t sub_rank) {
    const uint32_t rank = members[sub_rank];
    auto made = std::make_shared<LocalGroup>(GroupKey{}, static_cast<uint32_t>(members.size()));
    made->parent = parent;
    std::list<Opening> place;
    place.push_back({number, rank, {members.begin(), members.end()}, made});
    std::vector<std::shared_ptr<LocalGroup>> owners;  // go without the lock
    std::shared_ptr<LocalGroup> group;
    Status refused;
    const Lock lock = hold();
    owners.reserve(parent->openings.size());
    for (const Opening& o : parent->openings) {
        if (o.number != number) continue;
        const auto& other = owners.emplace_back(o.group.lock());
        if (!other || std::ranges::count(other->joined, true) == other->ranks) continue;
        if (std::ranges::equal(o.members, members)) {
            if (!group && !other->joined[sub_rank]) group = other;
        } else if (have_common(o.members, members)) {
            refused = o.rank < rank ? members_differ(number, o.rank, o.members, rank, members)
                                    : members_differ(number, rank, members, o.rank, o.members);
            other->fail(refused);
        }
    }
    if (!group) {
        group = made;
        parent->openings.splice(parent->openings.end(), place);
    }
    group->joined[sub_rank] = true;
    if (!refused.ok()) group->fail(refused);
    if (group->fate.failed) return group->fate.why;
    return group;
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

std::shared_ptr<Communicator> make_local(std::shared_ptr<LocalGroup> group, Membership membership) {
    return std::make_shared<LocalCommunicator>(std::move(group), std::move(membership));
}

}  // namespace gradus::hccl
