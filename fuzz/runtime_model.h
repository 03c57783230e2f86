// What is known of a program of streams and events without running it: which of its tasks must be over before which
// begins, and what memory must hold. Vector clocks over the streams and the host; the host's calls come one after the
// other.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

namespace gradus::fuzz {

enum class EventKind { plain, flagged, extended };  // a wait before the first record: refused, blocks, is for nothing

class Model {
  public:
    using Clock = std::map<int, int64_t>;  // stream → how many of its tasks one is behind

    int add_stream();
    int add_event(EventKind kind);
    int add_cell();  // memory that holds zeros

    // Work on a stream. The number of the task.
    int task(int stream) { return ask(stream, {}); }
    int fill(int stream, int cell, uint8_t value) { return ask(stream, {.write = cell, .value = value}); }
    int copy(int stream, int from, int to) { return ask(stream, {.read = from, .write = to}); }
    // From here on the stream, and who waits for it, may stand still until a thread of the program has run it.
    int callback(int stream);
    void record(int stream, int event);
    void wait(int stream, int event);

    // Whether a wait would be refused; whether the stream stands still for a record that may never come.
    bool refuses_wait(int event) const;
    bool blocked(int stream) const { return !streams_[static_cast<size_t>(stream)].waiting.empty(); }
    // Whether the event's newest record will come.
    bool recorded(int event) const { return events_[static_cast<size_t>(event)].newest.has_value(); }
    bool record_comes(int event) const;
    bool record_known(int event) const;  // ... and the host knows that it has come
    bool awaited(int event) const;       // a stream stands still for its first record

    // The host is behind all that a stream has, or a record; or, before a synchronous copy, behind all that can go on.
    void host_waits_for_stream(int stream);
    void host_waits_for_record(int event);
    void host_waits_for_all();
    void host_fills(int cell, uint8_t value);
    // What the cell must hold; nothing where two accesses are not ordered.
    std::optional<uint8_t> host_reads(int cell) const;

    bool host_knows(int task) const;  // that it is over
    bool precedes(int a, int b) const;
    bool placed(int task) const { return tasks_[static_cast<size_t>(task)].stream_number > 0; }
    bool all_known(int stream) const;  // nothing is left that the host has not waited for

  private:
    static constexpr int kNone = -1;
    struct Task {
        int read = kNone, write = kNone;
        std::optional<uint8_t> value = {};   // to write; nothing: what is read
        int records = kNone, needs = kNone;  // records of events, by number
        int stream = kNone;
        int64_t stream_number = 0;    // from 1 on, when its place is known
        Clock after = {}, knew = {};  // what it is behind; what the host knew when it asked
    };
    struct Stream {
        Clock clock;
        int64_t tasks = 0;
        std::vector<int64_t> callbacks;  // for a thread of the program, by their numbers
        std::deque<int> waiting;         // behind a wait for a record that has no place yet, and that wait
    };
    struct Access {
        int stream;
        int64_t number;
        bool writes;
    };
    struct Cell {
        std::optional<uint8_t> value = uint8_t{0};
        std::vector<Access> live = {};
    };
    struct Event {
        EventKind kind;
        std::optional<int> newest = {}, next = {};  // records; next: the one that a stream waits for already
    };

    int ask(int stream, Task task);
    bool place(int id);
    void place_all();
    void apply(const Task& task);
    bool alone(int cell, const Clock& clock, bool writes) const;
    void forget_all();
    static void join(Clock& to, const Clock& from);
    static bool behind(const Clock& clock, int stream, int64_t number);

    std::vector<Task> tasks_;
    std::vector<Stream> streams_;
    std::vector<Cell> cells_;
    std::vector<Event> events_;
    std::vector<std::optional<Clock>> records_;  // when placed
    Clock host_;
};

}  // namespace gradus::fuzz
