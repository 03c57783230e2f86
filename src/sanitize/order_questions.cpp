// What others want to know of the order: who still uses memory, what nobody has waited for, what will never end.
#include <algorithm>

#include "sanitize/order.h"

namespace gradus::sanitize {

bool must_end(TaskKind kind) {
    return kind == TaskKind::launch || kind == TaskKind::copy || kind == TaskKind::fill ||
           kind == TaskKind::collective || kind == TaskKind::host_function;
}

uint64_t Order::stream_of(uint64_t record) const {
    const Recorded* const found = find_record(record);
    return found != nullptr ? found->stream : 0;
}

const Kept* Order::user_of(uint64_t allocation) {
    if (const auto it = kept_.find(allocation); it != kept_.end() && !it->second.empty()) return &it->second.back();
    for (auto& [id, stream] : streams_)
        for (const Pending& pending : stream.pending)
            for (const Access& access : pending.accesses)
                if (find_(access).allocation == allocation) {
                    pending_user_ = {pending.task, UINT64_MAX, allocation, access};
                    return &pending_user_;
                }
    return nullptr;
}

const Asked* Order::unfinished() const {
    if (!lost_.empty()) return &lost_.begin()->second;
    for (const auto& [id, stream] : streams_)
        if (const Asked* const task = unfinished_of(id)) return task;
    return nullptr;
}

const Asked* Order::unfinished_of(uint64_t id) const {
    const auto it = streams_.find(id);
    if (it == streams_.end()) return nullptr;
    if (it->second.newest_number > host_.at(id)) return &it->second.newest;
    for (const Pending& pending : it->second.pending)
        if (must_end(pending.task.kind)) return &pending.task;
    return nullptr;
}

const Asked* Order::unfinished_on(int device) const {
    for (const auto& [id, stream] : streams_)
        if (const Asked* const task = stream.device == device ? unfinished_of(id) : nullptr)
            if (stuck(id, 0).wait == nullptr) return task;
    return nullptr;
}

Order::Stuck Order::stuck(uint64_t stream, uint64_t record) const {
    if (record != 0 && find_record(record) != nullptr) return {};  // nothing that waits is before it
    const Asked* wait = nullptr;
    for (size_t step = 0; step <= streams_.size(); ++step) {  // a longer chain is a circle
        const auto it = streams_.find(stream);
        if (it == streams_.end() || it->second.held_by != 0 || it->second.pending.empty()) return {};
        const Pending& front = it->second.pending.front();
        if (front.task.kind != TaskKind::wait || find_record(front.subject) != nullptr) return {};
        wait = &front.task;
        stream = recorder_of(front.subject);
        if (stream == 0) return {wait, false};
    }
    return {wait, true};
}

bool Order::some_callback() const {
    const auto is_callback = [](const Pending& pending) {
        return pending.task.kind == TaskKind::host_function || pending.task.kind == TaskKind::post;
    };
    return !callbacks_.empty() || std::any_of(streams_.begin(), streams_.end(), [&](const auto& entry) {
        const StreamState& stream = entry.second;
        return stream.held_by != 0 || std::any_of(stream.pending.begin(), stream.pending.end(), is_callback);
    });
}

// The stream in which a record is held back; 0: nobody has asked for it.
uint64_t Order::recorder_of(uint64_t record) const {
    for (const auto& [id, stream] : streams_)
        for (const Pending& pending : stream.pending)
            if (pending.task.kind == TaskKind::record && pending.subject == record) return id;
    return 0;
}

Order::Edge Order::edge(uint64_t of, uint64_t stream) const {
    const auto it = streams_.find(of);
    if (it == streams_.end()) return {};
    const auto edge = it->second.edges.find(stream);
    return edge == it->second.edges.end() ? Edge{} : edge->second;
}

}  // namespace gradus::sanitize
