// Programs with one mistake each, and, with a second argument, the same without it.
//   planted NAME [mended]
// test_planted.py reads here what each must give: `expect` names the ids, then what the first finding names (_ for a
// blank) and what the report says; its two stacks go through the lines that end with a and b.
#pragma once

#include "../world.h"

inline bool mended = false;
// What a callback works on.
inline aclrtStream stream_of_callback = nullptr;
inline Buffer *callback_x = nullptr, *callback_y = nullptr;

// Without a quarantine the kernel gives the same pages out again, if it is asked often enough.
inline std::vector<void*> allocate_until(const void* address) {
    std::vector<void*> all;
    for (void* fresh = nullptr; fresh != address && all.size() < 1000; all.push_back(fresh))
        MUST(aclrtMalloc(&fresh, kX, ACL_MEM_MALLOC_HUGE_FIRST));
    return all;
}

#define PLANTED(name) PROGRAM(name)
