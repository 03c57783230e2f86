// Whatever a call asks for and does not get, it answers with a code: no exception, no leak, nothing half done, and the
// same call works when there is memory again.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "cases.h"
#include "inject.h"
#include "testing/runtime.h"

namespace gradus::faults {
namespace {

using testing::take_message;

constexpr int64_t kNever = INT64_MAX;

const Cases& all_cases() {
    static const Cases all = [] {
        Cases cases;
        add_runtime_cases(cases);
        add_aclnn_cases(cases);
        add_hccl_cases(cases);
        return cases;
    }();
    return all;
}

// The functions that the library exports, as the dynamic linker sees them.
std::set<std::string> exports() {
    Dl_info info;
    link_map* map = nullptr;
    const ElfW(Sym)* symbols = nullptr;
    const char* names = nullptr;
    const uint32_t* hash = nullptr;
    if (dladdr1(dlsym(RTLD_DEFAULT, "aclInit"), &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0) return {};
    for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
        void* const at = reinterpret_cast<void*>(entry->d_un.d_ptr);  // NOLINT(performance-no-int-to-ptr)
        if (entry->d_tag == DT_SYMTAB) symbols = static_cast<const ElfW(Sym)*>(at);
        if (entry->d_tag == DT_STRTAB) names = static_cast<const char*>(at);
        if (entry->d_tag == DT_GNU_HASH) hash = static_cast<const uint32_t*>(at);
    }
    if (symbols == nullptr || names == nullptr || hash == nullptr) return {};
    // header: buckets, first hashed symbol, 64-bit words of the filter, shift; a chain ends at an odd hash
    const uint32_t* const buckets = hash + 4 + 2 * hash[2];
    const uint32_t* const chains = buckets + hash[0];
    std::set<std::string> found;
    for (uint32_t b = 0; b < hash[0]; ++b) {
        if (buckets[b] == 0) continue;
        for (uint32_t i = buckets[b];; ++i) {
            if (ELF64_ST_TYPE(symbols[i].st_info) == STT_FUNC && symbols[i].st_shndx != SHN_UNDEF)
                found.insert(names + symbols[i].st_name);
            if ((chains[i - hash[1]] & 1) != 0) break;
        }
    }
    return found;
}

// What the documents give for exhausted memory.
int no_memory_code(const std::string& function) {
    if (function.rfind("Hccl", 0) == 0) return HCCL_E_MEMORY;
    if (function.rfind("aclrtMalloc", 0) == 0) return 207001;
    for (const char* of_runtime : {"aclrt", "aclInit", "aclFinalize", "aclGetRecent", "gradusSet", "gradusGet"})
        if (function.rfind(of_runtime, 0) == 0 && function != "aclInitTensor") return 200000;
    return function.find("DataBuffer") != std::string::npos ? 200000 : 361001;
}

// Both phases speak under the operator's name, and so does the call by name.
std::string speaker(const Case& c) {
    if (c.function == "gradusPrepare" || c.function == "gradusRun")
        return c.message == "expected one of" ? c.function : "aclnnSwiGlu";
    return c.function.substr(0, c.function.find("GetWorkspaceSize"));
}

void expect_message(const Case& c, const std::string& message, const std::string& part) {
    EXPECT_EQ(message.rfind(speaker(c) + ": ", 0), 0u) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message << "\nhas not: " << part;
}

// One try. False when the call has not come to its nth request.
bool attempt(const Case& c, Kind kind, int64_t nth, bool and_all_after) {
    World w(World::everything, c.op);
    if (c.prepare) c.prepare(w);
    take_message();
    aclrtGetLastError(ACL_RT_THREAD_LEVEL);
    say_where(c.function.c_str(), kWords[static_cast<int>(kind)], nth, and_all_after);
    int code;
    int64_t requests, thrown;
    const int64_t before = live_blocks();
    {
        const Refusing refusing(kind, nth, and_all_after);
        code = c.call(w);
        requests = refusing.requests(), thrown = refusing.thrown();
    }
    const bool leaks = code != 0 && !c.caches && !settles_at(before);
    const std::string message = take_message();
    const bool refused = requests >= nth;
    SCOPED_TRACE(c.function + ", " + kWords[static_cast<int>(kind)] + " request " + std::to_string(nth) +
                 (and_all_after ? " and all after" : "") + " refused; " + message);
    if (!c.may_allocate && kind == Kind::memory)
        EXPECT_EQ(requests, 0) << "arguments are refused without asking for memory";
    const bool exhausted = thrown > 0 || (kind == Kind::mapping && refused);
    // of a thread's own memory, nobody can tell: there is just no thread
    const bool threadless = kind == Kind::thread || (kind == Kind::memory && thrown == 0 && code == HCCL_E_RUNTIME);
    if (c.needs_thread && refused && threadless) {
        EXPECT_EQ(code, HCCL_E_RUNTIME);
    } else if (!exhausted) {
        EXPECT_EQ(code, c.expected);
        if (c.expected != 0) expect_message(c, message, c.message);
    } else {
        EXPECT_EQ(code, no_memory_code(c.function));
        expect_message(c, message, thrown > 0 ? "out of memory" : "do not fit into");
    }
    if (code != 0) {
        EXPECT_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), code);
        EXPECT_TRUE(w.out_untouched()) << "a call that failed has written a result";
        EXPECT_FALSE(leaks) << "blocks that nobody gives back";
    }
    if (exhausted && code != 0) {
        if (!c.stream_waits) EXPECT_STREQ(w.broken(), "");
        if (c.spends) c.prepare(w);
        EXPECT_EQ(c.call(w), c.expected) << "with memory again: " << take_message();
        if (c.stream_waits) EXPECT_STREQ(w.broken(), "");
    }
    EXPECT_STREQ(w.unusable(), "") << take_message();
    return refused;
}

// How many there were, at the end.
class Points : public ::testing::Environment {
    void TearDown() override {
        std::printf("points: %lld of memory, %lld of mappings, %lld of threads\n",
                    static_cast<long long>(points(Kind::memory)), static_cast<long long>(points(Kind::mapping)),
                    static_cast<long long>(points(Kind::thread)));
    }
};
[[maybe_unused]] const auto* const counted = ::testing::AddGlobalTestEnvironment(new Points);

int failures() { return ::testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count(); }

void attempt_all(const Case& c, Kind kind) {
    const int failed_before = failures();
    for (const bool and_all_after : {false, true})
        for (int64_t nth = 1;; ++nth) {
            const int64_t before = live_blocks();
            const bool more = attempt(c, kind, nth, and_all_after);
            if (failures() > failed_before) return;  // once is enough; and what it says is a block as well
            EXPECT_TRUE(c.stays || settles_at(before)) << c.function << ": " << live_blocks() - before
                                                       << " blocks are left when all is destroyed, request " << nth;
            if (!more) break;
            ASSERT_LT(nth, 200) << c.function;
        }
}

// In processes that have called no function before: what is made by the first call can fail, too. The first of the
// tests, because the parent must not have called any itself.
TEST(Faults, AtTheFirstCallOfAProcess) {
    report_where_at_the_end();
    for (const Case& c : all_cases()) {
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            int wrong = 0;
            for (int64_t nth = 1, requests = nth; requests >= nth && nth < 200; ++nth) {
                World w(World::nothing, c.op);
                say_where(c.function.c_str(), "memory", nth, nth == 1);
                const Refusing refusing(Kind::memory, nth, nth == 1);
                const int code = c.call(w);
                requests = refusing.requests();
                if (code == no_memory_code(c.function)) wrong += !w.out_untouched();
            }
            attempt(c, Kind::memory, kNever, false);
            _exit(wrong > 0 || ::testing::Test::HasFailure() ? 1 : 0);
        }
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0) << c.function << ": ended by " << (WIFSIGNALED(status) ? "signal " : "a failure ")
                             << (WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
}

TEST(Faults, EveryExportHasACase) {
    const std::set<std::string> exported = exports();
    EXPECT_GE(exported.size(), 100u);
    std::set<std::string> covered;
    for (const Case& c : all_cases()) {
        EXPECT_EQ(exported.count(c.function), 1u) << c.function << ": a case, and not exported";
        const bool never_works = c.function.rfind("aclSetDynamic", 0) == 0 || c.function == "HcclCommSuspend" ||
                                 c.function == "HcclCommResume" || c.function == "HcclSend" || c.function == "HcclRecv";
        if (c.expected == 0 || never_works) covered.insert(c.function);
    }
    for (const std::string& function : exported)
        EXPECT_EQ(covered.count(function), 1u) << function << ": exported, and no case here";
}

void attempt_every_case(Kind kind) {
    report_where_at_the_end();
    for (const Case& c : all_cases()) {
        attempt(c, kind, kNever, false);  // what stays for the next call is made now
        attempt_all(c, kind);
        if (failures() > 20) FAIL() << "the cases after " << c.function << " were not tried";
    }
}

TEST(Faults, Memory) { attempt_every_case(Kind::memory); }

TEST(Faults, Mappings) { attempt_every_case(Kind::mapping); }

TEST(Faults, Threads) { attempt_every_case(Kind::thread); }

}  // namespace
}  // namespace gradus::faults
