#include "fuzz/runtime_program.h"

#include <chrono>
#include <cstdlib>
#include <string_view>

#include "fuzz/report.h"
#include "gradus/gradus.h"

namespace gradus::fuzz {
namespace {

std::atomic<int64_t> moments = 0;

// Not where work is held back until somebody needs it: then they are as unordered as on the device.
bool copies_wait() {
    const char* const schedule = std::getenv("GRADUS_SCHEDULE");
    return schedule == nullptr || std::string_view(schedule) == "now";
}

}  // namespace

Hand::Hand() {
    thread_ = std::thread([this] {
        std::unique_lock lock(mutex_);
        for (;;) {
            changed_.wait(lock, [this] { return over_ || work_ != nullptr; });
            if (over_) return;
            lock.unlock();
            (*work_)();
            lock.lock();
            work_ = nullptr;
            changed_.notify_all();
        }
    });
}

Hand::~Hand() {
    {
        const std::scoped_lock lock(mutex_);
        over_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void Hand::run(const std::function<void()>& what) {
    std::unique_lock lock(mutex_);
    work_ = &what;
    changed_.notify_all();
    changed_.wait(lock, [this] { return work_ == nullptr; });
}

void Program::here(const std::function<void()>& call) { hands_[turn_].run(call); }

void Program::say(const std::string& words) {
    words_ += (words_.empty() ? "" : "; ") + words;
    set_case("runtime " + words_);
    count("calls");
}

void Program::expect(const char* call, int got, int want) {
    if (planted("code")) got = want == 0 ? 100000 : 0;
    const char* const message = aclGetRecentErrMsg();
    if (want == kAny ? got == 0 : got != want)
        fail("code", std::string(call) + " answers " + std::to_string(got) + ", expected " +
                         (want == kAny ? "a refusal" : std::to_string(want)) +
                         (message != nullptr ? std::string(": ") + message : ""));
    if (got != 0 && message == nullptr) fail("message", std::string(call) + " is refused without a word");
    count(got == 0 ? "calls accepted" : "calls refused");
}

Program::Program(Input& in)
    : in_(in), limits_(std::string_view(gradusGetOption("limits")) == "on"), copies_wait_(copies_wait()) {
    for (turn_ = 2; turn_-- > 0;)
        here([&] {
            expect("aclrtSetDevice", aclrtSetDevice(0), 0);
            expect("aclrtGetCurrentContext", aclrtGetCurrentContext(&contexts_[0]), 0);
        });
    turn_ = 0;
    here([&] {
        expect("aclrtCreateContext", aclrtCreateContext(&contexts_[1], 0), 0);
        expect("aclrtSetCurrentContext", aclrtSetCurrentContext(contexts_[0]), 0);
    });
    for (int i = 0; i < 3; ++i) make_stream(), make_cell();
    for (int i = 0; i < 3; ++i) make_event();
    if (in_.one_in(4)) {  // callbacks of the first stream go to a thread of the program
        streams_[0].subscribed = true;
        reporter_ = std::make_unique<std::thread>([this] { serve_reports(); });
        const auto id = static_cast<uint64_t>(reporter_->native_handle());
        here([&] { expect("aclrtSubscribeReport", aclrtSubscribeReport(id, streams_[0].handle), 0); });
    }
}

// Late, so that what must not wait for it would be seen to.
void Program::serve_reports() {
    while (!reports_over_) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        aclrtProcessReport(50);
    }
    aclGetRecentErrMsg();
}

// Streams may stand still for ever, so they go by force, in any order; what is made afterwards works.
Program::~Program() {
    here([&] {
        if (reporter_) {
            aclrtUnSubscribeReport(static_cast<uint64_t>(reporter_->native_handle()), streams_[0].handle);
            reports_over_ = true;
        }
        if (in_.one_in(2) && !streams_.empty()) std::swap(streams_.front(), streams_.back());
        for (const Stream& stream : streams_) {
            aclrtSetCurrentContext(contexts_[stream.context]);
            expect("aclrtDestroyStreamForce", aclrtDestroyStreamForce(stream.handle), 0);
        }
        aclrtSetCurrentContext(contexts_[0]);
        for (const Event& event : events_) expect("aclrtDestroyEvent", aclrtDestroyEvent(event.handle), 0);
        for (const Cell& cell : cells_) expect("aclrtFree", aclrtFree(cell.memory), 0);
        expect("aclrtDestroyContext", aclrtDestroyContext(contexts_[1]), 0);
    });
    if (reporter_) reporter_->join();
    for (turn_ = 2; turn_-- > 0;) here([&] { aclrtResetDevice(0); });
}

void Program::run() {
    for (int64_t calls = in_.between(5, 40); calls > 0 && !(in_.ended() && calls < 30); --calls) {
        step();
        expect_known_are_over();
    }
    // Whatever can come to its end does.
    for (const Stream& stream : streams_)
        if (!model_.blocked(stream.model)) synchronize_stream(stream);
    expect_known_are_over();
    expect_order();
}

void Program::step() {
    const Stream stream = in_.pick(streams_);
    const Event event = in_.pick(events_);
    const size_t cell = in_.below(cells_.size());
    switch (in_.below(32)) {
        case 0:
        case 1:
        case 2:
        case 3:
        case 4:
            return host_function(stream, false);
        case 5:
        case 6:
        case 7:
            return fill(stream);
        case 8:
        case 9:
        case 10:
            return copy(stream);
        case 11:
        case 12:
        case 13:
            return record(stream, event);
        case 14:
        case 15:
        case 16:
            return wait(stream, event);
        case 17:
            return synchronize_stream(stream);
        case 18:
            return synchronize_device();
        case 19:
            return synchronize_event(event);
        case 20:
            return read_cell(cells_[cell]);
        case 21:
            return write_cell(cells_[cell]);
        case 22:
            return replace_cell(cells_[cell]);
        case 23:
            return streams_.size() < 5 ? make_stream() : destroy_stream();
        case 24:
            return streams_.size() > 2 ? destroy_stream() : make_stream();
        case 25:
            return events_.size() < 5 && in_.one_in(2) ? make_event() : destroy_event();
        case 26:
            return query(stream, event);
        case 27:
            turn_ = 1 - turn_;
            return;
        case 28:
            return switch_context();
        case 29:
            return host_function(stream, true);
        default:
            return mistaken_call();
    }
}

// A function that runs while its stream is destroyed by force runs on, and may not even have begun: what it writes to
// outlives its program by about a hundred others.
Program::Note* Program::new_note() {
    static std::array<Note, 4096> notes;
    static size_t next = 0;
    Note& note = notes[next++ % notes.size()];
    note.begin = note.end = 0;
    return &note;
}

void Program::note(void* argument) {
    auto& note = *static_cast<Note*>(argument);
    note.begin = ++moments;
    note.end = ++moments;
}

// What the host has waited for is over.
void Program::expect_known_are_over() {
    for (const auto& note : notes_)
        if (model_.host_knows(note->task) && (note->end == 0 || planted("wait")))
            fail("wait", "a host function that was waited for is not over: task " + std::to_string(note->task));
}

// Every pair that the program has ordered ran in that order.
void Program::expect_order() const {
    for (const auto& first : notes_)
        for (const auto& second : notes_) {
            if (first == second || second->begin == 0 || !model_.precedes(first->task, second->task)) continue;
            count("pairs in order");
            if (first->end == 0 || first->end > second->begin || planted("order"))
                fail("order", "task " + std::to_string(second->task) + " began before task " +
                                  std::to_string(first->task) + " was over");
        }
}

}  // namespace gradus::fuzz
