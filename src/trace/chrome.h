// The timeline in Chrome's format, with the rows of msprof. One event a line.
#pragma once

#include "trace/output.h"
#include "trace/sites.h"
#include "trace/snapshot.h"

namespace gradus::trace {

struct Scene {
    const Store& store;
    const Snapshot& snapshot;
    Sites& sites;
    uint32_t process;     // its id
    double memory_limit;  // GB/s; 0: not known
};

// Rows of Chrome's format are threads of processes; a device's rows are a process, as msprof has it.
class Rows {
  public:
    explicit Rows(uint32_t process) : base_(uint64_t{process} * 512) {}
    uint64_t host() const { return base_; }
    uint64_t hardware(int device) const { return base_ + 2 + 2 * place(device); }
    uint64_t overlap(int device) const { return base_ + 3 + 2 * place(device); }

  private:
    static uint64_t place(int device) { return device < 254 ? static_cast<uint64_t>(device) : 254; }
    uint64_t base_;
};

// An event from its first brace; what is left open is closed by end().
class Event {
  public:
    Event(Output& out, char phase, uint64_t process, uint64_t thread, int64_t at);
    Event& duration(int64_t ns);
    Event& name(std::string_view name, std::string_view category = {});
    Event& id(uint32_t process, std::string_view kind, uint64_t number);  // of an arrow
    Event& text(std::string_view key, std::string_view value);            // arguments
    Event& number(std::string_view key, int64_t value);
    Event& decimal(std::string_view key, double value);
    Output& open(std::string_view key);  // an argument whose value the caller writes
    void raw(std::string_view more);     // outside the arguments, before any of them
    void end();

  private:
    Output& out_;
    bool arguments_ = false;
};

const char* type_of(TaskKind kind);  // msprof's words

void write_chrome(Output& out, const Scene& scene);
void write_overlap(Output& out, const Scene& scene);  // Overlap Analysis and counters, a part of the same file

}  // namespace gradus::trace
