#include "trace/chrome.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace gradus::trace {

Event::Event(Output& out, char phase, uint64_t process, uint64_t thread, int64_t at) : out_(out) {
    out_ << ",\n{\"ph\":\"" << std::string_view(&phase, 1) << "\",\"pid\":" << process << ",\"tid\":" << thread
         << ",\"ts\":";
    out_.micros(at);
}

Event& Event::duration(int64_t ns) {
    out_ << ",\"dur\":";
    out_.micros(ns);
    return *this;
}

Event& Event::name(std::string_view name, std::string_view category) {
    out_ << ",\"name\":";
    out_.quoted(name);
    if (!category.empty()) out_ << ",\"cat\":\"" << category << "\"";
    return *this;
}

// Files of several processes are put together: the id has to be one's own in all of them.
Event& Event::id(uint32_t process, std::string_view kind, uint64_t number) {
    out_ << ",\"id\":\"" << process << "." << kind << "." << number << "\"";
    return *this;
}

Output& Event::open(std::string_view key) {
    out_ << (arguments_ ? ",\"" : ",\"args\":{\"") << key << "\":";
    arguments_ = true;
    return out_;
}

Event& Event::text(std::string_view key, std::string_view value) {
    if (!value.empty()) open(key).quoted(value);
    return *this;
}

Event& Event::number(std::string_view key, int64_t value) {
    open(key) << value;
    return *this;
}

Event& Event::decimal(std::string_view key, double value) {
    open(key).decimal(value);
    return *this;
}

void Event::raw(std::string_view more) { out_ << more; }

void Event::end() { out_ << (arguments_ ? "}}" : "}"); }

const char* type_of(TaskKind kind) {
    switch (kind) {
        case TaskKind::launch:
            return "AI_CORE";
        case TaskKind::copy:
            return "MEMCPY_ASYNC";
        case TaskKind::fill:
            return "MEMSET_ASYNC";
        case TaskKind::record:
            return "EVENT_RECORD";
        case TaskKind::wait:
            return "EVENT_WAIT";
        case TaskKind::reset:
            return "EVENT_RESET";
        case TaskKind::collective:
            return "COMMUNICATION";
        default:
            return "HOST_FUNC";
    }
}

namespace {

class Chrome {
  public:
    Chrome(Output& out, const Scene& scene) : out_(out), scene_(scene), rows_(scene.process) {}

    void write() {
        head();
        names();
        calls();
        for (const Task& task : scene_.snapshot.tasks()) write_task(task);
        findings();
        write_overlap(out_, scene_);
        out_ << "\n]}\n";
    }

  private:
    void head();
    void name_process(uint64_t process, const char* name, int device, int order);
    void name_row(uint64_t process, uint64_t row, std::string_view name, uint64_t number);
    void names();
    void calls();
    void write_call(const CallRecord& call);
    void write_task(const Task& task);
    void write_clash(const Task& task, const Task& other);
    void findings();
    void describe(Event& event, uint32_t detail);
    void describe_speed(Event& event, int64_t bytes, int64_t ns);
    void arrow(const char* kind, uint64_t number, uint64_t from_process, uint64_t from_row, int64_t from,
               uint64_t to_process, uint64_t to_row, int64_t to);
    void arrow_to_sync(const CallRecord& call, const Task* last);

    Output& out_;
    const Scene& scene_;
    const Rows rows_;
};

// The words of the command line, with blanks between them.
void command_line(Output& out) {
    char text[2048];
    const int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    const ssize_t size = fd < 0 ? 0 : read(fd, text, sizeof text);
    if (fd >= 0) close(fd);
    size_t length = size > 0 ? static_cast<size_t>(size) : 0;
    while (length > 0 && text[length - 1] == '\0') --length;
    std::replace(text, text + length, '\0', ' ');
    out.quoted({text, length});
}

void Chrome::head() {
    out_ << "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"producer\":\"gradus " GRADUS_VERSION "\",\"program\":";
    command_line(out_);
    out_ << ",\"process\":" << scene_.process << ",\"calls lost\":" << scene_.store.calls.lost()
         << ",\"tasks lost\":" << scene_.store.tasks.lost() << ",\"memory limit GB/s\":";
    out_.decimal(scene_.memory_limit);
    out_ << "},\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":" << rows_.host()
         << ",\"tid\":0,\"ts\":0.000,\"name\":\"process_name\",\"args\":{\"name\":\"CANN\"}}";
}

void Chrome::name_process(uint64_t process, const char* name, int device, int order) {
    if (device >= 0) Event(out_, 'M', process, 0, 0).name("process_name").text("name", name).end();
    Event labels(out_, 'M', process, 0, 0);
    labels.name("process_labels");
    Output& text = labels.open("labels");
    if (device < 0)
        text << "\"process " << scene_.process << "\"";
    else
        text << "\"NPU " << device << ", process " << scene_.process << "\"";
    labels.end();
    Event(out_, 'M', process, 0, 0).name("process_sort_index").number("sort_index", order).end();
}

void Chrome::name_row(uint64_t process, uint64_t row, std::string_view name, uint64_t number) {
    Event event(out_, 'M', process, row, 0);
    event.name("thread_name");
    event.open("name") << "\"" << name << number << "\"";
    event.end();
    Event(out_, 'M', process, row, 0).name("thread_sort_index").number("sort_index", static_cast<int64_t>(row)).end();
}

void Chrome::names() {
    name_process(rows_.host(), "CANN", -1, 0);  // whose name was the first event
    for (const Thread& thread : scene_.store.threads.all()) {
        const uint32_t id = thread.id.load(std::memory_order_acquire);
        if (id == 0) continue;
        Event event(out_, 'M', rows_.host(), id, 0);
        event.name("thread_name").text("name", thread.name[0] != '\0' ? thread.name : "thread").end();
    }
    uint64_t named[16] = {};  // devices, a bit each
    const auto name_device = [&](int device) {
        uint64_t& word = named[static_cast<size_t>(device) / 64 % 16];
        const uint64_t bit = uint64_t{1} << device % 64;
        if ((word & bit) != 0) return;
        name_process(rows_.hardware(device), "Ascend Hardware", device, 1 + 2 * device);
        name_process(rows_.overlap(device), "Overlap Analysis", device, 2 + 2 * device);
        word |= bit;
    };
    const auto streams = scene_.snapshot.streams();
    for (size_t i = 0; i < streams.size(); ++i) {
        if (!streams[i].seen) continue;
        name_device(streams[i].device);
        name_row(rows_.hardware(streams[i].device), i, "Stream ", i);
    }
    // memory alone is a counter of the device's
    const auto& ring = scene_.store.calls;
    CallRecord call;
    for (uint64_t i = ring.first(); i <= ring.last(); ++i)
        if (ring.get(i, call) && call.kind == CallKind::memory) name_device(call.device);
}

void Chrome::calls() {
    const auto& ring = scene_.store.calls;
    CallRecord call;
    for (uint64_t i = ring.first(); i <= ring.last(); ++i)
        if (ring.get(i, call)) write_call(call);
}

void Chrome::write_call(const CallRecord& call) {
    Event event(out_, 'X', rows_.host(), call.thread, call.begin);
    event.duration(call.end - call.begin);
    char name[128];
    const std::string_view suffix = call.kind == CallKind::prepare ? "GetWorkspaceSize" : "";
    const size_t length = std::min(std::strlen(call.function), sizeof name - suffix.size());
    std::memcpy(name, call.function, length);
    std::memcpy(name + length, suffix.data(), suffix.size());
    event.name({name, length + suffix.size()}, call.kind == CallKind::work ? "compute" : "call");
    if (call.code != 0) event.number("code", call.code);
    if (call.kind == CallKind::memory) event.number("device bytes", static_cast<int64_t>(call.value));
    describe(event, call.detail);
    if (call.kind == CallKind::work || call.kind == CallKind::copy)
        describe_speed(event, static_cast<int64_t>(call.value), call.end - call.begin);
    event.text("site", scene_.sites.text(call.site)).end();
    if (call.kind == CallKind::memory) {
        Event counter(out_, 'C', rows_.hardware(call.device), 0, call.end);
        counter.name("device bytes").number("bytes", static_cast<int64_t>(call.value)).end();
    }
    if (call.kind == CallKind::sync_stream) arrow_to_sync(call, scene_.snapshot.find(call.value));
    if (call.kind == CallKind::sync_record)
        arrow_to_sync(call, scene_.snapshot.find(scene_.snapshot.ticket_of(call.value)));
}

void Chrome::describe(Event& event, uint32_t number) {
    const Detail* const detail = scene_.store.details.find(number);
    if (detail == nullptr) return;
    for (const bool writes : {false, true}) {
        if (detail->operands.empty()) break;  // a copy
        Output& text = event.open(writes ? "outputs" : "inputs");
        const char* before = "\"";
        for (const Operand& operand : detail->operands) {
            if (operand.writes != writes) continue;
            text << before << operand.name << "[";
            for (int32_t i = 0; i < operand.rank; ++i) text << (i == 0 ? "" : ",") << operand.size[i];
            text << "]:" << dtype_name(operand.dtype).view();
            before = " ";
        }
        text << (*before == '"' ? "\"\"" : "\"");
    }
    event.text("path", detail->path).text("why", detail->why);
    if (!detail->operands.empty()) event.number("workspace", detail->workspace);
}

void Chrome::describe_speed(Event& event, int64_t bytes, int64_t ns) {
    if (bytes <= 0) return;
    event.number("bytes", bytes);
    if (ns <= 0) return;
    const double rate = static_cast<double>(bytes) / static_cast<double>(ns);
    event.decimal("GB/s", rate);
    if (scene_.memory_limit > 0) event.decimal("share of the memory limit", rate / scene_.memory_limit);
}

const char* category_of(const Task& task) {
    if (task.computes()) return "compute";
    if (task.copies()) return "copy";
    if (task.waits()) return "wait";
    if (task.communicates()) return "communication";
    return task.kind == TaskKind::host_function || task.kind == TaskKind::post ? "callback" : "event";
}

void Chrome::write_task(const Task& task) {
    const uint64_t process = rows_.hardware(task.device);
    if (!task.ran()) {
        Event event(out_, 'i', process, task.stream, task.state == TaskState::dropped ? task.end : task.asked);
        event.raw(",\"s\":\"t\"");
        event.name(task.name, "never ran").number("Stream Id", task.stream);
        event.number("Task Id", static_cast<int64_t>(task.ticket));
        event.text("state", task.state == TaskState::dropped ? "dropped" : "queued when the trace was written");
        event.text("site", scene_.sites.text(task.site)).end();
        return;
    }
    Event event(out_, 'X', process, task.stream, task.begin);
    event.duration(task.end - task.begin).name(task.name, category_of(task));
    event.number("Stream Id", task.stream).number("Task Id", static_cast<int64_t>(task.ticket));
    event.text("Task Type", type_of(task.kind));
    if (task.state == TaskState::running) event.text("state", "running when the trace was written");
    if (task.code != 0) event.number("code", task.code);
    describe(event, task.detail);
    describe_speed(event, task.bytes, task.end - task.begin);
    if (!task.waits()) event.decimal("queued us", static_cast<double>(task.begin - task.asked) / 1e3);
    event.text("site", scene_.sites.text(task.site)).end();

    arrow("launch", task.ticket, rows_.host(), task.thread, task.asked, process, task.stream, task.begin);
    if (const Task* record = task.awaits == 0 ? nullptr : scene_.snapshot.find(task.awaits); record && record->ran())
        arrow("record", task.ticket, rows_.hardware(record->device), record->stream, record->begin, process,
              task.stream, std::max(task.begin, task.end - 1));
    if (const Task* other = task.clash.ticket == 0 ? nullptr : scene_.snapshot.find(task.clash.ticket))
        write_clash(task, *other);
}

// An arrow hangs on the events that enclose its ends.
void Chrome::arrow(const char* kind, uint64_t number, uint64_t from_process, uint64_t from_row, int64_t from,
                   uint64_t to_process, uint64_t to_row, int64_t to) {
    Event(out_, 's', from_process, from_row, from).id(scene_.process, kind, number).name(kind, kind).end();
    Event head(out_, 'f', to_process, to_row, std::max(from, to));
    head.raw(",\"bp\":\"e\"");
    head.id(scene_.process, kind, number).name(kind, kind).end();
}

// Once a task: who asks again after nothing has happened waits for nothing.
void Chrome::arrow_to_sync(const CallRecord& call, const Task* last) {
    if (last == nullptr || !last->ran() || last->end > call.end) return;
    StreamRow& row = scene_.snapshot.streams()[last->stream];
    if (row.synced >= last->ticket) return;
    row.synced = last->ticket;
    arrow("sync", last->ticket, rows_.hardware(last->device), last->stream, std::max(last->begin, last->end - 1),
          rows_.host(), call.thread, std::max(call.begin, call.end - 1));
}

// Two tasks that ran at the same time on the same memory: no event can be between them. The one that was asked for
// first comes first, so that a loop says the same every time.
void Chrome::write_clash(const Task& task, const Task& other) {
    const Clash& clash = task.clash;
    struct Side {
        const Task& task;
        const char* argument;
        bool writes;
    };
    const Side own{task, clash.argument, clash.writes}, met{other, clash.other, clash.other_writes};
    const bool in_order = task.ticket < other.ticket;
    const Side &first = in_order ? own : met, &second = in_order ? met : own;
    Event event(out_, 'i', rows_.hardware(task.device), task.stream, task.begin);
    event.raw(",\"s\":\"t\"");
    event.name("no event between", "finding").text("level", "error");
    event.open("tasks") << "[" << first.task.ticket << "," << second.task.ticket << "]";
    Output& text = event.open("text");
    const auto say = [&text](const Side& side) {
        text << side.task.name << " on stream " << side.task.stream << (side.writes ? " writes " : " reads ")
             << side.argument;
    };
    text << "\"";
    say(first);
    text << " while ";
    say(second);
    text << ", and they share bytes\"";
    event.text("site", scene_.sites.text(first.task.site))
        .text("other site", scene_.sites.text(second.task.site))
        .end();
}

void Chrome::findings() {
    const auto& ring = scene_.store.findings;
    FindingRecord finding;
    for (uint64_t i = ring.first(); i <= ring.last(); ++i) {
        if (!ring.get(i, finding)) continue;
        const Task* const task = scene_.snapshot.find(std::max(finding.tasks[0], finding.tasks[1]));
        Event event(out_, 'i', task ? rows_.hardware(task->device) : rows_.host(), task ? task->stream : finding.thread,
                    task && task->ran() ? task->begin : finding.at);
        event.raw(",\"s\":\"t\"");
        event.name(finding.id, "finding").text("level", finding.error ? "error" : "warning");
        event.open("tasks") << "[" << finding.tasks[0] << "," << finding.tasks[1] << "]";
        event.text("text", finding.text).end();
    }
}

}  // namespace

void write_chrome(Output& out, const Scene& scene) { Chrome(out, scene).write(); }

}  // namespace gradus::trace
