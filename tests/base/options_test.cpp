// Defaults that the machine decides: threads by the CPUs of this process, instruction sets by the CPU.
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/cgroup.h"
#include "testing/call.h"

namespace gradus::testing {
namespace {

// Run by the tests below, too, in a process of its own.
TEST(Defaults, Answers) {
    uint32_t devices = 0;
    EXPECT_EQ(aclrtGetDeviceCount(&devices), 0);
    std::printf("threads %s devices %u isa %s\n", gradusGetOption("num_threads"), devices, gradusGetOption("max_isa"));
}

std::string answers(const std::string& environment = "") {
    const std::string self = std::filesystem::read_symlink("/proc/self/exe");
    FILE* const pipe = popen((environment + " '" + self + "' --gtest_filter='*Answers' 2>&1").c_str(), "r");
    std::string output;
    char line[512];
    while (std::fgets(line, sizeof line, pipe) != nullptr) output += line;
    pclose(pipe);
    return output;
}

// The CPUs of a child are those of the thread that starts it.
TEST(Defaults, ThreadsAreTheCpusOfThisProcess) {
    cpu_set_t all, fewer;
    CPU_ZERO(&fewer);
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    const int quota = cgroup_limits("").cpus.value_or(CPU_SETSIZE);
    for (int cpu = 0, count = 0; cpu < CPU_SETSIZE && count < 3; ++cpu) {
        if (!CPU_ISSET(cpu, &all)) continue;
        CPU_SET(cpu, &fewer);
        ++count;
        ASSERT_EQ(sched_setaffinity(0, sizeof fewer, &fewer), 0);
        const std::string output = answers();
        EXPECT_NE(output.find("threads " + std::to_string(std::min(count, quota)) + " "), std::string::npos) << output;
    }
    ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
    EXPECT_NE(answers("GRADUS_NUM_THREADS=1024").find("threads 1024 "), std::string::npos);
    EXPECT_EQ(answers("GRADUS_NUM_THREADS=1025").find("threads 1025 "), std::string::npos);
}

TEST(Defaults, ThreadsThatMayBeSet) {
    const std::string before = gradusGetOption("num_threads");
    for (const char* good : {"1", "2", "1024"}) EXPECT_EQ(gradusSetOption("num_threads", good), 0) << good;
    for (const char* bad : {"0", "-1", "1025", "", " 1", "1 ", "99999999999"})
        EXPECT_EQ(gradusSetOption("num_threads", bad), 100000) << bad;
    EXPECT_STREQ(gradusGetOption("num_threads"), "1024");
    EXPECT_EQ(gradusSetOption("num_threads", before.c_str()), 0);
}

TEST(Defaults, Devices) {
    const struct {
        const char* environment;
        int devices;
    } rows[] = {{"", 8},
                {"GRADUS_DEVICES=1", 1},
                {"GRADUS_DEVICES=1024", 1024},
                {"GRADUS_DEVICES=1025", 8},
                {"ASCEND_RT_VISIBLE_DEVICES=", 8},
                {"ASCEND_RT_VISIBLE_DEVICES=7", 1},
                {"ASCEND_RT_VISIBLE_DEVICES=0,1,7", 3},
                {"ASCEND_RT_VISIBLE_DEVICES=0,8,1", 1},
                {"ASCEND_RT_VISIBLE_DEVICES=2,1,", 2},
                {"ASCEND_RT_VISIBLE_DEVICES=,1", 0},
                {"ASCEND_RT_VISIBLE_DEVICES=-1", 0},
                {"GRADUS_DEVICES=2 ASCEND_RT_VISIBLE_DEVICES=1,2", 1}};
    for (const auto& row : rows) {
        const std::string output = answers(row.environment);
        EXPECT_NE(output.find("devices " + std::to_string(row.devices) + " "), std::string::npos)
            << row.environment << ": " << output;
    }
}

#if defined(__x86_64__)

// As the kernel sees the CPU, which counts only what it saves and restores.
std::vector<std::string> expected_sets() {
    std::ifstream file("/proc/cpuinfo");
    std::string line;
    std::set<std::string> flags;
    while (flags.empty() && std::getline(file, line))
        if (line.rfind("flags", 0) == 0) {
            std::istringstream words(line.substr(line.find(':') + 1));
            for (std::string word; words >> word;) flags.insert(word);
        }
    const auto has = [&](std::initializer_list<const char*> all) {
        return std::all_of(all.begin(), all.end(), [&](const char* flag) { return flags.count(flag) > 0; });
    };
    std::vector<std::string> sets = {"scalar"};
    if (!has({"avx2", "fma", "f16c", "bmi2"})) return sets;
    sets.emplace_back("avx2");
    if (!has({"avx512f", "avx512dq", "avx512bw", "avx512vl"})) return sets;
    sets.emplace_back("avx512");
    if (has({"avx512_bf16"})) sets.emplace_back("avx512_bf16");
    constexpr long kRequestPermission = 0x1023, kTileData = 18;
    if (has({"amx_tile", "amx_bf16"}) && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0)
        sets.emplace_back("amx");
    return sets;
}

#elif defined(__aarch64__)

std::vector<std::string> expected_sets() { return {"scalar", "neon"}; }

#endif

#if defined(__x86_64__) || defined(__aarch64__)

TEST(InstructionSets, AreThoseOfTheCpu) {
    EXPECT_EQ(instruction_sets(), expected_sets());
    EXPECT_NE(answers().find("isa " + expected_sets().back() + "\n"), std::string::npos) << "the best of them";
    EXPECT_EQ(gradusSetOption("max_isa", "none"), 100000);
    std::string all;
    for (const std::string& isa : expected_sets()) all += " " + isa;
    EXPECT_NE(take_message().find("one of what this CPU has:" + all), std::string::npos);
}

#endif

// Operators take what the option allows them, and have vectors of at most 512 bits or a product of their own.
TEST(InstructionSets, AreUsed) {
    const auto path = [](const char* op, std::initializer_list<std::pair<const char*, const aclTensor*>> tensors,
                         int64_t words) {
        std::vector<gradusArg> args;
        for (const auto& [name, tensor] : tensors) args.push_back({name, GRADUS_TENSOR, {tensor}});
        if (words > 0)
            for (const char* name : {"vocabStartIndex", "vocabEndIndex"}) {
                args.push_back({name, GRADUS_INT, {}});
                args.back().value.i = args.size() % 2 == 0 ? words : 0;
            }
        uint64_t size = 0;
        aclOpExecutor* executor = nullptr;
        EXPECT_EQ(gradusPrepare(op, args.data(), args.size(), &size, &executor), 0) << take_message();
        const char* const chosen = gradusPath(executor);
        EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);
        return std::string(chosen != nullptr ? chosen : "NULL");
    };
    const Bare x(ACL_FLOAT, {2, 8}), out(ACL_FLOAT, {2, 4});
    const Bare input(ACL_BF16, {16, 64}), weight(ACL_BF16, {128, 64}), target(ACL_INT64, {16}), max(ACL_FLOAT, {16}),
        sum(ACL_FLOAT, {16}), predicted(ACL_FLOAT, {16}), mask(ACL_UINT8, {2}), masked(ACL_INT64, {16});
    for (const std::string& isa : instruction_sets()) {
        const Option cap("max_isa", isa);
        const bool wider = isa == "avx512_bf16" || isa == "amx";
        EXPECT_EQ(path("SwiGlu", {{"x", x.tensor}, {"out", out.tensor}}, 0), wider ? "avx512" : isa);
        const std::string product = path("FusedLinearOnlineMaxSum",
                                         {{"input", input.tensor},
                                          {"weight", weight.tensor},
                                          {"target", target.tensor},
                                          {"logitsMaxLocalOut", max.tensor},
                                          {"sumExpLogitsLocalOut", sum.tensor},
                                          {"predictedLogitsLocalOut", predicted.tensor},
                                          {"targetMaskOut", mask.tensor},
                                          {"maskedTargetOut", masked.tensor}},
                                         128);
        EXPECT_EQ(product.substr(0, product.find(',')), isa) << product;
    }
}

}  // namespace
}  // namespace gradus::testing
