#include "sanitize/sanitizer.h"

#include <cstring>

#include "base/lock.h"
#include "runtime/memory.h"
#include "sanitize/here.h"
#include "sanitize/teller.h"

namespace gradus::sanitize {

constinit thread_local Calls calls{};

Sanitizer::Sanitizer(const Options& options)
    : options_(options),
      findings_(options),
      order_([this](const Race& race) { tell_race(race); },
             [this](const Access& access) {
                 const Memory* const memory = shadow_.find(access.address + access.view.extent().begin);
                 if (memory == nullptr) return Found{};
                 return Found{memory->info.id, memory->info.kind == MemoryKind::host};
             },
             [this](const Kept& kept, bool in_flight) { protect(kept, in_flight); }, options.keep_all) {
    if (!options.copies.empty()) copies_ = Lines(options.copies);
}

// With the lock: the site of the call that the thread is in.
Site Sanitizer::site() {
    Calls& mine = calls;  // once: in a library that may be opened late, a thread's variables are far away
    if (mine.depth == 0) return 0;
    Here& here = mine.innermost();
    if (here.site == 0) {
        here.site = findings_.stacks.keep(here.stack);
        remember(here.stack, current_site(), here.site);
    }
    return here.site;
}

namespace {

// No memory, no work, no waiting: what CANN forbids in host functions.
bool asks_only(std::string_view function) {
    return reads_errors(function) || function.find("Get") != std::string_view::npos ||
           function.find("Query") != std::string_view::npos || function == "aclrtSetCurrentContext";
}

// Numbers alone, which programs convert by the million, so that such a call must cost hardly anything; and the version,
// by which nobody uses the library yet.
bool is_arithmetic(const char* function) {
    return std::strncmp(function, "aclFloat", 8) == 0 || std::strcmp(function, "aclDataTypeSize") == 0 ||
           std::strcmp(function, "gradusVersion") == 0;
}

}  // namespace

void Sanitizer::on_call(const char* function) {
    Calls& mine = calls;
    const bool arithmetic = is_arithmetic(function);
    if (!arithmetic) {
        start_teller();
        look_at_handlers(function, mine.called++);
    }
    if (some_touched_.load(std::memory_order_relaxed)) tell_touches();
    Here& here = mine.enter();
    here.function = function;
    here.site = 0;
    here.handle = here.freed = here.elsewhere = nullptr;
    here.expired = here.waits_for = 0;
    here.phase_one = false;
    here.findings = findings_.reported.load(std::memory_order_relaxed);
    if (arithmetic) return;
    here.site = capture(here.stack, current_site());
    // phase two comes by its attempt; tensors and the like are the host's own
    if (mine.in_host_function == 0 || asks_only(function)) return;
    if (std::strncmp(function, "aclrt", 5) != 0 && std::strncmp(function, "Hccl", 4) != 0) return;
    const Lock lock = hold();
    tell_callback();
}

void Sanitizer::on_return(const char* function, const Status& status) {
    if (some_touched_.load(std::memory_order_relaxed)) tell_touches();
    if (!status.ok() || some_failed_.load(std::memory_order_relaxed)) {
        const Lock lock = hold();
        judge_return(function, status);
    }
    calls.leave();
}

void Sanitizer::on_phase_one() {
    if (calls.depth > 0) calls.innermost().phase_one = true;
}

namespace {

// The entry of a key that is not there yet, in a node that another has left: programs make and destroy all the time.
template <typename Map>
typename Map::mapped_type& place_for(const void* key, Map& map, std::vector<typename Map::node_type>& spare) {
    if (spare.empty()) return map[key];
    auto node = std::move(spare.back());
    spare.pop_back();
    node.key() = key;
    return map.insert(std::move(node)).position->second;
}

template <typename Node>
void leave(Node node, std::vector<Node>& spare) {
    constexpr size_t kMost = 16;
    if (!node.empty() && spare.size() < kMost) spare.push_back(std::move(node));
}

}  // namespace

void Sanitizer::on_create(HandleKind kind, const void* handle) {
    const uint64_t now = shadow_.moment();
    place_for(handle, handles_, spare_handles_) = {kind, site(), current_function(), now, now};
}

void Sanitizer::on_destroy(HandleKind kind, const void* handle) {
    // remembered for a while, for who uses it again
    auto node = handles_.extract(handle);
    if (node.empty()) return;
    const uint64_t now = shadow_.moment();
    node.mapped() = {kind, site(), current_function(), now, now};
    destroyed_.insert(std::move(node));
    destroyed_order_.push_back(handle);
    if (destroyed_order_.size() <= kRemembered) return;
    auto oldest = destroyed_.extract(destroyed_order_.front());
    if (oldest.mapped().kind == HandleKind::executor) leave(executors_.extract(oldest.key()), spare_executors_);
    leave(std::move(oldest), spare_handles_);
    destroyed_order_.pop_front();
}

void Sanitizer::on_unknown(HandleKind kind, const void* handle) {
    if (calls.depth == 0 || handle == nullptr) return;
    calls.innermost().unknown = kind;
    calls.innermost().handle = handle;
}

void Sanitizer::on_stream(const StreamInfo& stream) { order_.stream(stream); }
void Sanitizer::on_stream_end(uint64_t stream) { order_.stream_end(stream); }

void Sanitizer::on_allocate(const AllocationInfo& allocation) {
    shadow_.allocate(allocation, site(), current_function());
    watch_signals();
}

void Sanitizer::on_free(const void* address, MemoryKind kind, uint64_t allocation) {
    if (allocation == 0) {
        if (calls.depth > 0) calls.innermost().freed = address;
        return;
    }
    judge_free(kind, allocation);
    order_.free(allocation);
    in_flight_.erase(allocation);
    const Memory* const memory = shadow_.release(allocation, site(), current_function());
    if (memory == nullptr || memory->used || !options_.full_leaks || kind != MemoryKind::device) return;
    tell_unused(*memory);
}

void Sanitizer::on_prepare(const void* executor, std::span<const void* const> tensors) {
    Executor& entry = place_for(executor, executors_, spare_executors_);
    std::vector<const void*> room = std::move(entry.tensors);
    room.assign(tensors.begin(), tensors.end());
    entry = {std::move(room), {}, shadow_.moment(), 0, site(), 0};
}

void Sanitizer::on_address(const void* handle, size_t index) {
    if (const auto tensor = handles_.find(handle);
        tensor != handles_.end() && tensor->second.kind == HandleKind::tensor)
        tensor->second.since = shadow_.moment();
    else if (const auto executor = executors_.find(handle); executor != executors_.end())
        executor->second.address[index] = shadow_.moment();
}

void Sanitizer::on_attempt(const TaskInfo& task) {
    if (task.kind == TaskKind::launch && calls.in_host_function > 0) tell_callback();
    if (task.kind == TaskKind::launch) judge_executor(task);
    for (const Access& access : task.accesses) judge_memory(task, access);
}

void Sanitizer::on_host_access(const TaskInfo& task) {
    judge_sync_copy(task);
    if (options_.racecheck) order_.host_access(task, site());
    book(task);
    if (copies_.wanted() && calls.depth > 0) calls.innermost().copy = ++copies_asked_;
}

void Sanitizer::on_host_access_end(const TaskInfo& task) {
    if (copies_.wanted() && calls.depth > 0) hash_copy(task, calls.innermost().copy, site());
}

void Sanitizer::on_task(const TaskInfo& task) {
    judge_async_copy(task);
    book(task);
    order_.task(task, site());
    if (copies_.wanted() && task.kind == TaskKind::copy) copy_asked_[task.ticket] = {++copies_asked_, site()};
}

void Sanitizer::on_task_begin(const TaskInfo& task) {
    if (task.kind == TaskKind::host_function) {
        calls.begin_callback();
        ++calls.in_host_function;
    }
    order_.begin(task);
}

void Sanitizer::on_task_end(const TaskInfo& task, int) {
    if (task.kind == TaskKind::host_function) {
        calls.end_callback();
        --calls.in_host_function;
    }
    order_.end(task);
    if (const auto it = copy_asked_.find(task.ticket); it != copy_asked_.end()) {
        hash_copy(task, it->second.first, it->second.second);
        copy_asked_.erase(it);
    }
}

void Sanitizer::on_task_dropped(const TaskInfo& task) { order_.dropped(task, leaving_); }

void Sanitizer::on_wait_begin(uint64_t stream, uint64_t ticket) {
    if (calls.depth == 0) return;
    calls.innermost().waits_for = stream;
    order_.wait_begins(stream, ticket);
}

void Sanitizer::end_wait(uint64_t stream) {
    if (calls.depth == 0 || calls.innermost().waits_for != stream) return;
    calls.innermost().waits_for = 0;
    order_.wait_ends(stream);
}

void Sanitizer::on_stream_done(uint64_t stream, uint64_t ticket) {
    order_.stream_done(stream, ticket);
    end_wait(stream);
    if (some_failed_) forgive(stream);
}

void Sanitizer::on_expired(uint64_t stream) {
    order_.expired(stream);
    end_wait(stream);
    if (calls.depth > 0) calls.innermost().expired = stream;
}

void Sanitizer::on_record_done(uint64_t record) {
    order_.record_done(record);
    if (some_failed_) forgive(order_.stream_of(record));
}

void Sanitizer::on_callback_begin(uint64_t callback) {
    calls.begin_callback();
    order_.callback_begin(callback);
}
void Sanitizer::on_callback_end(uint64_t) { calls.end_callback(); }

// In the child the queued work is the parent's, and so is what was found, or is left, from before.
void Sanitizer::after_fork() {
    order_.after_fork();
    in_flight_.clear();
    touch_count_ = 0;
    some_touched_ = false;
    forget_teller();
    copy_asked_.clear();
    failures_.clear();
    some_failed_ = false;
    forked_ = shadow_.moment();
    findings_.forget_counts();
}

}  // namespace gradus::sanitize
