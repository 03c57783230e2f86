// gradusRun: an operator by name on the caller's thread; options of a thread; loops on a host's threads. The process
// has no device all the while.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"
#include "gradus/gradus.h"
#include "testing/float_mode.h"
#include "testing/runtime.h"

namespace gradus::testing {
namespace {

constexpr int64_t kRows = 512, kHalf = 384;  // 2.3 MiB: far more than what runs on one thread

// SwiGLU over memory of the test's own.
struct SwiGlu {
    explicit SwiGlu(int64_t rows = kRows) : x(static_cast<size_t>(rows * 2 * kHalf)), y(x.size() / 2, -1.0F) {
        for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i)) * 4;
        const int64_t whole[] = {rows, 2 * kHalf}, half[] = {rows, kHalf};
        in = aclCreateTensor(whole, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, whole, 2, x.data());
        out = aclCreateTensor(half, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, half, 2, y.data());
    }
    ~SwiGlu() { aclDestroyTensor(in), aclDestroyTensor(out); }
    SwiGlu(const SwiGlu&) = delete;
    SwiGlu& operator=(const SwiGlu&) = delete;

    int run() const { return run(in, out); }
    static int run(const aclTensor* from, const aclTensor* to) {
        gradusArg args[2] = {};
        args[0].name = "x", args[0].value.tensor = from;
        args[1].name = "out", args[1].value.tensor = to;
        return gradusRun("SwiGlu", args, 2);
    }
    // Elements that are not what the formula gives.
    int64_t wrong() const {
        int64_t count = 0;
        for (size_t i = 0; i < y.size(); ++i) {
            const size_t row = i / kHalf, column = i % kHalf;
            const double a = x[row * 2 * kHalf + column], b = x[row * 2 * kHalf + kHalf + column];
            const double wanted = a / (1 + std::exp(-a)) * b;
            count += std::fabs(y[i] - wanted) <= 4 * std::ldexp(1.0, -23) * std::fabs(wanted) ? 0 : 1;
        }
        return count;
    }

    std::vector<float> x, y;
    aclTensor *in, *out;
};

void expect_refused(int got, int code, const char* part) {
    EXPECT_EQ(got, code);
    const std::string message = take_message();
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

struct ThreadOption {
    ThreadOption(const char* option, const char* value) : name(option) {
        EXPECT_EQ(gradusSetThreadOption(name, value), 0);
    }
    ~ThreadOption() { EXPECT_EQ(gradusSetThreadOption(name, nullptr), 0); }
    ThreadOption(const ThreadOption&) = delete;
    ThreadOption& operator=(const ThreadOption&) = delete;
    const char* name;
};

TEST(Run, ResultIsThereWithoutADevice) {
    const SwiGlu call;
    int32_t device = -1;
    EXPECT_NE(aclrtGetDevice(&device), 0) << "this thread has none";
    ASSERT_EQ(call.run(), 0) << take_message();
    EXPECT_EQ(call.wrong(), 0);
    EXPECT_NE(aclrtGetDevice(&device), 0) << "and got none";
}

// The scratch memory is kept from call to call, and no two calls at once may have it. All logits of a call are equal:
// the largest is value·hidden, and their sum counts the words.
TEST(Run, CallsSideBySideHaveScratchOfTheirOwn) {
    constexpr int64_t kTokens = 64, kHidden = 1024, kWords = 1024;
    const auto statistics = [](float value) {
        uint16_t bits = 0;  // bf16
        std::memcpy(&bits, reinterpret_cast<const char*>(&value) + 2, sizeof bits);
        std::vector<uint16_t> x(kTokens * kHidden, bits), weight(kWords * kHidden, 0x3F80);
        std::vector<int32_t> target(kTokens, 3), masked_target(kTokens);
        std::vector<float> max(kTokens), sum(kTokens), predicted(kTokens);
        std::vector<uint8_t> mask(kTokens / 8);
        const auto tensor = [](std::initializer_list<int64_t> size, aclDataType type, void* data) {
            return aclCreateTensor(size.begin(), size.size(), type, nullptr, 0, ACL_FORMAT_ND, size.begin(),
                                   size.size(), data);
        };
        gradusArg args[10] = {};
        const auto name = [&](size_t i, const char* argument, aclTensor* t) {
            args[i].name = argument, args[i].value.tensor = t;
        };
        name(0, "input", tensor({kTokens, kHidden}, ACL_BF16, x.data()));
        name(1, "weight", tensor({kWords, kHidden}, ACL_BF16, weight.data()));
        name(2, "target", tensor({kTokens}, ACL_INT32, target.data()));
        name(3, "logitsMaxLocalOut", tensor({kTokens}, ACL_FLOAT, max.data()));
        name(4, "sumExpLogitsLocalOut", tensor({kTokens}, ACL_FLOAT, sum.data()));
        name(5, "predictedLogitsLocalOut", tensor({kTokens}, ACL_FLOAT, predicted.data()));
        name(6, "targetMaskOut", tensor({kTokens / 8}, ACL_UINT8, mask.data()));
        name(7, "maskedTargetOut", tensor({kTokens}, ACL_INT32, masked_target.data()));
        args[8].name = "vocabStartIndex", args[8].kind = GRADUS_INT, args[8].value.i = 0;
        args[9].name = "vocabEndIndex", args[9].kind = GRADUS_INT, args[9].value.i = kWords;
        bool right = true;
        for (int round = 0; round < 30; ++round) {
            std::fill(max.begin(), max.end(), 0.0F), std::fill(sum.begin(), sum.end(), 0.0F);
            right &= gradusRun("FusedLinearOnlineMaxSum", args, 10) == 0;
            right &= std::all_of(max.begin(), max.end(), [=](float m) { return m == value * kHidden; });
            right &= std::all_of(sum.begin(), sum.end(), [](float n) { return n == kWords; });
        }
        for (size_t i = 0; i < 8; ++i) aclDestroyTensor(args[i].value.tensor);
        return right;
    };
    std::atomic<int> right{0};
    {
        std::vector<std::jthread> threads;
        for (const float value : {1.0F, 2.0F, 4.0F, 8.0F})
            threads.emplace_back([&, value] { right += statistics(value) ? 1 : 0; });
    }
    EXPECT_EQ(right, 4);
}

TEST(Run, ManyThreadsAtOnce) {
    std::vector<std::thread> threads;
    std::atomic<int64_t> wrong = 0;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&wrong] {
            const SwiGlu call;
            for (int i = 0; i < 20; ++i) wrong += call.run() == 0 ? call.wrong() : 1;
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
}

TEST(Run, Refusals) {
    const SwiGlu call;
    expect_refused(gradusRun("SwiGlo", nullptr, 0), 161002, "SwiGlo, expected one of");
    expect_refused(gradusRun("SwiGlu", nullptr, 2), 161001, "args: NULL with count 2");
    expect_refused(gradusRun("SwiGlu", nullptr, 0), 161001, "aclnnSwiGlu: x: NULL");
    expect_refused(SwiGlu::run(call.out, call.in), 161002, "out: shape");
    const int64_t half[] = {kRows, kHalf};
    aclTensor* const over =
        aclCreateTensor(half, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, half, 2, const_cast<float*>(&call.x[7]));
    expect_refused(SwiGlu::run(call.in, over), 161002, "out: overlaps x");
    aclDestroyTensor(over);
    aclTensor* const nowhere = aclCreateTensor(half, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, half, 2, nullptr);
    expect_refused(SwiGlu::run(call.in, nowhere), 161001, "out: address NULL");
    aclDestroyTensor(nowhere);
}

// What nobody has set is off here; what somebody has set holds here too, if it is the default's own word.
TEST(Run, LimitsAndMemoryAreOffUnlessAskedFor) {
    const SwiGlu call, empty(0);
    EXPECT_STREQ(gradusGetOption("limits"), "on");
    EXPECT_STREQ(gradusGetOption("memory"), "device");
    EXPECT_EQ(empty.run(), 0) << take_message();
    {
        const ThreadOption limits("limits", "on");
        expect_refused(empty.run(), 161002, "empty shape");
    }
    {
        const ThreadOption memory("memory", "device");
        expect_refused(call.run(), 161002, "outside every device allocation");
    }
    EXPECT_EQ(call.run(), 0) << take_message();
}

TEST(ThreadOptions, BeatTheProcessOnOneThread) {
    ASSERT_EQ(gradusSetOption("soc_name", "Ascend910B2"), 0);
    {
        const ThreadOption mine("soc_name", "Ascend910B4");
        EXPECT_STREQ(gradusGetOption("soc_name"), "Ascend910B4");
        EXPECT_STREQ(aclrtGetSocName(), "Ascend910B4");
        std::thread([] { EXPECT_STREQ(gradusGetOption("soc_name"), "Ascend910B2"); }).join();
        ASSERT_EQ(gradusSetOption("soc_name", "Ascend910B3"), 0);
        EXPECT_STREQ(gradusGetOption("soc_name"), "Ascend910B4");
    }
    EXPECT_STREQ(gradusGetOption("soc_name"), "Ascend910B3");
    ASSERT_EQ(gradusSetOption("soc_name", "Ascend910B1"), 0);
}

TEST(ThreadOptions, Refusals) {
    const ThreadOption threads("num_threads", "3");
    expect_refused(gradusSetThreadOption("num_threads", "0"), 100000, "a number from 1 to");
    EXPECT_STREQ(gradusGetOption("num_threads"), "3") << "as it was";
    expect_refused(gradusSetThreadOption("colour", "red"), 100000, "unknown option 'colour', expected one of");
    expect_refused(gradusSetThreadOption("colour", nullptr), 100000, "unknown option");
    expect_refused(gradusSetThreadOption(nullptr, "on"), 100000, "name: NULL");
}

TEST(ThreadOptions, GoldenOfOneThread) {
    const ThreadOption golden("precision", "golden");
    const SwiGlu call;
    ASSERT_EQ(call.run(), 0);
    for (size_t i = 0; i < kHalf; ++i) {
        const double a = call.x[i], b = call.x[kHalf + i];
        ASSERT_EQ(call.y[i],
                  static_cast<float>(a * (a < 0 ? std::exp(a) / (1 + std::exp(a)) : 1 / (1 + std::exp(-a))) * b));
    }
}

// A host's loop that counts: on so many threads of its own, last one first.
struct Host {
    int calls = 0;
    std::atomic<int64_t> bodies = 0;
    bool threads = true;

    static void loop(void* self, int64_t count, void (*body)(void*, int64_t), void* data) {
        Host& host = *static_cast<Host*>(self);
        ++host.calls;
        std::vector<std::thread> team;
        for (int64_t i = count; i-- > 0;) {
            const auto work = [&host, body, data, i] {
                const uint64_t mode = float_mode();
                set_float_mode(mode | kFlushToZero);  // a host that flushes subnormals
                body(data, i);
                ++host.bodies;
                EXPECT_EQ(float_mode(), mode | kFlushToZero) << "as it was";
                set_float_mode(mode);
            };
            if (host.threads)
                team.emplace_back(work);
            else
                work();
        }
        for (std::thread& thread : team) thread.join();
    }
};

class Lent : public ::testing::Test {
  protected:
    Lent() { EXPECT_EQ(gradusSetLoop(Host::loop, &host), 0); }
    ~Lent() override { EXPECT_EQ(gradusSetLoop(nullptr, nullptr), 0); }
    Host host;
    ThreadOption threads{"num_threads", "3"};
};

TEST_F(Lent, RunsOnTheHostsThreads) {
    SwiGlu call;
    std::fill_n(call.x.begin(), kHalf, 1.0F);
    std::fill_n(call.x.begin() + kHalf, kHalf, 1e-38F);  // silu(1)·1e-38 is subnormal
    for (const bool at_once : {true, false}) {
        host.threads = at_once, host.calls = 0, host.bodies = 0;
        std::fill(call.y.begin(), call.y.end(), -1.0F);
        ASSERT_EQ(call.run(), 0) << take_message();
        EXPECT_EQ(host.calls, 1);
        EXPECT_EQ(host.bodies, 3);
        EXPECT_GT(call.y[0], 0) << "not flushed";
        EXPECT_LT(call.y[0], 1e-38F);
        std::fill_n(call.x.begin() + kHalf, kHalf, 1.0F);
        ASSERT_EQ(call.run(), 0);
        EXPECT_EQ(call.wrong(), 0);
        std::fill_n(call.x.begin() + kHalf, kHalf, 1e-38F);
    }
}

TEST_F(Lent, StreamsKeepTheirOwn) {
    ASSERT_EQ(aclrtSetDevice(0), 0);
    void *from = nullptr, *to = nullptr;
    constexpr size_t kBytes = 8 << 20;  // a copy that the workers share
    ASSERT_EQ(aclrtMalloc(&from, kBytes, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    ASSERT_EQ(aclrtMalloc(&to, kBytes, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    EXPECT_EQ(aclrtMemset(from, kBytes, 5, kBytes), 0);
    EXPECT_EQ(aclrtMemcpy(to, kBytes, from, kBytes, ACL_MEMCPY_DEVICE_TO_DEVICE), 0);
    EXPECT_EQ(host.calls, 0);
    aclrtFree(from), aclrtFree(to);
    EXPECT_EQ(aclrtResetDevice(0), 0);
}

TEST_F(Lent, AndTakenBackWhileOthersRun) {
    std::atomic<bool> ended = false;
    std::atomic<int64_t> wrong = 0;
    std::thread runs([&] {
        const SwiGlu call;
        for (int i = 0; i < 20; ++i) wrong += call.run() == 0 ? call.wrong() : 1;
        ended = true;
    });
    while (!ended) {
        EXPECT_EQ(gradusSetLoop(nullptr, nullptr), 0);
        EXPECT_EQ(gradusSetLoop(Host::loop, &host), 0);
    }
    runs.join();
    EXPECT_EQ(wrong, 0);
}

TEST_F(Lent, TheChildOfAForkHasNoHost) {
    const pid_t child = fork();
    if (child == 0) {
        const SwiGlu call;
        _exit(call.run() == 0 && call.wrong() == 0 && host.calls == 0 ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace gradus::testing
