// What belongs to the whole process: floating-point modes, signals, the exit, the number of threads.
#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "gradus/gradus.h"
#include "testing/runtime.h"

namespace gradus::testing {
namespace {

std::string output_of(const std::string& command) {
    std::string text;
    FILE* const pipe = popen(command.c_str(), "r");
    char part[256];
    while (std::fgets(part, sizeof part, pipe) != nullptr) text += part;
    EXPECT_EQ(pclose(pipe), 0) << command << ": " << text;
    return text;
}

// Neither the mode of the call, nor that of the first call of the process, nor the number of threads.
TEST(FloatingPoint, ModesOfTheCallerDoNotReachResults) {
#if defined(__x86_64__)
    const std::vector<std::string> modes = {"8040", "2000", "4000", "6000", "8000", "40"};  // FTZ, DAZ, roundings
#else
    const std::vector<std::string> modes = {"1000000", "400000", "800000", "c00000"};
#endif
    const std::string program = GRADUS_FLOATS, want = output_of("GRADUS_NUM_THREADS=1 " + program + " 0");
    EXPECT_EQ(want.size(), 17u) << want;
    for (const char* threads : {"1", "2", "5"})
        for (const std::string& mode : modes)
            for (const char* then : {"", " restore"})
                EXPECT_EQ(output_of(std::string("GRADUS_NUM_THREADS=") + threads + " " + program + " " + mode + then),
                          want)
                    << "mode " << mode << then << ", " << threads << " threads";
}

struct ThreadInfo {
    std::string name;
    uint64_t blocked = 0;  // signals
    uint64_t faults = 0;   // pages that it was the first to touch
};

std::vector<ThreadInfo> threads_of_process() {
    std::vector<ThreadInfo> threads;
    DIR* const folder = opendir("/proc/self/task");
    while (const dirent* entry = readdir(folder)) {
        if (entry->d_name[0] == '.') continue;
        std::ifstream status(std::string("/proc/self/task/") + entry->d_name + "/status");
        ThreadInfo thread;
        for (std::string word; status >> word;) {
            if (word == "Name:") status >> thread.name;
            if (word == "SigBlk:") status >> std::hex >> thread.blocked;
        }
        std::ifstream stat(std::string("/proc/self/task/") + entry->d_name + "/stat");
        std::string word;
        while (stat >> word && word.back() != ')') {  // its name, in brackets
        }
        for (int skipped = 0; skipped < 7; ++skipped) stat >> word;
        stat >> thread.faults;
        threads.push_back(thread);
    }
    closedir(folder);
    return threads;
}

class Process : public Runtime {};

TEST_F(Process, ThreadsTakeNoSignalsAndAreAsManyAsAskedFor) {
    constexpr size_t kBytes = 64 << 20;
    void* d = device_memory(kBytes);
    ASSERT_EQ(gradusSetOption("num_threads", "3"), 0);
    ASSERT_EQ(aclrtMemsetAsync(d, kBytes, 1, kBytes, stream), 0);
    ASSERT_EQ(aclrtSynchronizeStreamWithTimeout(stream, 60000), 0);  // does not help: the stream's thread starts
    int workers = 0, streams = 0;
    for (const ThreadInfo& thread : threads_of_process()) {
        workers += thread.name == "gradus-worker";
        streams += thread.name == "gradus-stream";
        if (thread.name.rfind("gradus-", 0) != 0) continue;
        // all but those that cannot be blocked, the two that the C library keeps for itself, and a thread's own faults
        uint64_t never = uint64_t{3} << 31, faults = 0;
        for (const int signal : {SIGKILL, SIGSTOP}) never |= uint64_t{1} << (signal - 1);
        for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS})
            faults |= uint64_t{1} << (signal - 1);
        EXPECT_EQ(thread.blocked | never, ~faults) << thread.name;
    }
    EXPECT_EQ(workers, 2);
    EXPECT_EQ(streams, 1);
    EXPECT_EQ(aclrtFree(d), 0);
}

// Workers do a part of the work: pages that nobody has touched yet are touched by them too.
TEST_F(Process, WorkersWork) {
    constexpr size_t kBytes = 64 << 20;
    ASSERT_EQ(gradusSetOption("num_threads", "2"), 0);
    const auto touched_by_workers = [] {
        uint64_t faults = 0;
        for (const ThreadInfo& thread : threads_of_process())
            faults += thread.name == "gradus-worker" ? thread.faults : 0;
        return faults;
    };
    uint64_t before = 0, after = 0;
    for (int tries = 0; tries < 200 && after < before + 4; ++tries) {
        void* d = device_memory(kBytes);
        if (tries == 1) before = touched_by_workers();  // they have started
        ASSERT_EQ(aclrtMemset(d, kBytes, 1, kBytes), 0);
        if (tries >= 1) after = touched_by_workers();
        ASSERT_EQ(aclrtFree(d), 0);
    }
    EXPECT_GE(after, before + 4);
}

TEST(ProcessExit, WithWorkInEveryState) {
    for (const char* mode :
         {"exit_queued", "exit_callback", "exit_event", "exit_from_callback", "exit_static", "exit_blocked"})
        EXPECT_EQ(run_helper(mode), 7) << mode;
}

// An operator that runs ends before the program's own memory goes.
TEST(ProcessExit, RunningWorkEndsFirst) { EXPECT_EQ(run_helper("exit_unmaps"), 7); }

// Errors are told, and messages read, when the main thread's own destructors have run.
TEST(ProcessExit, StaticObjectsMayFail) { EXPECT_EQ(run_helper("exit_late_failure"), 7); }

}  // namespace
}  // namespace gradus::testing
