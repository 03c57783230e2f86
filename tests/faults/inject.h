// Refuses memory, mappings or threads to what runs between the begin and the end of a scope, on the calling thread.
#pragma once

#include <cstdint>

namespace gradus::faults {

enum class Kind { memory, mapping, thread };
inline constexpr const char* kWords[] = {"memory", "mapping", "thread"};

// The nth request from now on is refused, or all from the nth on.
class Refusing {
  public:
    Refusing(Kind kind, int64_t nth, bool and_all_after) noexcept;
    ~Refusing();
    Refusing(const Refusing&) = delete;
    Refusing& operator=(const Refusing&) = delete;

    int64_t requests() const noexcept;  // up to now
    int64_t thrown() const noexcept;    // refusals that nobody but a catch can have noticed
};

// Scopes up to now in which something was refused.
int64_t points(Kind kind) noexcept;

// Blocks from operator new that no operator delete has had back, of all threads.
int64_t live_blocks() noexcept;

// Waits until no more than so many are alive: a stream's thread gives its own back soon after the stream is destroyed.
bool settles_at(int64_t blocks) noexcept;

// What runs now, for whoever ends the process: a terminate, a signal, or a call that does not return.
void say_where(const char* function, const char* what, int64_t nth, bool and_all_after) noexcept;
void report_where_at_the_end() noexcept;

}  // namespace gradus::faults
