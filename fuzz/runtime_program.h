// A random program of the runtime, run call by call beside its model.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "fuzz/input.h"
#include "fuzz/runtime_model.h"

namespace gradus::fuzz {

// A thread of the program that does what it is told, one thing after the other.
class Hand {
  public:
    Hand();
    ~Hand();
    Hand(const Hand&) = delete;
    Hand& operator=(const Hand&) = delete;
    void run(const std::function<void()>& what);  // returns when it is done

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    const std::function<void()>* work_ = nullptr;
    bool over_ = false;
    std::thread thread_;
};

class Program {
  public:
    explicit Program(Input& in);
    ~Program();
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    void run();

  private:
    static constexpr size_t kBytes = 64;
    static constexpr int kAny = -1;  // a code: any but 0
    struct Stream {
        aclrtStream handle;
        int model, context;
        bool subscribed = false;
    };
    struct Event {
        aclrtEvent handle;
        int model;
    };
    struct Cell {
        void* memory;
        int model;
    };
    // A host function that notes when it began and when it ended.
    struct Note {
        std::atomic<int64_t> begin = 0, end = 0;
        int task = -1;
    };

    static Note* new_note();
    void step();
    void say(const std::string& words);
    void expect(const char* call, int got, int want);
    void here(const std::function<void()>& call);  // on the thread whose turn it is
    bool foreign(const Stream& stream) const { return limits_ && stream.context != context_[turn_]; }

    void make_stream();
    void make_event();
    void make_cell();
    void host_function(const Stream& stream, bool by_report);
    void fill(const Stream& stream);
    void copy(const Stream& stream);
    void record(const Stream& stream, const Event& event);
    void wait(const Stream& stream, const Event& event);
    void synchronize_stream(const Stream& stream);
    void synchronize_device();
    void synchronize_event(const Event& event);
    void read_cell(const Cell& cell);
    void write_cell(const Cell& cell);
    void replace_cell(Cell& cell);
    void destroy_stream();
    void destroy_event();
    void query(const Stream& stream, const Event& event);
    void switch_context();
    void mistaken_call();
    void expect_known_are_over();
    void expect_order() const;
    void serve_reports();

    static void note(void* argument);

    Input& in_;
    Model model_;
    const bool limits_, copies_wait_;
    Hand hands_[2];
    size_t turn_ = 0;
    int context_[2] = {0, 0};
    aclrtContext contexts_[2] = {};
    std::vector<Stream> streams_;
    std::vector<Event> events_;
    std::vector<Cell> cells_;
    std::vector<void*> dead_;
    std::vector<Note*> notes_;
    std::string words_;
    std::atomic<bool> reports_over_ = false;
    std::unique_ptr<std::thread> reporter_;
};

}  // namespace gradus::fuzz
