// Programs that tests call by name: what they cost is measured.
//   various NAME
#include <time.h>

#include <algorithm>
#include <map>
#include <string>

#include "world.h"

static std::map<std::string, void (*)()>& programs() {
    static std::map<std::string, void (*)()> all;
    return all;
}
#define PROGRAM(name)                                                   \
    static void name();                                                 \
    static const bool name##_listed = (programs()[#name] = name, true); \
    static void name()

// Nanoseconds of this thread for one of `count`, the best of twenty times: others on the machine only make it longer.
template <typename F>
static double nanoseconds(int count, const F& f) {
    const auto now = [] {
        timespec t{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
    };
    double best = 1e18;
    for (int time = 0; time < 20; ++time) {
        const double begin = now();
        for (int i = 0; i < count; ++i) f();
        best = std::min(best, (now() - begin) / count);
    }
    return best;
}

// Tensors, both phases, a synchronise: as little work as there can be.
PROGRAM(tiny_calls) {
    Buffer x(kX), y(kY);
    Stream s;
    std::printf("%.0f\n", nanoseconds(1000, [&] {
                    glu(x, y, s);
                    sync(s);
                }));
}

PROGRAM(tiny_calls_after_many_frees) {
    for (int i = 0; i < 10000; ++i) const Buffer freed(64, false);
    tiny_calls();
}

int main(int count, char** words) {
    const auto program = programs().find(count > 1 ? words[1] : "");
    if (program == programs().end()) return 98;
    const World world;
    program->second();
}
