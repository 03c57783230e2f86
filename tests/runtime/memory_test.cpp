#include <algorithm>
#include <cstdint>
#include <fstream>
#include <thread>
#include <vector>

#include "testing/runtime.h"

namespace gradus::testing {
namespace {

constexpr size_t kPage = 4096, kMiB = size_t{1} << 20;

struct FootprintCase {
    size_t size;
    aclrtMemMallocPolicy policy;
    bool align32;
    size_t footprint;
};

class Footprint : public Runtime, public ::testing::WithParamInterface<FootprintCase> {};

TEST_P(Footprint, IsLegalAndZeroToTheLastByte) {
    const auto [size, policy, align32, footprint] = GetParam();
    void* p = nullptr;
    ASSERT_EQ((align32 ? aclrtMallocAlign32 : aclrtMalloc)(&p, size, policy), 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % (footprint % (2 * kMiB) == 0 ? 2 * kMiB : kPage), 0u);
    std::vector<char> host(footprint + 1, 1);
    EXPECT_EQ(aclrtMemcpy(host.data(), footprint, p, footprint, ACL_MEMCPY_DEVICE_TO_HOST), 0);
    host.pop_back();
    EXPECT_EQ(host, std::vector<char>(footprint, 0));
    EXPECT_EQ(aclrtMemset(p, footprint, 7, footprint), 0);
    EXPECT_EQ(static_cast<char*>(p)[footprint - 1], 7);
    host.push_back(0);
    EXPECT_EQ(aclrtMemcpy(host.data(), footprint + 1, p, footprint + 1, ACL_MEMCPY_DEVICE_TO_HOST), 107000);
    expect_message("aclrtMemcpy", "src: " + std::to_string(footprint + 1) + " bytes at offset 0");
    EXPECT_EQ(aclrtMemcpy(p, footprint + 1, host.data(), footprint + 1, ACL_MEMCPY_HOST_TO_DEVICE), 107000);
    expect_message("aclrtMemcpy", "expected at most " + std::to_string(footprint));
    EXPECT_EQ(aclrtMemset(p, footprint + 1, 0, footprint + 1), 107000);
    expect_message("aclrtMemset", "devPtr");
    EXPECT_EQ(aclrtMemcpy(static_cast<char*>(p) + footprint - 1, 2, host.data(), 2, ACL_MEMCPY_HOST_TO_DEVICE), 107000);
    EXPECT_EQ(aclrtFree(p), 0);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Footprint,
                         ::testing::Values(FootprintCase{1, ACL_MEM_MALLOC_HUGE_FIRST, false, kPage},
                                           FootprintCase{kPage - 32, ACL_MEM_MALLOC_NORMAL_ONLY, false, kPage},
                                           FootprintCase{kPage - 31, ACL_MEM_MALLOC_NORMAL_ONLY, false, 2 * kPage},
                                           FootprintCase{kPage, ACL_MEM_MALLOC_HUGE_FIRST, true, kPage},
                                           FootprintCase{kMiB - 32, ACL_MEM_MALLOC_HUGE_FIRST, false, kMiB},
                                           FootprintCase{kMiB - 31, ACL_MEM_MALLOC_HUGE_FIRST, false, 2 * kMiB},
                                           FootprintCase{kMiB, ACL_MEM_MALLOC_HUGE_FIRST, true, kMiB},
                                           FootprintCase{kMiB + 1, ACL_MEM_MALLOC_NORMAL_ONLY, true, 2 * kMiB},
                                           FootprintCase{2 * kMiB - 32, ACL_MEM_MALLOC_NORMAL_ONLY, false, 2 * kMiB},
                                           FootprintCase{2 * kMiB, ACL_MEM_MALLOC_HUGE_FIRST, false, 4 * kMiB},
                                           FootprintCase{2 * kMiB, ACL_MEM_MALLOC_HUGE_FIRST, true, 2 * kMiB},
                                           FootprintCase{1, ACL_MEM_MALLOC_HUGE_ONLY, false, 2 * kMiB},
                                           FootprintCase{1, ACL_MEM_MALLOC_HUGE_ONLY_P2P, false, 2 * kMiB},
                                           FootprintCase{1, ACL_MEM_MALLOC_HUGE1G_ONLY, false, 2 * kMiB},
                                           FootprintCase{1, ACL_MEM_MALLOC_HUGE1G_ONLY_P2P, false, 2 * kMiB}));

class Memory : public Runtime {};

TEST_F(Memory, RefusesNullAndZero) {
    void* p = nullptr;
    EXPECT_EQ(aclrtMalloc(nullptr, 32, ACL_MEM_MALLOC_HUGE_FIRST), 100000);
    expect_message("aclrtMalloc", "devPtr: NULL");
    EXPECT_EQ(aclrtMalloc(&p, 0, ACL_MEM_MALLOC_HUGE_FIRST), 100000);
    expect_message("aclrtMalloc", "size: 0");
    EXPECT_EQ(aclrtMallocHost(nullptr, 32), 100000);
    EXPECT_EQ(aclrtMallocHost(&p, 0), 100000);
    EXPECT_EQ(aclrtFree(nullptr), 100000);
    EXPECT_EQ(aclrtFreeHost(nullptr), 100000);
    EXPECT_EQ(p, nullptr);
}

// As the kernel counts it, where no cgroup has a smaller limit; others come and go meanwhile.
TEST_F(Memory, FreeIsWhatTheKernelSaysIsAvailable) {
    const auto kernel = [](const std::string& line) {
        std::ifstream file("/proc/meminfo");
        for (std::string word; file >> word;)
            if (word == line) return file >> word, std::stoull(word) << 10;
        return 0ull;
    };
    size_t free_size = 0, total = 0;
    const size_t before = kernel("MemAvailable:");
    EXPECT_EQ(aclrtGetMemInfo(ACL_HBM_MEM, nullptr, &total), 100000);
    EXPECT_EQ(aclrtGetMemInfo(ACL_HBM_MEM, &free_size, nullptr), 100000);
    ASSERT_EQ(aclrtGetMemInfo(ACL_HBM_MEM, &free_size, &total), 0);
    if (total != kernel("MemTotal:")) GTEST_SKIP() << "a cgroup has a limit";
    const size_t after = kernel("MemAvailable:"), slack = total / 16;
    EXPECT_GE(free_size + slack, std::min(before, after));
    EXPECT_LE(free_size, std::max(before, after) + slack);
}

TEST_F(Memory, ExhaustionIsAnError) {
    size_t free_size = 0, total = 0;
    ASSERT_EQ(aclrtGetMemInfo(ACL_HBM_MEM, &free_size, &total), 0);
    EXPECT_GT(free_size, 0u);
    EXPECT_LE(free_size, total);
    void* p = nullptr;
    for (size_t size : {SIZE_MAX, SIZE_MAX - 31, SIZE_MAX / 2, total + 1}) {
        EXPECT_EQ(aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST), 207001);
        expect_message("aclrtMalloc", std::to_string(size));
        EXPECT_EQ(aclrtMallocHost(&p, size), 207001);
    }
    EXPECT_EQ(p, nullptr);
    take_message();
    ASSERT_EQ(aclrtMalloc(&p, total / 10 * 6, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    void* second = nullptr;
    EXPECT_EQ(aclrtMalloc(&second, total / 10 * 6, ACL_MEM_MALLOC_HUGE_FIRST), 207001);
    EXPECT_EQ(aclrtFree(p), 0);
    EXPECT_EQ(aclrtMalloc(&second, total / 10 * 6, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    EXPECT_EQ(aclrtFree(second), 0);
}

TEST_F(Memory, FreeKnowsItsOwn) {
    void* device = device_memory(100);
    void* host = nullptr;
    ASSERT_EQ(aclrtMallocHost(&host, 100), 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(host) % 64, 0u);
    int local = 0;
    EXPECT_EQ(aclrtFree(&local), 107000);
    expect_message("aclrtFree", "not the start of a live allocation");
    EXPECT_EQ(aclrtFree(static_cast<char*>(device) + 32), 107000);
    EXPECT_EQ(aclrtFree(host), 107000);
    expect_message("aclrtFree", "aclrtFreeHost");
    EXPECT_EQ(aclrtFreeHost(device), 107000);
    expect_message("aclrtFreeHost", "aclrtFree");
    EXPECT_EQ(aclrtFree(device), 0);
    EXPECT_EQ(aclrtFree(device), 107000);
    EXPECT_EQ(aclrtFreeHost(host), 0);
    EXPECT_EQ(aclrtFreeHost(host), 107000);
}

TEST_F(Memory, NeedsAContextToAllocateAndNoneToFree) {
    void* p = device_memory(100);
    std::thread([&] {
        void* q = nullptr;
        size_t bytes = 0;
        char host[4] = {};
        EXPECT_EQ(aclrtMalloc(&q, 100, ACL_MEM_MALLOC_HUGE_FIRST), 107002);
        expect_message("aclrtMalloc", "no current context");
        EXPECT_EQ(aclrtMallocHost(&q, 100), 107002);
        EXPECT_EQ(aclrtMemcpy(host, 4, p, 4, ACL_MEMCPY_DEVICE_TO_HOST), 107002);
        EXPECT_EQ(aclrtMemset(p, 4, 0, 4), 107002);
        EXPECT_EQ(aclrtGetMemInfo(ACL_HBM_MEM, &bytes, &bytes), 107002);
        EXPECT_EQ(aclrtFree(p), 0);
    }).join();
}

TEST_F(Memory, FreedWhileQueuedWorkUsesIt) {
    constexpr size_t kBytes = 4 * kMiB;
    auto* from = static_cast<char*>(device_memory(kBytes));
    auto* to = static_cast<char*>(device_memory(kBytes));
    auto* result = static_cast<char*>(device_memory(kBytes));
    ASSERT_EQ(aclrtMemset(from, kBytes, 9, kBytes), 0);
    Gate gate;
    ASSERT_EQ(gate.hold(stream), 0);
    ASSERT_EQ(aclrtMemcpyAsync(to, kBytes, from, kBytes, ACL_MEMCPY_DEVICE_TO_DEVICE, stream), 0);
    ASSERT_EQ(aclrtMemcpyAsync(result, kBytes, to, kBytes, ACL_MEMCPY_DEVICE_TO_DEVICE, stream), 0);
    ASSERT_EQ(aclrtMemsetAsync(to, kBytes, 1, kBytes, stream), 0);
    EXPECT_EQ(aclrtFree(from), 0);
    EXPECT_EQ(aclrtFree(to), 0);
    EXPECT_EQ(aclrtFree(to), 107000);
    gate.open();
    EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
    EXPECT_EQ(result[0], 9);
    EXPECT_EQ(result[kBytes - 1], 9);
    EXPECT_EQ(aclrtFree(result), 0);
}

TEST_F(Memory, ThreadsAllocateAtOnce) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([] {
            ASSERT_EQ(aclrtSetDevice(0), 0);
            for (int i = 0; i < 200; ++i) {
                void* p = device_memory(5000);
                ASSERT_EQ(aclrtMemset(p, 5000, i, 5000), 0);
                ASSERT_EQ(aclrtFree(p), 0);
            }
            ASSERT_EQ(aclrtResetDevice(0), 0);
        });
    for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace gradus::testing
