#include "trace/recorder.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "trace/install.h"

namespace gradus::trace {
namespace {

// The calls that this thread is inside of: one, but for callbacks that call. Plain bytes without a destructor: static
// objects of the program call after the thread's own have gone.
struct Here {
    static constexpr uint32_t kMost = 6;  // deeper ones are not drawn

    uint32_t thread, depth;
    bool finalized;
    int64_t work_began;
    CallRecord open[kMost];

    CallRecord* innermost() { return depth == 0 || depth > kMost ? nullptr : &open[depth - 1]; }
};
constinit thread_local Here here{};

uint32_t this_thread(Threads& threads) noexcept {
    if (here.thread == 0) {
        here.thread = static_cast<uint32_t>(gettid());
        threads.add(here.thread);
    }
    return here.thread;
}

bool touches_memory(const TaskInfo& task) {
    return task.kind == TaskKind::launch || task.kind == TaskKind::copy || task.kind == TaskKind::fill ||
           task.kind == TaskKind::collective;
}

bool apart(const Access& a, const Access& b) {
    const TensorView::Extent x = a.view.extent(), y = b.view.extent();
    return a.address + x.end <= b.address + y.begin || b.address + y.end <= a.address + x.begin;
}

bool share(const Access& a, const Access& b) {
    return (a.writes || b.writes) && !apart(a, b) && overlaps(a.view, b.view, b.address - a.address);
}

Clash clash(const TaskInfo& task, const TaskInfo& other) {
    for (const Access& a : task.accesses)
        for (const Access& b : other.accesses)
            if (share(a, b)) return {other.ticket, a.argument, b.argument, a.writes, b.writes, {}};
    return {};
}

}  // namespace

void Threads::add(uint32_t id) noexcept {
    const size_t at = count_.fetch_add(1, std::memory_order_relaxed);
    if (at >= kMost) return;
    Thread& thread = threads_[at];
    if (pthread_getname_np(pthread_self(), thread.name, sizeof thread.name) != 0) thread.name[0] = '\0';
    thread.id.store(id, std::memory_order_release);
}

void Threads::forget_all() noexcept {
    for (Thread& thread : threads_) thread.id = 0;
    count_ = 0;
}

void Recorder::on_call(const char* function) {
    if (++here.depth > Here::kMost) return;
    CallRecord& call = here.open[here.depth - 1];
    call = {.begin = 0,
            .end = 0,
            .function = function,
            .site = current_site(),
            .value = 0,
            .thread = this_thread(store_.threads),
            .code = 0,
            .detail = 0,
            .device = 0,
            .kind = CallKind::plain,
            .unused = 0};
    call.begin = now();
}

void Recorder::on_return(const char*, const Status& status) {
    const int64_t end = now();
    if (CallRecord* const call = here.innermost()) {
        call->end = end;
        call->code = status.code();
        store_.calls.add(*call);
    }
    if (here.depth > 0) --here.depth;
    if (here.finalized && here.depth == 0) {
        here.finalized = false;
        write_at_finalize();
    }
}

void Recorder::on_phase_one() {
    if (CallRecord* const call = here.innermost()) call->kind = CallKind::prepare;
}

void Recorder::on_memory(int device, int64_t change) {
    if (device < 0 || device >= kDevices) return;
    int64_t& bytes = device_bytes_[static_cast<size_t>(device)];
    bytes += change;
    if (CallRecord* const call = here.innermost()) {
        call->kind = CallKind::memory;
        call->value = static_cast<uint64_t>(bytes);
        call->device = static_cast<uint16_t>(device);
    }
}

void Recorder::on_host_access(const TaskInfo&) { here.work_began = now(); }

void Recorder::on_host_access_end(const TaskInfo& task) {
    CallRecord* const call = here.innermost();
    if (call == nullptr) return;
    if (task.kind != TaskKind::launch) {
        call->kind = CallKind::copy;
        call->value = static_cast<uint64_t>(task.bytes);
        call->detail = store_.details.number_of(task);
        return;
    }
    store_.calls.add({.begin = here.work_began,
                      .end = now(),
                      .function = task.op,
                      .site = nullptr,
                      .value = static_cast<uint64_t>(task.bytes),
                      .thread = call->thread,
                      .code = 0,
                      .detail = store_.details.number_of(task),
                      .device = 0,
                      .kind = CallKind::work,
                      .unused = 0});
}

void Recorder::on_task(const TaskInfo& task) {
    store_.tasks.put(task.ticket, {.asked = now(),
                                   .begin = 0,
                                   .end = 0,
                                   .name = task.kind == TaskKind::launch ? task.op : task.function,
                                   .site = current_site(),
                                   .bytes = task.bytes,
                                   .subject = task.subject,
                                   .clash = {},
                                   .thread = this_thread(store_.threads),
                                   .detail = store_.details.number_of(task),
                                   .stream = static_cast<uint32_t>(task.stream),
                                   .code = 0,
                                   .kind = task.kind,
                                   .device = static_cast<uint16_t>(task.device),
                                   .state = TaskState::queued,
                                   .unused = 0});
}

Clash Recorder::find_clash(const TaskInfo& task) const {
    for (const TaskInfo* other : running_) {
        if (other == nullptr || other->stream == task.stream) continue;
        if (const Clash found = clash(task, *other); found.ticket != 0) return found;
    }
    return {};
}

void Recorder::on_task_begin(const TaskInfo& task) {
    TaskRecord record;
    const bool kept = store_.tasks.get(task.ticket, record);
    if (touches_memory(task)) {
        if (kept) record.clash = find_clash(task);
        const auto place = std::find(running_.begin(), running_.end(), nullptr);
        if (place != running_.end()) *place = &task;
    }
    if (!kept) return;
    record.state = TaskState::running;
    record.begin = now();
    store_.tasks.put(task.ticket, record);
}

void Recorder::on_task_end(const TaskInfo& task, int code) {
    const int64_t end = now();
    std::replace(running_.begin(), running_.end(), &task, static_cast<const TaskInfo*>(nullptr));
    TaskRecord record;
    if (!store_.tasks.get(task.ticket, record)) return;
    record.state = TaskState::done;
    record.end = end;
    record.code = code;
    store_.tasks.put(task.ticket, record);
}

void Recorder::on_task_dropped(const TaskInfo& task) {
    TaskRecord record;
    if (!store_.tasks.get(task.ticket, record)) return;
    record.state = TaskState::dropped;
    record.end = now();
    store_.tasks.put(task.ticket, record);
}

// Of two tasks the one that ended last.
uint64_t Recorder::later(uint64_t a, uint64_t b) const {
    TaskRecord x, y;
    if (!store_.tasks.get(a, x)) return b;
    return store_.tasks.get(b, y) && y.end > x.end ? b : a;
}

void Recorder::on_stream_done(uint64_t, uint64_t ticket) {
    CallRecord* const call = here.innermost();
    if (call == nullptr || ticket == 0) return;
    call->value = call->kind == CallKind::sync_stream ? later(call->value, ticket) : ticket;
    call->kind = CallKind::sync_stream;
}

void Recorder::on_record_done(uint64_t record) {
    CallRecord* const call = here.innermost();
    if (call == nullptr || record == 0) return;
    call->value = record;
    call->kind = CallKind::sync_record;
}

void Recorder::on_finding(const Finding& finding) {
    FindingRecord record{.at = now(),
                         .id = finding.id,
                         .tasks = {finding.tasks[0], finding.tasks[1]},
                         .thread = this_thread(store_.threads),
                         .error = finding.error,
                         .text = {}};
    const size_t length = std::min(finding.text.size(), sizeof record.text - 1);
    std::memcpy(record.text, finding.text.data(), length);
    store_.findings.add(record);
}

void Recorder::on_finalize() { here.finalized = true; }

void Recorder::forget_all() noexcept {
    store_.forget_all();
    running_.fill(nullptr);
    here.thread = 0;
    for (CallRecord& call : here.open) call.thread = this_thread(store_.threads);
}

}  // namespace gradus::trace
