// Exhaustion that has a story of its own.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "cases.h"
#include "inject.h"
#include "testing/call.h"

namespace gradus::faults {
namespace {

using testing::take_message;

// A thread's first message needs a place, and there is no memory for it.
TEST(Exhausted, FirstMessageOfAThread) {
    int codes[3] = {};
    char messages[3][512] = {};
    std::thread([&] {
        const auto keep = [&](size_t i, int code) {
            codes[i] = code;
            const char* const message = aclGetRecentErrMsg();
            if (message != nullptr) std::strncpy(messages[i], message, sizeof messages[i] - 1);
        };
        const Refusing refusing(Kind::memory, 1, true);
        keep(0, aclrtSynchronizeStream(messages));
        keep(1, aclrtMalloc(nullptr, 1, ACL_MEM_MALLOC_HUGE_FIRST));
        keep(2, operators().front().prepare({}, nullptr, nullptr, nullptr));
    }).join();
    EXPECT_EQ(codes[0], 107017);
    EXPECT_STREQ(messages[0], "aclrtSynchronizeStream: stream: not a live stream (destroyed before, or not a stream)");
    EXPECT_EQ(codes[1], 100000);
    EXPECT_STREQ(messages[1], "aclrtMalloc: devPtr: NULL");
    EXPECT_EQ(codes[2], 161001);
    EXPECT_STREQ(messages[2], "aclnnSwiGlu: x: NULL");
}

// More than half of the memory, so that a booking which stays behind is noticed by the next one.
TEST(Exhausted, NothingStaysBooked) {
    World w(World::everything);
    size_t free = 0, total = 0;
    ASSERT_EQ(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total), 0);
    const size_t most = total / 5 * 3;
    for (const Kind kind : {Kind::memory, Kind::mapping}) {
        bool more = true;
        for (int64_t nth = 1; more; ++nth) {
            SCOPED_TRACE(std::to_string(nth));
            for (int i = 0; i < 3; ++i) {
                void* memory = nullptr;
                const Refusing refusing(kind, nth, true);
                const int code = aclrtMalloc(&memory, most, ACL_MEM_MALLOC_HUGE_FIRST);
                more = refusing.requests() >= nth;
                EXPECT_EQ(code, more ? 207001 : 0);
                if (!more) EXPECT_EQ(aclrtFree(memory), 0);
            }
            void* memory = nullptr;
            EXPECT_EQ(aclrtMalloc(&memory, most, ACL_MEM_MALLOC_HUGE_FIRST), 0) << take_message();
            EXPECT_EQ(aclrtFree(memory), 0);
            ASSERT_FALSE(HasFailure());
        }
    }
}

// Large enough for the stream's thread and for workers, none of which can be had: the same bytes, more slowly.
TEST(Exhausted, NoThreads) {
    const World w(World::everything);
    const testing::Option threads("num_threads", "4");
    constexpr int64_t kX[] = {512, 4096}, kOut[] = {512, 2048};
    constexpr size_t kBytes = 4 * kOut[0] * kOut[1];
    void *x = nullptr, *out = nullptr;
    ASSERT_EQ(aclrtMalloc(&x, 2 * kBytes, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    ASSERT_EQ(aclrtMalloc(&out, kBytes, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    for (size_t i = 0; i < 2 * kBytes / sizeof(float); ++i)
        static_cast<float*>(x)[i] = static_cast<float>(i % 1000) * 0.01F - 5;
    Tensors t{aclCreateTensor(kX, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, kX, 2, x),
              aclCreateTensor(kOut, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, kOut, 2, out)};
    const auto run = [&] {
        uint64_t size = 0;
        aclOpExecutor* executor = nullptr;
        std::memset(out, 0xFF, kBytes);
        EXPECT_EQ(operators().front().prepare(t, nullptr, &size, &executor), 0) << take_message();
        EXPECT_EQ(operators().front().launch(w.workspace, size, executor, w.stream), 0) << take_message();
        EXPECT_EQ(aclrtSynchronizeStream(w.stream), 0) << take_message();
        return std::vector<std::byte>(static_cast<std::byte*>(out), static_cast<std::byte*>(out) + kBytes);
    };
    int64_t requests = 0;
    std::vector<std::byte> alone;
    {
        const Refusing refusing(Kind::thread, 1, true);
        alone = run();
        requests = refusing.requests();
    }
    EXPECT_GE(requests, 2) << "the stream's own, and a worker";
    EXPECT_EQ(alone, run());
    for (const aclTensor* tensor : t) EXPECT_EQ(aclDestroyTensor(tensor), 0);
    for (void* memory : {x, out}) EXPECT_EQ(aclrtFree(memory), 0);
}

// A count that was negative, or that no memory holds.
TEST(Exhausted, AbsurdCounts) {
    World w(World::everything);
    const int64_t value = 1;
    const float number = 1;
    const bool flag = true;
    const aclTensor* const tensor = w.tensor;
    const aclScalar* const scalar = w.scalar;
    for (const uint64_t count : {~uint64_t{0}, uint64_t{1} << 63, uint64_t{1} << 60}) {
        SCOPED_TRACE(count);
        const auto expect_none = [](const char* function, const void* made) {
            EXPECT_EQ(made, nullptr) << function;
            testing::expect_message(function, "");
        };
        take_message();
        expect_none("aclCreateIntArray", aclCreateIntArray(&value, count));
        expect_none("aclCreateFloatArray", aclCreateFloatArray(&number, count));
        expect_none("aclCreateTensorList", aclCreateTensorList(&tensor, count));
        expect_none("aclCreateScalarList", aclCreateScalarList(&scalar, count));
        expect_none("aclCreateBoolArray", aclCreateBoolArray(&flag, count));
        expect_none("aclCreateTensor",
                    aclCreateTensor(&value, count, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &value, 1, nullptr));
    }
}

// Each kind of object by the destructor of every other.
TEST(Exhausted, NotAliveAsAnotherKind) {
    World w(World::everything);
    using Destroy = aclnnStatus (*)(const void*);
    const struct {
        const char* name;
        const void* object;
        Destroy destroy;
    } kinds[] = {
        {"aclDestroyTensor", w.tensor,
         [](const void* p) { return aclDestroyTensor(static_cast<const aclTensor*>(p)); }},
        {"aclDestroyScalar", w.scalar,
         [](const void* p) { return aclDestroyScalar(static_cast<const aclScalar*>(p)); }},
        {"aclDestroyIntArray", w.ints,
         [](const void* p) { return aclDestroyIntArray(static_cast<const aclIntArray*>(p)); }},
        {"aclDestroyFloatArray", w.floats,
         [](const void* p) { return aclDestroyFloatArray(static_cast<const aclFloatArray*>(p)); }},
        {"aclDestroyBoolArray", w.bools,
         [](const void* p) { return aclDestroyBoolArray(static_cast<const aclBoolArray*>(p)); }},
        {"aclDestroyTensorList", w.tensors,
         [](const void* p) { return aclDestroyTensorList(static_cast<const aclTensorList*>(p)); }},
        {"aclDestroyScalarList", w.scalars,
         [](const void* p) { return aclDestroyScalarList(static_cast<const aclScalarList*>(p)); }},
    };
    take_message();
    for (const auto& destroyer : kinds)
        for (const auto& kind : kinds) {
            if (destroyer.object == kind.object) continue;
            EXPECT_EQ(destroyer.destroy(kind.object), 161001) << destroyer.name << " of what " << kind.name << " ends";
            testing::expect_message(destroyer.name, "not a live");
        }
    for (const auto& kind : kinds) {
        EXPECT_EQ(kind.destroy(kind.object), 0) << kind.name << ": still alive until now";
        EXPECT_EQ(kind.destroy(kind.object), 161001) << kind.name;
    }
}

}  // namespace
}  // namespace gradus::faults
