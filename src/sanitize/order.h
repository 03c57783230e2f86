// Who is ordered after whom. A clock says, for every stream, up to which of its tasks something is known to come later;
// there is one of every stream, one of every record, and one of the host, whose threads count as one: their mutual
// order is the program's business.
//
//   task asked for on s              next number of s; behind whatever the host knows
//   record                           the record's clock = s
//   wait                             s ⊔= the record; one that nobody has asked for yet holds back what is behind it
//   collective of ranks here         begins when all have come to it, and each s ⊔= all of them, itself included; a
//                                    receive likewise after its send
//   the program is told of the end   host ⊔= stream or record
//   callback begins, ends            host ⊔= the stream there; what is behind it waits for its end
//
// What the host knows to have ended is forgotten at once: nothing can race with it any more, and no clock needs it.
// Two accesses to a common byte race when one writes and neither is ordered after the other. Behind the process lock.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/observer.h"
#include "sanitize/stacks.h"

namespace gradus::sanitize {

class Clock {
  public:
    uint64_t at(uint64_t stream) const {
        const auto it = known_.find(stream);
        return it == known_.end() ? 0 : it->second;
    }
    void advance(uint64_t stream, uint64_t number) {
        if (uint64_t& mine = known_[stream]; mine < number) mine = number;
    }
    void join(const Clock& other) {
        for (const auto& [stream, number] : other.known_) advance(stream, number);
    }
    void forget(uint64_t stream) { known_.erase(stream); }
    template <typename F>
    void forget_if(const F& gone) {
        std::erase_if(known_, [&](const auto& entry) { return gone(entry.first); });
    }

  private:
    std::map<uint64_t, uint64_t> known_;
};

// Whether somebody has to wait for it before the process ends; a callback that has begun may have told the program.
bool must_end(TaskKind kind);

// A task that has been asked for, as far as a report needs it.
struct Asked {
    TaskKind kind;
    const char* function;
    uint64_t ticket, stream;  // stream 0: the host itself
    Site site;
};

// An access that a later one may race with.
struct Kept {
    Asked task;
    uint64_t number;  // of the task in its stream
    uint64_t allocation;
    Access access;
    bool pinned = false;
};

struct Found {
    uint64_t allocation = 0;  // 0: none of ours
    bool pinned = false;      // memory of the host's
};

struct Race {
    const Kept& earlier;
    const Asked& later;
    const Access& access;
    const Clock& known;  // of the later one
    uint64_t allocation;
    bool together;  // parts of one collective or message
    bool certain;   // that both touch a common byte
};

class Order {
  public:
    using Report = std::function<void(const Race&)>;
    using Find = std::function<Found(const Access&)>;
    // An access to pinned memory is kept (true) or no longer (false): for who protects the pages.
    using Watch = std::function<void(const Kept&, bool)>;
    Order(Report report, Find find, Watch watch, bool keep_all)
        : report_(std::move(report)), find_(std::move(find)), watch_(std::move(watch)), keep_all_(keep_all) {}

    void stream(const StreamInfo& info) { streams_[info.id].device = info.device; }
    void stream_end(uint64_t stream);
    void task(const TaskInfo& info, Site site);
    void begin(const TaskInfo& info);
    void end(const TaskInfo& info);
    // `at_exit`: by the library, not by the program, which may yet wait for the stream.
    void dropped(const TaskInfo& info, bool at_exit);
    // A thread waits for a stream up to a ticket, and has ended that; what others ask for meanwhile it knows nothing
    // of.
    void wait_begins(uint64_t stream, uint64_t ticket);
    void wait_ends(uint64_t stream);
    void stream_done(uint64_t stream, uint64_t ticket);
    void record_done(uint64_t record);
    void callback_begin(uint64_t callback);
    void host_access(const TaskInfo& info, Site site);
    // The program has waited for a stream in vain: what is still held back on it does not wait for the program's next
    // step, and may run at any time.
    void expired(uint64_t stream);

    // Who still uses an allocation, queued work included, until it is asked again: takes no memory, for a handler of
    // faults asks too. What is forgotten with it.
    const Kept* user_of(uint64_t allocation);
    void free(uint64_t allocation);

    // The newest work of a stream that the host does not know to have ended; nullptr: none.
    const Asked* unfinished() const;
    const Asked* unfinished_of(uint64_t stream) const;
    const Asked* unfinished_on(int device) const;  // of streams that do not stand as below
    // Whether a stream stands, before one of its records or anywhere (0), behind a record that nobody has asked for, or
    // that stands behind it in turn.
    struct Stuck {
        const Asked* wait = nullptr;  // the call; nullptr: it does not
        bool circle = false;
    };
    Stuck stuck(uint64_t stream, uint64_t record) const;
    // Whether a function of the program's is still to be called, or runs: it may ask for a record.
    bool some_callback() const;
    // Where `of` learned of `stream` last, for reports.
    struct Edge {
        uint64_t ticket = 0;  // of the record
        Site site = 0;
        const char* function = "";
    };
    Edge edge(uint64_t of, uint64_t stream) const;
    uint64_t stream_of(uint64_t record) const;  // 0: not known
    void after_fork();

  private:
    struct Pending {
        Asked task;
        uint64_t subject;
        std::vector<Access> accesses;
        std::vector<uint64_t> gives, takes;
        bool given = false;
        bool awaited = false;  // in vain
    };
    struct Given {  // by a task that has come, and is the `number`th of its stream
        Clock before;
        uint64_t stream, number, ticket;
    };
    struct Recorded {
        Clock clock;
        uint64_t stream = 0, ticket = 0;
    };
    struct StreamState {
        int device = -1;
        Clock clock;
        uint64_t number = 0;
        std::deque<Pending> pending;
        uint64_t held_by = 0;  // ticket of a callback that has not ended
        Asked newest{};        // work, or a callback
        uint64_t newest_number = 0;
        std::map<uint64_t, Edge> edges;
        // Threads that wait, up to which ticket the last one does, and the clock before the first task behind each.
        int waiters = 0;
        uint64_t awaited = UINT64_MAX;
        std::vector<std::pair<uint64_t, Clock>> before;
    };

    static constexpr size_t kRecordsMost = 20000, kEndedMost = 1000, kSpareMost = 16;

    uint64_t recorder_of(uint64_t record) const;
    const Recorded* find_record(uint64_t record) const;
    void keep_record(uint64_t record, Recorded recorded);
    void settle();
    bool give(uint64_t id, StreamState& stream);
    bool waits(const Pending& task) const;
    bool place(uint64_t id, StreamState& stream, bool forced);
    static void remember_for_waiters(StreamState& stream, uint64_t ticket);
    void step(StreamState& stream, const Asked& task, const std::vector<Access>& accesses,
              const std::vector<Given>& partners);
    void check(const Asked& task, const Access& access, uint64_t allocation, const Clock& known,
               const std::vector<Given>& partners);
    void keep(const Asked& task, uint64_t number, const Access& access, Found found, const Clock& known);
    std::vector<Kept>& list_of(uint64_t allocation);
    void drop(const Kept& kept) {
        if (kept.pinned) watch_(kept, false);
    }
    void learn(const Clock& clock);
    void retire();
    void forget_ended();

    const Report report_;
    const Find find_;
    const Watch watch_;
    const bool keep_all_;
    Clock host_;
    std::map<uint64_t, StreamState> streams_;
    std::map<uint64_t, Asked> lost_;  // by stream: work that was dropped at the exit
    std::set<uint64_t> forced_;       // streams that were destroyed by force: what they did is still unordered
    size_t ended_ = 0;                // others, since their numbers were forgotten
    std::map<uint64_t, Recorded> records_;
    Recorded
        old_;  // of all records up to `old_until_`, joined: who waits for one of them knows too much, never too little
    uint64_t old_until_ = 0;
    std::unordered_map<uint64_t, Given> given_;             // until it is taken
    std::unordered_map<uint64_t, Clock> callbacks_;         // by ticket or subject, until they begin
    std::unordered_map<uint64_t, std::vector<Kept>> kept_;  // by allocation
    std::vector<decltype(kept_)::node_type> spare_;         // what programs use, they use again
    Kept pending_user_{};
};

}  // namespace gradus::sanitize
