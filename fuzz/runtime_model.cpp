#include "fuzz/runtime_model.h"

#include <algorithm>

namespace gradus::fuzz {

int Model::add_stream() {
    streams_.emplace_back();
    return static_cast<int>(streams_.size()) - 1;
}
int Model::add_event(EventKind kind) {
    events_.push_back({kind});
    return static_cast<int>(events_.size()) - 1;
}
int Model::add_cell() {
    cells_.emplace_back();
    return static_cast<int>(cells_.size()) - 1;
}

void Model::join(Clock& to, const Clock& from) {
    for (const auto& [stream, number] : from) to[stream] = std::max(to[stream], number);
}
bool Model::behind(const Clock& clock, int stream, int64_t number) {
    const auto found = clock.find(stream);
    return found != clock.end() && found->second >= number;
}

int Model::ask(int stream, Task task) {
    const int id = static_cast<int>(tasks_.size());
    task.stream = stream;
    task.knew = host_;
    tasks_.push_back(std::move(task));
    streams_[static_cast<size_t>(stream)].waiting.push_back(id);
    place_all();
    return id;
}

int Model::callback(int stream) {
    const int id = task(stream);
    Stream& of = streams_[static_cast<size_t>(stream)];
    of.callbacks.push_back(of.tasks + static_cast<int64_t>(of.waiting.size()));
    return id;
}

void Model::record(int stream, int event) {
    Event& e = events_[static_cast<size_t>(event)];
    if (!e.next) {
        e.next = static_cast<int>(records_.size());
        records_.emplace_back();
    }
    e.newest = e.next;
    e.next.reset();
    ask(stream, {.records = *e.newest});
}

void Model::wait(int stream, int event) {
    Event& e = events_[static_cast<size_t>(event)];
    if (!e.newest && e.kind == EventKind::extended) return;
    if (!e.newest && !e.next) {
        e.next = static_cast<int>(records_.size());
        records_.emplace_back();
    }
    ask(stream, {.needs = e.newest ? *e.newest : *e.next});
}

bool Model::refuses_wait(int event) const {
    const Event& e = events_[static_cast<size_t>(event)];
    return !e.newest && e.kind == EventKind::plain;
}
bool Model::record_comes(int event) const {
    const Event& e = events_[static_cast<size_t>(event)];
    return e.newest && records_[static_cast<size_t>(*e.newest)];
}
bool Model::awaited(int event) const { return events_[static_cast<size_t>(event)].next.has_value(); }

bool Model::record_known(int event) const {
    if (!record_comes(event)) return false;
    const Clock& when = *records_[static_cast<size_t>(*events_[static_cast<size_t>(event)].newest)];
    return std::ranges::all_of(when, [&](const auto& at) { return behind(host_, at.first, at.second); });
}

// Moves on whatever stream can, until none can.
void Model::place_all() {
    for (bool moved = true; moved;) {
        moved = false;
        for (Stream& stream : streams_)
            while (!stream.waiting.empty() && place(stream.waiting.front())) {
                stream.waiting.pop_front();
                moved = true;
            }
    }
}

bool Model::place(int id) {
    Task& task = tasks_[static_cast<size_t>(id)];
    if (task.needs != kNone && !records_[static_cast<size_t>(task.needs)]) return false;
    Stream& stream = streams_[static_cast<size_t>(task.stream)];
    join(stream.clock, task.knew);
    if (task.needs != kNone) join(stream.clock, *records_[static_cast<size_t>(task.needs)]);
    task.after = stream.clock;
    task.stream_number = ++stream.tasks;
    stream.clock[task.stream] = task.stream_number;
    if (task.records != kNone) records_[static_cast<size_t>(task.records)] = stream.clock;
    apply(task);
    return true;
}

// Whether nothing else touches the cell meanwhile.
bool Model::alone(int index, const Clock& clock, bool writes) const {
    return index == kNone || std::ranges::all_of(cells_[static_cast<size_t>(index)].live, [&](const Access& access) {
               return behind(clock, access.stream, access.number) || (!writes && !access.writes);
           });
}

// What a race leaves, and whatever was copied from there, nobody knows.
void Model::forget_all() {
    for (Cell& cell : cells_) cell.value.reset();
}

void Model::apply(const Task& task) {
    if (!alone(task.read, task.after, false) || !alone(task.write, task.after, true)) forget_all();
    std::optional<uint8_t> value = task.value;
    if (task.read != kNone) {
        Cell& from = cells_[static_cast<size_t>(task.read)];
        value = from.value;
        from.live.push_back({task.stream, task.stream_number, false});
    }
    if (task.write == kNone) return;
    Cell& to = cells_[static_cast<size_t>(task.write)];
    to.value = alone(task.write, task.after, true) ? value : std::nullopt;
    to.live.push_back({task.stream, task.stream_number, true});
}

void Model::host_waits_for_stream(int stream) { join(host_, streams_[static_cast<size_t>(stream)].clock); }

void Model::host_waits_for_record(int event) {
    join(host_, *records_[static_cast<size_t>(*events_[static_cast<size_t>(event)].newest)]);
}

void Model::host_waits_for_all() {
    const Clock before = host_;
    const auto goes_on = [&](const Clock& clock) {  // is behind no callback but those that the host knows of
        for (size_t s = 0; s < streams_.size(); ++s)
            for (const int64_t callback : streams_[s].callbacks)
                if (behind(clock, static_cast<int>(s), callback) && !behind(before, static_cast<int>(s), callback))
                    return false;
        return true;
    };
    for (const Stream& stream : streams_)
        if (goes_on(stream.clock)) join(host_, stream.clock);
}

void Model::host_fills(int index, uint8_t value) {
    const bool known = alone(index, host_, true);
    if (!known) forget_all();
    cells_[static_cast<size_t>(index)].value = known ? std::optional(value) : std::nullopt;
}

std::optional<uint8_t> Model::host_reads(int index) const {
    return alone(index, host_, false) ? cells_[static_cast<size_t>(index)].value : std::nullopt;
}

bool Model::host_knows(int id) const {
    const Task& task = tasks_[static_cast<size_t>(id)];
    return placed(id) && behind(host_, task.stream, task.stream_number);
}

bool Model::precedes(int a, int b) const {
    const Task& first = tasks_[static_cast<size_t>(a)];
    return placed(a) && placed(b) && behind(tasks_[static_cast<size_t>(b)].after, first.stream, first.stream_number);
}

bool Model::all_known(int stream) const {
    const Stream& s = streams_[static_cast<size_t>(stream)];
    return s.waiting.empty() && (s.tasks == 0 || behind(host_, stream, s.tasks));
}

}  // namespace gradus::fuzz
