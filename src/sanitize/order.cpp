#include "sanitize/order.h"

#include <algorithm>
#include <utility>

namespace gradus::sanitize {
namespace {

Overlap conflict(const Access& a, const Access& b) {
    return (a.writes || b.writes) ? overlap(a.view, b.view, b.address - a.address) : Overlap::no;
}

// Whether every byte of `a` is one of `b`: certain for equal and for dense views, else no.
bool covered(const Access& a, const Access& b) {
    if (a.address == b.address && a.view == b.view) return true;
    if (!b.view.contiguous()) return false;
    const TensorView::Extent in_a = a.view.extent(), in_b = b.view.extent();
    return a.address + in_a.begin >= b.address + in_b.begin && a.address + in_a.end <= b.address + in_b.end;
}

}  // namespace

void Order::task(const TaskInfo& info, Site site) {
    StreamState& stream = streams_[info.stream];
    const Asked asked{info.kind, info.function, info.ticket, info.stream, site};
    const bool plain = info.kind == TaskKind::launch || info.kind == TaskKind::copy || info.kind == TaskKind::fill;
    // nothing is before it, it waits for nobody and nobody for it: no copy of what it touches is needed
    if (plain && stream.pending.empty() && stream.held_by == 0) {
        remember_for_waiters(stream, asked.ticket);
        return step(stream, asked, info.accesses, {});
    }
    stream.pending.push_back({asked, info.subject, info.accesses, info.gives, info.takes});
    std::erase(stream.pending.back().gives, 0);
    std::erase(stream.pending.back().takes, 0);
    settle();
}

// Places whatever can be, on all streams: a record on one may free a wait on another.
void Order::settle() {
    for (bool moved = true; moved;) {
        moved = false;
        for (auto& [id, stream] : streams_)
            while (!stream.pending.empty() && stream.held_by == 0) {
                moved |= give(id, stream);
                if (!place(id, stream, false)) break;
                moved = true;
            }
    }
}

// The first of a stream has come: its partners on other streams may know.
bool Order::give(uint64_t id, StreamState& stream) {
    Pending& front = stream.pending.front();
    if (front.gives.empty() || std::exchange(front.given, true)) return false;
    for (const uint64_t subject : front.gives)
        given_[subject] = {stream.clock, id, stream.number + 1, front.task.ticket};
    return true;
}

bool Order::waits(const Pending& task) const {
    if (task.task.kind == TaskKind::wait) return find_record(task.subject) == nullptr;
    return !std::all_of(task.takes.begin(), task.takes.end(), [this](uint64_t take) { return given_.contains(take); });
}

bool Order::place(uint64_t id, StreamState& stream, bool forced) {
    Pending& front = stream.pending.front();
    if (waits(front) && !forced) return false;
    remember_for_waiters(stream, front.task.ticket);

    if (const Recorded* const record = front.task.kind == TaskKind::wait ? find_record(front.subject) : nullptr) {
        stream.clock.join(record->clock);
        stream.edges[record->stream] = {record->ticket, front.task.site, front.task.function};
    }
    std::vector<Given> partners;
    for (const uint64_t take : front.takes)
        if (const auto given = given_.extract(take)) partners.push_back(given.mapped());
    for (const Given& partner : partners) stream.clock.join(partner.before);
    step(stream, front.task, front.accesses, partners);
    for (const Given& partner : partners) {  // only now: what both do at once may race
        stream.clock.advance(partner.stream, partner.number);
        stream.edges[partner.stream] = {partner.ticket, front.task.site, front.task.function};
    }
    switch (front.task.kind) {
        case TaskKind::record:
            keep_record(front.subject, {stream.clock, id, front.task.ticket});
            break;
        case TaskKind::host_function:
            callbacks_[front.task.ticket] = stream.clock;
            stream.held_by = front.task.ticket;
            break;
        case TaskKind::post:
            callbacks_[front.subject] = stream.clock;
            break;
        case TaskKind::callback_wait:
            stream.held_by = front.task.ticket;
            break;
        default:
            break;
    }
    stream.pending.pop_front();
    return true;
}

// The next of its stream.
void Order::step(StreamState& stream, const Asked& task, const std::vector<Access>& accesses,
                 const std::vector<Given>& partners) {
    stream.clock.advance(task.stream, ++stream.number);
    for (const Access& access : accesses) {
        const Found found = find_(access);
        check(task, access, found.allocation, stream.clock, partners);
        keep(task, stream.number, access, found, stream.clock);
    }
    if (!must_end(task.kind)) return;
    stream.newest = task;
    stream.newest_number = stream.number;
}

void Order::check(const Asked& task, const Access& access, uint64_t allocation, const Clock& known,
                  const std::vector<Given>& partners) {
    const auto it = kept_.find(allocation);
    if (it == kept_.end()) return;
    for (const Kept& kept : it->second) {
        if (kept.task.ticket == task.ticket || known.at(kept.task.stream) >= kept.number) continue;
        const Overlap shared = conflict(kept.access, access);
        if (shared == Overlap::no) continue;
        const bool together = std::any_of(partners.begin(), partners.end(),
                                          [&](const Given& partner) { return partner.ticket == kept.task.ticket; });
        report_({kept, task, access, known, kept.allocation, together, shared == Overlap::yes});
    }
}

// A later access to the same bytes stands for an earlier one, if it writes or both read: who is ordered after it is
// ordered after both. So a loop that nobody waits for does not grow.
void Order::keep(const Asked& task, uint64_t number, const Access& access, Found found, const Clock& known) {
    if (found.allocation == 0) return;
    std::vector<Kept>& list = list_of(found.allocation);
    if (!keep_all_)
        std::erase_if(list, [&](const Kept& kept) {
            return kept.task.ticket != task.ticket && known.at(kept.task.stream) >= kept.number &&
                   (access.writes || !kept.access.writes) && covered(kept.access, access);
        });
    list.push_back({task, number, found.allocation, access, found.pinned});
    if (found.pinned) watch_(list.back(), true);
}

std::vector<Kept>& Order::list_of(uint64_t allocation) {
    if (const auto it = kept_.find(allocation); it != kept_.end() || spare_.empty())
        return it != kept_.end() ? it->second : kept_[allocation];
    auto node = std::move(spare_.back());
    spare_.pop_back();
    node.key() = allocation;
    return kept_.insert(std::move(node)).position->second;
}

void Order::begin(const TaskInfo& info) {
    StreamState& stream = streams_[info.stream];
    // it runs, so whatever it waited for is there: a record may have come by the end of its event
    while (!stream.pending.empty() && stream.pending.front().task.ticket <= info.ticket) {
        give(info.stream, stream);
        place(info.stream, stream, true);
    }
    settle();
    if (info.kind == TaskKind::host_function) callback_begin(info.ticket);
}

void Order::end(const TaskInfo& info) {
    StreamState& stream = streams_[info.stream];
    if (stream.held_by != info.ticket) return;
    stream.held_by = 0;
    settle();
}

// All that is behind it is dropped as well, one by one: nothing moves up.
void Order::dropped(const TaskInfo& info, bool at_exit) {
    StreamState& stream = streams_[info.stream];
    if (at_exit && must_end(info.kind)) {
        const auto ticket = [&](const Pending& pending) { return pending.task.ticket == info.ticket; };
        const auto it = std::find_if(stream.pending.begin(), stream.pending.end(), ticket);
        lost_[info.stream] = it != stream.pending.end() ? it->task : stream.newest;
    }
    if (stream.held_by == info.ticket) stream.held_by = 0;
    std::erase_if(stream.pending, [&](const Pending& pending) { return pending.task.ticket == info.ticket; });
    // who waits for its record goes on, when it runs
    if (info.kind == TaskKind::record && find_record(info.subject) == nullptr) keep_record(info.subject, {});
    for (const uint64_t subject : info.gives) given_.erase(subject);
    if (stream.newest.ticket == info.ticket) stream.newest_number = 0;
    if (!at_exit) return;  // on the device it may have run, or be running: whoever drops it is told nothing
    for (auto& [allocation, list] : kept_)
        std::erase_if(list, [&](const Kept& kept) {
            if (kept.task.ticket != info.ticket) return false;
            return drop(kept), true;
        });
}

void Order::wait_begins(uint64_t stream, uint64_t ticket) {
    StreamState& state = streams_[stream];
    ++state.waiters;
    state.awaited = ticket;
}

void Order::wait_ends(uint64_t stream) {
    const auto it = streams_.find(stream);
    if (it == streams_.end() || it->second.waiters == 0 || --it->second.waiters > 0) return;
    it->second.before.clear();
    it->second.awaited = UINT64_MAX;
}

void Order::stream_done(uint64_t stream, uint64_t ticket) {
    lost_.erase(stream);
    const StreamState& state = streams_[stream];
    for (const auto& [first, clock] : state.before)
        if (first > ticket) return learn(clock);
    learn(state.clock);
}

// Before a task of the stream is placed.
void Order::remember_for_waiters(StreamState& stream, uint64_t ticket) {
    if (ticket <= stream.awaited) return;
    stream.before.emplace_back(ticket, stream.clock);
    stream.awaited = UINT64_MAX;
}

void Order::record_done(uint64_t record) {
    if (const Recorded* const found = find_record(record)) return learn(found->clock);
    if (record == 0) return;
    keep_record(record, {});  // of an event that is gone: who waits for it goes on, and knows nothing
    settle();
}

const Order::Recorded* Order::find_record(uint64_t record) const {
    const auto it = records_.find(record);
    if (it != records_.end()) return &it->second;
    return record <= old_until_ ? &old_ : nullptr;
}

void Order::keep_record(uint64_t record, Recorded recorded) {
    records_[record] = std::move(recorded);
    if (records_.size() <= kRecordsMost) return;
    for (size_t n = 0; n < kRecordsMost / 2; ++n) {
        old_until_ = records_.begin()->first;
        old_.clock.join(records_.begin()->second.clock);
        records_.erase(records_.begin());
    }
}

void Order::callback_begin(uint64_t callback) {
    const auto it = callbacks_.find(callback);
    if (it == callbacks_.end()) return;
    const Clock clock = std::move(it->second);
    callbacks_.erase(it);
    learn(clock);
}

void Order::learn(const Clock& clock) {
    host_.join(clock);
    retire();
}

// Whatever is asked for from now on is ordered after what the host knows.
void Order::retire() {
    for (auto it = kept_.begin(); it != kept_.end();) {
        std::erase_if(it->second, [&](const Kept& kept) {
            if (host_.at(kept.task.stream) < kept.number) return false;
            return drop(kept), true;
        });
        const auto here = it++;
        if (!here->second.empty()) continue;
        if (spare_.size() < kSpareMost && here->second.capacity() < 2 * kSpareMost)
            spare_.push_back(kept_.extract(here));
        else
            kept_.erase(here);
    }
}

void Order::host_access(const TaskInfo& info, Site site) {
    const Asked asked{info.kind, info.function, 0, 0, site};
    for (const Access& access : info.accesses) check(asked, access, find_(access).allocation, host_, {});
    for (const auto& [id, stream] : streams_)
        for (const Pending& pending : stream.pending)
            if (pending.awaited)
                for (const Access& access : info.accesses)
                    for (const Access& later : pending.accesses) {
                        const uint64_t allocation = find_(access).allocation;
                        if (allocation == 0 || find_(later).allocation != allocation) continue;
                        const Overlap shared = conflict(later, access);
                        if (shared == Overlap::no) continue;
                        const Kept kept{pending.task, UINT64_MAX, allocation, later};
                        report_({kept, asked, access, host_, allocation, false, shared == Overlap::yes});
                    }
}

void Order::expired(uint64_t stream) {
    const auto it = streams_.find(stream);
    if (it == streams_.end()) return;
    for (Pending& pending : it->second.pending) pending.awaited = true;
}

void Order::free(uint64_t allocation) {
    const auto it = kept_.find(allocation);
    if (it == kept_.end()) return;
    for (const Kept& kept : it->second) drop(kept);
    kept_.erase(it);
}

void Order::stream_end(uint64_t stream) {
    const auto it = streams_.find(stream);
    if (it == streams_.end()) return;
    const bool known = host_.at(stream) >= it->second.number;
    streams_.erase(it);
    if (!known) return void(forced_.insert(stream));
    host_.forget(stream);
    for (auto& [id, other] : streams_) {
        other.clock.forget(stream);
        other.edges.erase(stream);
    }
    if (++ended_ >= kEndedMost) forget_ended();
}

// Now and then: clocks of records bring streams back that have ended.
void Order::forget_ended() {
    const auto gone = [this](uint64_t id) { return !streams_.contains(id) && !forced_.contains(id); };
    host_.forget_if(gone);
    old_.clock.forget_if(gone);
    for (auto& [id, stream] : streams_) stream.clock.forget_if(gone);
    ended_ = 0;
}

// The queued work is the parent's.
void Order::after_fork() {
    for (auto& [id, stream] : streams_) {
        stream.pending.clear();
        stream.held_by = 0;
        stream.waiters = 0;
        stream.awaited = UINT64_MAX;
        stream.before.clear();
        host_.join(stream.clock);
    }
    given_.clear();
    retire();
}

}  // namespace gradus::sanitize
