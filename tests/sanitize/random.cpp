// Random small programs on three streams, three buffers and two events, run through the C interface, and the truth
// about them: every interleaving is enumerated, and a conflicting pair races if both orders occur.
//   random COUNT SEED     a line for every program: its number, then the racing pairs as i-j
//   random COUNT SEED only NUMBER     prints that program as well
// The sanitizer watches; test_random.py compares. What it reports is told apart by its stacks, which spell the number
// of the program and of the call in digits of base 4: step<2> called by step<0> called by …
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "world.h"

namespace {

constexpr int kStreams = 3, kBuffers = 3, kNone = -1, kNever = -2;

enum What {
    launch,
    host_read,
    host_write,
    record_event,
    wait_event,
    sync_stream,
    sync_device,
    sync_event,
    page_copy,
    callback
};

struct Op {
    What kind;
    int stream = kNone, event = kNone;
    int reads = kNone, writes = kNone;  // buffers

    bool queued() const {
        return kind == launch || kind == record_event || kind == wait_event || kind == page_copy || kind == callback;
    }
    bool accesses() const { return reads != kNone || writes != kNone; }
    bool returns_when_done() const { return kind == page_copy || kind == callback; }
};
using Program = std::vector<Op>;

bool conflict(const Op& a, const Op& b) {
    return (a.writes != kNone && (a.writes == b.reads || a.writes == b.writes)) ||
           (a.reads != kNone && a.reads == b.writes);
}

Program random_program(std::mt19937& random) {
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    const int size = 4 + below(9);
    std::discrete_distribution<int> kinds({10, 3, 2, 4, 4, 1.5, .5, 1, 1, 1});
    Program program;
    bool recorded[2] = {};
    while (static_cast<int>(program.size()) < size) {
        const auto kind = static_cast<What>(kinds(random));
        const int stream = below(kStreams), event = below(2), buffer = below(kBuffers);
        Op op{kind};
        switch (kind) {
            case launch:
                op.stream = stream;
                op.writes = buffer;
                if (below(3) == 0) op.reads = (buffer + 1 + below(kBuffers - 1)) % kBuffers;
                break;
            case page_copy:
                op.stream = stream;
                (below(2) == 0 ? op.reads : op.writes) = buffer;
                break;
            case host_read:
                op.reads = buffer;
                break;
            case host_write:
                op.writes = buffer;
                break;
            case record_event:
                recorded[event] = true;
                [[fallthrough]];
            case wait_event:
                op.stream = stream;
                op.event = event;
                break;
            case sync_event:
                if (!recorded[event]) continue;
                op.event = event;
                break;
            default:
                op.stream = kind == sync_device ? kNone : stream;
        }
        program.push_back(op);
    }
    return program;
}

// Which record a wait or a synchronisation stands for: the newest when it was asked for. Event 1 is of the kind whose
// wait before the first record blocks until that record is asked for; of event 0 it is for nothing.
std::vector<int> needs(const Program& program) {
    std::vector<int> need(program.size(), kNone);
    int newest[2] = {kNone, kNone};
    for (size_t i = 0; i < program.size(); ++i) {
        const Op& op = program[i];
        if (op.kind == record_event) newest[op.event] = static_cast<int>(i);
        if (op.kind != wait_event && op.kind != sync_event) continue;
        need[i] = newest[op.event];
        if (need[i] != kNone || op.event != 1) continue;
        need[i] = kNever;
        for (size_t j = i; j < program.size() && need[i] == kNever; ++j)
            if (program[j].kind == record_event && program[j].event == 1) need[i] = static_cast<int>(j);
    }
    return need;
}

using Pairs = std::set<std::pair<int, int>>;

// All states (how far the host is, how far each stream) that can be reached, and which op can come before which.
class Truth {
  public:
    explicit Truth(const Program& program) : program_(program), need_(needs(program)), place_(program.size()) {
        for (size_t i = 0; i < program.size(); ++i)
            if (program[i].queued()) {
                auto& queue = queue_[static_cast<size_t>(program[i].stream)];
                place_[i] = static_cast<int>(queue.size());
                queue.push_back(static_cast<int>(i));
            }
        std::vector<State> todo = {State{}};
        while (!todo.empty()) {
            const State state = todo.back();
            todo.pop_back();
            if (!seen_.insert(state).second) continue;
            const int host = state[0];
            if (host == size() && (host == 0 || !last_open(state)) && drained(state)) ends_ = true;
            if (host < size() && host_may(state)) {
                if (!program[static_cast<size_t>(host)].queued()) happens(host, state);
                State next = state;
                ++next[0];
                todo.push_back(next);
            }
            for (size_t s = 0; s < kStreams; ++s) {
                const auto at = static_cast<size_t>(state[s + 1]);
                if (at >= queue_[s].size() || queue_[s][at] >= host) continue;
                const int i = queue_[s][at], need = need_[static_cast<size_t>(i)];
                if (program[static_cast<size_t>(i)].kind == wait_event && need != kNone && !done(need, state)) continue;
                happens(i, state);
                State next = state;
                ++next[s + 1];
                todo.push_back(next);
            }
        }
    }

    // Or it hangs: the host, or a stream whose wait is for a record behind it. What is queued there never runs, so that
    // no order of it is true or false.
    bool ends() const { return ends_; }
    Pairs races() const {
        Pairs races;
        for (const auto& [i, j] : before_)
            if (i < j && before_.contains({j, i})) races.insert({i, j});
        return races;
    }

  private:
    using State = std::array<int, kStreams + 1>;
    int size() const { return static_cast<int>(program_.size()); }
    const Op& op(int i) const { return program_[static_cast<size_t>(i)]; }
    bool done(int i, const State& state) const {
        if (i < 0) return false;
        if (!op(i).queued()) return state[0] > i;
        return state[static_cast<size_t>(op(i).stream) + 1] > place_[static_cast<size_t>(i)];
    }
    bool drained(size_t s, const State& state) const {
        const auto asked = std::count_if(queue_[s].begin(), queue_[s].end(), [&](int i) { return i < state[0]; });
        return state[s + 1] >= asked;
    }
    bool drained(const State& state) const {
        for (size_t s = 0; s < kStreams; ++s)
            if (!drained(s, state)) return false;
        return true;
    }
    bool last_open(const State& state) const {
        return op(state[0] - 1).returns_when_done() && !done(state[0] - 1, state);
    }
    bool host_may(const State& state) const {
        if (state[0] > 0 && last_open(state)) return false;
        const Op& next = op(state[0]);
        if (next.kind == sync_stream) return drained(static_cast<size_t>(next.stream), state);
        if (next.kind == sync_event) return done(need_[static_cast<size_t>(state[0])], state);
        return next.kind != sync_device || drained(state);
    }
    void happens(int i, const State& state) {
        if (!op(i).accesses()) return;
        for (int j = 0; j < size(); ++j)
            if (j != i && conflict(op(i), op(j)) && !done(j, state)) before_.insert({i, j});
    }

    const Program& program_;
    const std::vector<int> need_;
    std::vector<int> place_;
    std::array<std::vector<int>, kStreams> queue_;
    std::set<State> seen_;
    Pairs before_;
    bool ends_ = false;
};

std::string text(const Op& op) {
    static const char* const names[] = {"launch", "host_read",   "host_write", "record",    "wait",
                                        "sync",   "sync_device", "sync_event", "page_copy", "callback"};
    std::string line = names[op.kind];
    if (op.stream != kNone) line += " s" + std::to_string(op.stream);
    if (op.event != kNone) line += " e" + std::to_string(op.event);
    if (op.reads != kNone) line += " reads " + std::to_string(op.reads);
    if (op.writes != kNone) line += " writes " + std::to_string(op.writes);
    return line;
}

constexpr size_t kBytes = 64;

class Machine {
  public:
    void run(const Op& op) {
        const aclrtStream stream = op.stream == kNone ? nullptr : streams_[op.stream].s;
        const aclrtEvent event = op.event == kNone ? nullptr : op.event == 0 ? extended_.e : flagged_.e;
        char host[kBytes] = {};
        switch (op.kind) {
            case launch:
                if (op.reads == kNone) return MUST(aclrtMemsetAsync(buffer(op.writes), kBytes, 1, kBytes, stream));
                return MUST(aclrtMemcpyAsync(buffer(op.writes), kBytes, buffer(op.reads), kBytes,
                                             ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
            case host_read:
                return MUST(aclrtMemcpy(host, kBytes, buffer(op.reads), kBytes, ACL_MEMCPY_DEVICE_TO_HOST));
            case host_write:
                return MUST(aclrtMemcpy(buffer(op.writes), kBytes, host, kBytes, ACL_MEMCPY_HOST_TO_DEVICE));
            case record_event:
                return MUST(aclrtRecordEvent(event, stream));
            case wait_event:
                return MUST(aclrtStreamWaitEvent(stream, event));
            case sync_stream:
                return MUST(aclrtSynchronizeStream(stream));
            case sync_device:
                return MUST(aclrtSynchronizeDevice());
            case sync_event:
                return MUST(aclrtSynchronizeEvent(event));
            case page_copy:
                if (op.reads == kNone)
                    return MUST(
                        aclrtMemcpyAsync(buffer(op.writes), kBytes, host, kBytes, ACL_MEMCPY_HOST_TO_DEVICE, stream));
                return MUST(
                    aclrtMemcpyAsync(host, kBytes, buffer(op.reads), kBytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
            case callback: {
                std::atomic<bool> told = false;
                MUST(aclrtLaunchHostFunc(
                    stream, [](void* flag) { *static_cast<std::atomic<bool>*>(flag) = true; }, &told));
                while (!told) std::this_thread::yield();
            }
        }
    }
    // What waits for ever is dropped.
    ~Machine() {
        for (Stream& stream : streams_) {
            aclrtDestroyStreamForce(stream.s);
            stream.s = nullptr;
        }
    }

  private:
    void* buffer(int i) const { return buffers_[i].p; }

    Buffer buffers_[kBuffers] = {Buffer(kBytes), Buffer(kBytes), Buffer(kBytes)};
    Event extended_, flagged_{Kind::flagged};
    Stream streams_[kStreams];
};

// The digits still to be spelled, most significant first, then the call.
struct Spelling {
    std::array<int, 12> digit{};
    size_t count = 0, at = 0;
    Machine* machine = nullptr;
    const Op* op = nullptr;
};

template <int kDigit>
__attribute__((noinline)) void step(Spelling& spelling);

__attribute__((always_inline)) inline void next(Spelling& spelling) {
    if (spelling.at == spelling.count) return spelling.machine->run(*spelling.op);
    switch (spelling.digit[spelling.at++]) {
        case 0:
            return step<0>(spelling);
        case 1:
            return step<1>(spelling);
        case 2:
            return step<2>(spelling);
        default:
            return step<3>(spelling);
    }
}

template <int kDigit>
void step(Spelling& spelling) {
    next(spelling);
    asm volatile("" ::: "memory");  // or the last call would be a jump
}

void call(Machine& machine, int number, int i, const Op& op) {
    Spelling spelling{.machine = &machine, .op = &op};
    const auto spell = [&](int value, int digits) {
        for (int d = digits - 1; d >= 0; --d) spelling.digit[spelling.count++] = value >> 2 * d & 3;
    };
    spell(number, 8);
    spell(i, 2);
    next(spelling);
}

}  // namespace

int main(int words, char** word) {
    if (words < 3) return 98;
    const int count = std::atoi(word[1]), only = words > 4 ? std::atoi(word[4]) : kNone;
    std::mt19937 random(static_cast<unsigned>(std::atoi(word[2])));
    const World world;
    for (int number = 0; number < count; ++number) {
        const Program program = random_program(random);
        if (only != kNone && only != number) continue;
        const Truth truth(program);
        if (!truth.ends()) {
            std::printf("%d hangs\n", number);
            continue;
        }
        Machine machine;
        for (size_t i = 0; i < program.size(); ++i) call(machine, number, static_cast<int>(i), program[i]);
        std::printf("%d", number);
        for (const auto& [i, j] : truth.races()) std::printf(" %d-%d", i, j);
        std::printf("\n");
        for (size_t i = 0; only != kNone && i < program.size(); ++i)
            std::printf("  %zu %s\n", i, text(program[i]).c_str());
    }
}
