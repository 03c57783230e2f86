// Several threads at once, for ThreadSanitizer above all: what they share is the process's bookkeeping.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "aclnn/aclnn_base.h"
#include "aclnnop/aclnn_swi_glu.h"
#include "testing/prepared.h"

namespace gradus::testing {
namespace {

// Every function in a thread of its own, all at the same time, each again and again.
void together(const std::vector<std::function<void()>>& functions, int times = 300) {
    std::atomic<size_t> waiting = functions.size();
    std::vector<std::thread> threads;
    for (const auto& function : functions)
        threads.emplace_back([&] {
            --waiting;
            while (waiting > 0) std::this_thread::yield();
            for (int i = 0; i < times; ++i) function();
        });
    for (std::thread& thread : threads) thread.join();
}

constexpr int64_t kDims[] = {2, 3}, kOther[] = {3, 2};

aclTensor* some_tensor() { return aclCreateTensor(kDims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, kDims, 2, nullptr); }

void expect_size(const aclTensor* tensor) {
    int64_t* dims = nullptr;
    uint64_t count = 0;
    EXPECT_EQ(aclGetViewShape(tensor, &dims, &count), 0);
    EXPECT_EQ(count, 2u);
    EXPECT_EQ(dims[0] * dims[1], 6);
    delete[] dims;
}

TEST(Threads, ObjectsComeAndGo) {
    const auto tensors = [] {
        aclTensor* tensor = some_tensor();
        expect_size(tensor);
        EXPECT_EQ(aclDestroyTensor(tensor), 0);
        EXPECT_EQ(aclDestroyTensor(tensor), 161001);
    };
    const auto arrays = [] {
        uint64_t size = 0;
        aclIntArray* array = aclCreateIntArray(kDims, 2);
        EXPECT_EQ(aclGetIntArraySize(array, &size), 0);
        EXPECT_EQ(size, 2u);
        EXPECT_EQ(aclDestroyIntArray(array), 0);
    };
    const auto lists = [] {
        aclTensor* tensor = some_tensor();
        EXPECT_EQ(aclDestroyTensorList(aclCreateTensorList(&tensor, 1)), 0);
    };
    const auto executors = [] {
        const Bare x(ACL_FLOAT, {4, 8}), y(ACL_FLOAT, {4, 4});
        uint64_t size = 0;
        aclOpExecutor* executor = nullptr;
        EXPECT_EQ(aclnnSwiGluGetWorkspaceSize(x.tensor, -1, y.tensor, &size, &executor), 0);
        EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);
    };
    together({tensors, tensors, arrays, arrays, lists, executors, executors});
}

TEST(Threads, OneTensorIsDescribedAnewWhileOthersLook) {
    aclTensor* tensor = some_tensor();
    const auto describe = [tensor](const int64_t* dims) {
        return [tensor, dims] {
            EXPECT_EQ(aclInitTensor(tensor, dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 2, nullptr), 0);
        };
    };
    const auto look = [tensor] { expect_size(tensor); };
    const auto move = [tensor] {
        void* address = nullptr;
        EXPECT_EQ(aclSetRawTensorAddr(tensor, &address), 0);
        EXPECT_EQ(aclGetRawTensorAddr(tensor, &address), 0);
    };
    together({describe(kDims), describe(kOther), look, look, move});
    EXPECT_EQ(aclDestroyTensor(tensor), 0);
}

TEST(Threads, OptionsAreSetWhileOthersReadThem) {
    const std::string before = gradusGetOption("soc_name");
    const auto set = [](const char* name) { return [name] { EXPECT_EQ(gradusSetOption("soc_name", name), 0); }; };
    const auto get = [] { EXPECT_EQ(std::string(gradusGetOption("soc_name")).substr(0, 9), "Ascend910"); };
    const auto prepare = [] {
        const Bare x(ACL_FLOAT, {2, 8}), out(ACL_FLOAT, {2, 4});
        gradusArg args[] = {named("x", GRADUS_TENSOR), named("out", GRADUS_TENSOR)};
        args[0].name = "x", args[0].value.tensor = x.tensor;
        args[1].name = "out", args[1].value.tensor = out.tensor;
        uint64_t size = 0;
        aclOpExecutor* executor = nullptr;
        EXPECT_EQ(gradusPrepare("SwiGlu", args, 2, &size, &executor), 0) << take_message();
        EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);
    };
    together({set("Ascend910B1"), set("Ascend910B2"), get, get, prepare});
    EXPECT_EQ(gradusSetOption("soc_name", before.c_str()), 0);
}

TEST(Threads, StreamsComeAndGoWhileOthersWaitForAll) {
    stream();
    const auto come_and_go = [] {
        aclrtStream own = nullptr;
        EXPECT_EQ(aclrtSetDevice(0), 0);
        EXPECT_EQ(aclrtCreateStream(&own), 0) << take_message();
        EXPECT_EQ(aclrtDestroyStream(own), 0);
    };
    const auto wait = [] {
        EXPECT_EQ(aclrtSetDevice(0), 0);
        EXPECT_EQ(aclrtSynchronizeDevice(), 0);
    };
    together({come_and_go, come_and_go, wait, wait}, 1000);
}

// Beside an observer that keeps freed addresses: without it, a stack of a new thread may lie there.
TEST(Threads, FreedMemoryIsRefusedWhileOthersFree) {
    if (std::getenv("GRADUS_SANITIZE") == nullptr) GTEST_SKIP() << "nobody keeps freed addresses";
    stream();
    constexpr int kTimes = 500;
    std::vector<void*> blocks[3];
    for (std::vector<void*>& some : blocks)
        for (int i = 0; i < kTimes; ++i)
            EXPECT_EQ(aclrtMalloc(&some.emplace_back(), 4096, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    void* const gone = blocks[2].front();
    EXPECT_EQ(aclrtFree(gone), 0);
    const auto free_of = [](std::vector<void*>& some) {
        return [&some] {
            EXPECT_EQ(aclrtSetDevice(0), 0);
            EXPECT_EQ(aclrtFree(some.back()), 0);
            some.pop_back();
        };
    };
    const auto read = [gone] {
        char byte = 0;
        EXPECT_EQ(aclrtSetDevice(0), 0);
        EXPECT_EQ(aclrtMemcpy(&byte, 1, gone, 1, ACL_MEMCPY_DEVICE_TO_HOST), 107000);
    };
    together({free_of(blocks[0]), free_of(blocks[1]), read, read}, kTimes);
    for (size_t i = 1; i < blocks[2].size(); ++i) EXPECT_EQ(aclrtFree(blocks[2][i]), 0);
}

// Two threads launch one executor while others move its input and its output.
TEST(Threads, AddressesAreSetWhileOthersLaunch) {
    Random random("launches");
    Call call("SwiGlu");
    call.in("x", random.normals(ACL_FLOAT, {2, 8})).out("out", ACL_FLOAT, {2, 4});
    const Call::Results want = Call(call).run();
    Prepared p(call), q(call);
    EXPECT_EQ(aclSetAclOpExecutorRepeatable(p.executor), 0);
    const auto set_input = [&] {
        for (const Prepared* to : {&q, &p})
            EXPECT_EQ(aclSetInputTensorAddr(p.executor, 0, p.placed[0]->handle, to->placed[0]->address()), 0);
    };
    const auto set_output = [&] {
        for (const Prepared* to : {&q, &p})
            EXPECT_EQ(aclSetTensorAddr(p.executor, 1, p.placed[1]->handle, to->placed[1]->address()), 0);
    };
    const auto launch = [&] {
        EXPECT_EQ(aclrtSetDevice(0), 0);
        EXPECT_EQ(gradusLaunch(nullptr, 0, p.executor, stream()), 0) << take_message();
    };
    // a setter is nearly all the time inside of locks that are no business of this test
    together({set_input, set_input, set_output, launch, launch}, 10000);
    EXPECT_EQ(aclrtSynchronizeStream(stream()), 0);
    for (const Prepared* one : {&q, &p})
        if (!one->placed[1]->untouched())
            EXPECT_EQ(first_difference(one->placed[1]->collect(call.op), want.at("out")), -1);
    EXPECT_EQ(aclDestroyAclOpExecutor(p.executor), 0);
    EXPECT_EQ(aclDestroyAclOpExecutor(q.executor), 0);
}

int64_t threads_of_this_process() {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
}

// Small work is over before a helper would be awake, so none is asked for.
TEST(Threads, SmallWorkIsDoneAlone) {
    stream();
    const int64_t before = threads_of_this_process();
    const Option more("num_threads", std::to_string(before + 3));
    Call call("FusedLinearCrossEntropyLossGrad");  // three loops of several blocks, however small
    call.in("grad", Array(ACL_FLOAT, {8})).in("input", Array(ACL_BF16, {8, 16}));
    call.in("weight", Array(ACL_BF16, {128, 16})).in("targetMask", Array(ACL_UINT8, {1}));
    call.in("maskedTarget", Array(ACL_INT32, {8})).in("logitsMaxOptional", Array(ACL_FLOAT, {8}));
    call.in("sumExpLogitsOptional", Array(ACL_FLOAT, {8}));
    call.out("inputGradOut", ACL_BF16, {8, 16}).out("weightGradOut", ACL_BF16, {128, 16}).run();
    EXPECT_LE(threads_of_this_process(), before + 1) << "the stream's own may be new";
}

}  // namespace
}  // namespace gradus::testing
