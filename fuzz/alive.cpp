#include "fuzz/alive.h"

#include <malloc.h>
#include <unistd.h>

#include <cstdio>

#include "fuzz/report.h"

#if defined(__SANITIZE_ADDRESS__)
#define GRADUS_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GRADUS_ASAN
#endif
#endif
#if defined(GRADUS_ASAN)
extern "C" {  // GCC has them, but not the header
size_t __sanitizer_get_current_allocated_bytes(void);
size_t __sanitizer_get_heap_size(void);
}
#endif

namespace gradus::fuzz {
namespace {

struct Alive {
    size_t blocks, mapped;  // bytes, pages
    bool less_than(const Alive& other) const { return blocks < other.blocks || mapped < other.mapped; }
};

Alive alive() {
    size_t mapped = 0;  // device memory is mappings
    if (std::FILE* const file = std::fopen("/proc/self/statm", "re")) {
        if (std::fscanf(file, "%zu", &mapped) != 1) mapped = 0;
        std::fclose(file);
    }
#if defined(GRADUS_ASAN)
    // without what it keeps of freed blocks
    return {__sanitizer_get_current_allocated_bytes(),
            mapped - __sanitizer_get_heap_size() / static_cast<size_t>(sysconf(_SC_PAGESIZE))};
#else
    return {mallinfo2().uordblks, mapped};
#endif
}

}  // namespace

void expect_nothing_left(const std::function<void()>& work) {
    constexpr int kRounds = 24;  // caches of the allocator fill up first
    Alive before = alive();
    work();
    Alive after = alive();
    for (int round = 1; before.less_than(after); ++round) {
        if (round == kRounds)
            fail("leak", std::to_string(after.blocks - before.blocks) + " bytes of blocks and " +
                             std::to_string(after.mapped - before.mapped) + " pages of mappings stay behind each time");
        before = after;
        work();
        after = alive();
    }
}

}  // namespace gradus::fuzz
