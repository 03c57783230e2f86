#include <signal.h>

#include <cstdlib>
#include <cstring>

#include "correct.h"

// For test_command.py, under another name than the programs that must come to their end.
static void end_by_a_signal(const char* way) {
    Buffer x(kX), y(kY);
    Stream s;
    glu(x, y, s);
    read(y);  // too early
    if (std::strcmp(way, "abort") == 0) std::abort();
    if (std::strcmp(way, "terminate") == 0) raise(SIGTERM);
    if (std::strcmp(way, "crash") == 0) *reinterpret_cast<volatile int*>(8) = 1;
    if (std::strcmp(way, "crash in the allocator") == 0) {
        char* volatile block = static_cast<char*>(std::malloc(1 << 20));
        block = block + 16;
        std::free(block);
    }
}

int main(int count, char** words) {
    if (count > 2 && std::strcmp(words[1], "end") == 0) {
        const World world;
        end_by_a_signal(words[2]);
    }
    const auto program = programs().find(count > 1 ? words[1] : "");
    if (program == programs().end()) return 98;
    const World world;
    program->second();
}
