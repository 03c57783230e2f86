// Every exported function with a call of its own, and many with one that has to be refused.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "world.h"

namespace gradus::faults {

struct Case {
    std::string function;
    std::function<int(World&)> call;  // its code; allocates nothing itself
    int expected = 0;                 // where nothing is refused
    std::string message = {};         // what a refusal says
    std::function<void(World&)> prepare = {};
    const Operator* op = nullptr;
    bool may_allocate = true;   // a refusal of arguments needs no memory, so that it is told when there is none
    bool stays = false;         // what is given out once is valid for ever
    bool caches = false;        // a context keeps the default stream that the call has made
    bool needs_thread = false;  // and answers HCCL_E_RUNTIME where none can be had
    bool spends = false;        // what was prepared, even where it fails: a meeting takes place once
    bool stream_waits = false;  // for this call: only afterwards does the stream end
};
using Cases = std::vector<Case>;

void add_runtime_cases(Cases& cases);
void add_aclnn_cases(Cases& cases);
void add_hccl_cases(Cases& cases);

// Adds to the list in the words that the lists of cases use.
class Adder {
  public:
    explicit Adder(Cases& cases) : cases_(cases) {}
    Case& works(const char* function, std::function<int(World&)> call) {
        return cases_.emplace_back(Case{function, std::move(call)});
    }
    Case& refuses(const char* function, int code, const char* message, std::function<int(World&)> call) {
        Case& added = works(function, std::move(call));
        added.expected = code, added.message = message, added.may_allocate = false;
        return added;
    }

  private:
    Cases& cases_;
};

// For functions that return what they make: NULL means that the thread's last error says why.
template <typename T>
int given(T* result, T*& out) {
    if (result == nullptr) return aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL);
    out = result;
    return 0;
}
inline int is(bool right) { return right ? 0 : -1; }

// For results that are enumerations.
template <typename T>
T* as(int32_t& out) {
    return reinterpret_cast<T*>(&out);
}

}  // namespace gradus::faults
