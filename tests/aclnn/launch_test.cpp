// Phase two and the setters of an executor, on an operator with several inputs and outputs of one shape, and optional
// ones among both.
#include <gtest/gtest.h>

#include <ctime>

#include "aclnn/aclnn_base.h"
#include "aclnnop/aclnn_fused_linear_cross_entropy_loss_grad.h"
#include "aclnnop/aclnn_swi_glu.h"
#include "testing/prepared.h"

namespace gradus::testing {
namespace {

constexpr int64_t kTokens = 9, kWords = 5;

Call loss(Random& random, bool with_softmax = true) {
    const auto positive = [&] { return random.uniform(1, 50); };
    Call call("FusedCrossEntropyLossWithMaxSum");
    call.in("logitsMax", random.normals(ACL_FLOAT, {kTokens}))
        .in("sumExpLogits", random.filled(ACL_FLOAT, {kTokens}, positive))
        .in("predictedLogits", random.normals(ACL_FLOAT, {kTokens}))
        .in("inputOptional", Array(ACL_FLOAT, {1}))
        .in("weightOptional", Array(ACL_FLOAT, {1}))
        .in("vocabParallelLogitsOptional", random.normals(ACL_FLOAT, {kTokens, kWords}))
        .out("lossOut", ACL_FLOAT, {kTokens})
        .out("softMaxOutOptional", ACL_FLOAT, {kTokens, kWords});
    call.tensor("inputOptional").null = call.tensor("weightOptional").null = true;
    if (!with_softmax) call.tensor("vocabParallelLogitsOptional").null = call.tensor("softMaxOutOptional").null = true;
    return call;
}

void expect_outputs(const Prepared& p, const Call& call, const Call::Results& want) {
    EXPECT_EQ(aclrtSynchronizeStream(stream()), 0);
    for (size_t i = 0; i < call.tensors.size(); ++i)
        if (p.placed[i] && call.tensors[i].output)
            EXPECT_EQ(first_difference(p.placed[i]->collect(call.op), want.at(call.tensors[i].name)), -1)
                << call.tensors[i].name;
}

using Setter = aclnnStatus (*)(aclOpExecutor*, size_t, aclTensor*, void*);

// The index counts inputs, outputs, or inputs and then outputs; optional ones that were left out count.
TEST(Setters, Order) {
    Random random("order");
    const struct {
        Setter inputs, outputs;
        size_t first_output;
    } ways[] = {{aclSetInputTensorAddr, aclSetOutputTensorAddr, 0}, {aclSetTensorAddr, aclSetTensorAddr, 6}};
    for (const auto& way : ways) {
        Call planned = loss(random), other = loss(random);
        const Call::Results want = other.run();
        Prepared p(planned), q(other);
        ASSERT_EQ(aclSetAclOpExecutorRepeatable(p.executor), 0);
        for (size_t i = 0; i < planned.tensors.size(); ++i) {
            const Setter set = i < 6 ? way.inputs : way.outputs;
            const size_t index = i < 6 ? i : i - 6 + way.first_output;
            if (p.placed[i]) {
                EXPECT_EQ(set(p.executor, index, p.placed[i]->handle, q.placed[i]->address()), 0) << take_message();
            } else {
                EXPECT_EQ(set(p.executor, index, p.placed[0]->handle, q.placed[0]->address()), 161002);
                EXPECT_NE(take_message().find("index: " + std::to_string(index) + " is an optional tensor"),
                          std::string::npos);
            }
        }
        EXPECT_EQ(way.inputs(p.executor, way.first_output == 0 ? 6 : 8, p.placed[0]->handle, nullptr), 161002);
        EXPECT_NE(take_message().find("out of range"), std::string::npos);
        EXPECT_EQ(way.outputs(p.executor, way.first_output + 2, p.placed[0]->handle, nullptr), 161002);
        EXPECT_NE(take_message().find("out of range"), std::string::npos);
        EXPECT_EQ(gradusLaunch(nullptr, 0, p.executor, stream()), 0) << take_message();
        expect_outputs(q, other, want);
        EXPECT_EQ(aclDestroyAclOpExecutor(p.executor), 0);
        EXPECT_EQ(aclDestroyAclOpExecutor(q.executor), 0);
    }
}

TEST(Setters, RefuseAnotherViewThanWasPlanned) {
    Random random("other views");
    Call call = loss(random);
    const Call::Results want = Call(call).run();
    Prepared p(call);
    ASSERT_EQ(aclSetAclOpExecutorRepeatable(p.executor), 0);
    const int64_t size = kTokens, fewer = kTokens - 1, storage = 64, one = 1, two = 2;
    const int64_t more_dims[] = {kTokens, 1};
    const auto make = [&](const int64_t* dims, uint64_t rank, aclDataType type, const int64_t* stride, int64_t offset) {
        return aclCreateTensor(dims, rank, type, stride, offset, ACL_FORMAT_ND, &storage, 1, p.placed[0]->address());
    };
    aclTensor* const others[] = {make(&fewer, 1, ACL_FLOAT, &one, 0), make(&size, 1, ACL_FLOAT, &two, 0),
                                 make(&size, 1, ACL_FLOAT, &one, 1), make(&size, 1, ACL_INT32, &one, 0),
                                 make(more_dims, 2, ACL_FLOAT, nullptr, 0)};
    aclTensor* const same = make(&size, 1, ACL_FLOAT, &one, 0);
    for (aclTensor* other : others)
        for (const auto& [set, index] : {std::pair<Setter, size_t>{aclSetInputTensorAddr, 1},
                                         {aclSetOutputTensorAddr, 0},
                                         {aclSetTensorAddr, 2}}) {
            EXPECT_EQ(set(p.executor, index, other, p.placed[0]->address()), 161002);
            EXPECT_NE(take_message().find("tensor: another view than the one "), std::string::npos);
        }
    for (aclTensor* other : others) EXPECT_EQ(aclDestroyTensor(other), 0);
    EXPECT_EQ(aclSetInputTensorAddr(p.executor, 1, others[0], nullptr), 161001) << "not alive";
    EXPECT_NE(take_message().find("tensor: not a live aclTensor"), std::string::npos);
    EXPECT_EQ(aclSetInputTensorAddr(p.executor, 1, nullptr, nullptr), 161001);
    EXPECT_NE(take_message().find("tensor: NULL"), std::string::npos);
    EXPECT_EQ(gradusLaunch(nullptr, 0, p.executor, stream()), 0) << "refusals change nothing: " << take_message();
    expect_outputs(p, call, want);
    EXPECT_EQ(aclSetInputTensorAddr(p.executor, 1, same, nullptr), 0) << "any tensor of this view";
    EXPECT_EQ(gradusLaunch(nullptr, 0, p.executor, stream()), 161001);
    EXPECT_NE(take_message().find("sumExpLogits: address NULL"), std::string::npos);
    EXPECT_EQ(aclDestroyTensor(same), 0);
    EXPECT_EQ(aclDestroyAclOpExecutor(p.executor), 0);
}

TEST(Setters, NoListsAndNoDeadExecutors) {
    Random random("lists");
    Call call = loss(random);
    Prepared p(call);
    EXPECT_EQ(aclSetDynamicInputTensorAddr(p.executor, 0, 0, nullptr, nullptr), 161002);
    EXPECT_NE(take_message().find("irIndex: 0 is not a list"), std::string::npos);
    EXPECT_EQ(aclSetDynamicOutputTensorAddr(p.executor, 7, 0, nullptr, nullptr), 161002);
    EXPECT_EQ(aclDestroyAclOpExecutor(p.executor), 0);
    take_message();
    for (aclOpExecutor* executor : {static_cast<aclOpExecutor*>(nullptr), p.executor}) {
        const char* const words = executor == nullptr ? "executor: NULL" : "executor: not alive";
        EXPECT_EQ(aclSetDynamicInputTensorAddr(executor, 0, 0, nullptr, nullptr), 561103);
        EXPECT_NE(take_message().find(words), std::string::npos);
        EXPECT_EQ(aclSetTensorAddr(executor, 0, p.placed[0]->handle, nullptr), 561103);
        EXPECT_NE(take_message().find(words), std::string::npos);
        EXPECT_EQ(aclSetAclOpExecutorRepeatable(executor), 561103);
        EXPECT_NE(take_message().find(words), std::string::npos);
        EXPECT_EQ(gradusLaunch(nullptr, 0, executor, stream()), 161001);
        EXPECT_NE(take_message().find(words), std::string::npos);
    }
}

// An optional argument that the others ask for is named, whichever of the two it is.
TEST(PhaseOne, NamesTheMissingOptional) {
    Random random("missing");
    for (const char* name : {"vocabParallelLogitsOptional", "softMaxOutOptional"}) {
        Call call = loss(random);
        call.tensor(name).null = true;
        const Call::Answer answer = call.ask();
        EXPECT_EQ(answer.code, 161001);
        EXPECT_NE(answer.message.find(std::string(name) + ": NULL, expected with the other arguments"),
                  std::string::npos)
            << answer.message;
    }
    EXPECT_EQ(loss(random, false).ask().code, 0) << "both left out";
}

// A view of stride 0 may be longer than any memory, and what an operator keeps for it longer still.
TEST(PhaseOne, RefusesAWorkspaceThatCannotBe) {
    const Option off("limits", "off"), golden("precision", "golden");
    const int64_t hidden = int64_t{1} << 61, storage = 1, matrix[] = {1, hidden}, still[] = {0, 0};
    const auto wide = [&](const int64_t* stride) {
        const int64_t all = stride == nullptr ? hidden : storage;
        return aclCreateTensor(matrix, 2, ACL_BF16, stride, 0, ACL_FORMAT_ND, &all, 1, nullptr);
    };
    const Bare grad(ACL_FLOAT, {1}), mask(ACL_UINT8, {1}), target(ACL_INT64, {1}), max(ACL_FLOAT, {1}),
        sum(ACL_FLOAT, {1});
    aclTensor* const own[] = {wide(still), wide(still), wide(nullptr), wide(nullptr)};
    uint64_t size = 7;
    aclOpExecutor* executor = nullptr;
    take_message();
    EXPECT_EQ(aclnnFusedLinearCrossEntropyLossGradGetWorkspaceSize(grad.tensor, own[0], own[1], mask.tensor,
                                                                   target.tensor, 0, max.tensor, sum.tensor, nullptr,
                                                                   own[2], own[3], &size, &executor),
              361001);
    EXPECT_NE(take_message().find("the workspace would exceed 2^63 bytes"), std::string::npos);
    EXPECT_EQ(size, 7u);
    EXPECT_EQ(executor, nullptr);
    for (aclTensor* tensor : own) EXPECT_EQ(aclDestroyTensor(tensor), 0);
}

// No input of this operator may be its output: not even exactly.
TEST(PhaseTwo, RefusesToWorkInPlaceWhereThatIsNotAllowed) {
    Random random("in place");
    for (size_t i = 0; i < 3; ++i) {
        Call call = loss(random);
        Prepared p(call);
        EXPECT_EQ(aclSetRawTensorAddr(p.placed[6]->handle, p.placed[i]->address()), 0);
        EXPECT_EQ(gradusLaunch(nullptr, 0, p.executor, stream()), 161002);
        EXPECT_NE(take_message().find("lossOut: overlaps " + call.tensors[i].name), std::string::npos);
    }
    Call call = loss(random);  // and two outputs share nothing either
    Prepared p(call);
    EXPECT_EQ(aclSetRawTensorAddr(p.placed[7]->handle, p.placed[6]->address() - 4), 0);
    EXPECT_EQ(gradusLaunch(nullptr, 0, p.executor, stream()), 161002);
    EXPECT_NE(take_message().find("lossOut: overlaps softMaxOutOptional"), std::string::npos);
}

TEST(PhaseTwo, WantsTheOperatorThatWasPrepared) {
    Random random("other operator");
    Call call = loss(random);
    Prepared p(call);
    EXPECT_EQ(aclnnSwiGlu(nullptr, 0, p.executor, stream()), 161002);
    EXPECT_NE(take_message().find("executor: prepared by aclnnFusedCrossEntropyLossWithMaxSumGetWorkspaceSize"),
              std::string::npos);
}

TEST(PhaseTwo, StreamsOfOtherContexts) {
    Random random("contexts");
    stream();
    aclrtContext here = nullptr, there = nullptr;
    aclrtStream other = nullptr;
    ASSERT_EQ(aclrtGetCurrentContext(&here), 0);
    ASSERT_EQ(aclrtCreateContext(&there, 0), 0);
    ASSERT_EQ(aclrtCreateStream(&other), 0);
    ASSERT_EQ(aclrtSetCurrentContext(here), 0);
    Call call = loss(random);
    {
        const Prepared p(call);
        EXPECT_EQ(gradusLaunch(nullptr, 0, p.executor, other), 361001);
        EXPECT_NE(take_message().find("stream: "), std::string::npos);
    }
    const Option off("limits", "off");
    const Prepared p(call);
    EXPECT_EQ(gradusLaunch(nullptr, 0, p.executor, other), 0) << take_message();
    EXPECT_EQ(aclrtSetCurrentContext(there), 0);
    EXPECT_EQ(aclrtSynchronizeStream(other), 0);
    EXPECT_EQ(aclrtDestroyStream(other), 0);
    EXPECT_EQ(aclrtSetCurrentContext(here), 0);
    EXPECT_EQ(aclrtDestroyContext(there), 0);
}

Call swi_glu(Random& random, int64_t rows, int64_t columns) {
    Call call("SwiGlu");
    call.in("x", random.normals(ACL_FLOAT, {rows, 2 * columns})).out("out", ACL_FLOAT, {rows, columns});
    return call;
}

// A launch that has to wait returns: nothing is written before the stream comes to it, and by then tensors, executor
// and the memory of the inputs may be gone and used again.
TEST(PhaseTwo, QueuesAndOwnsWhatItNeeds) {
    Random random("queued");
    for (const int64_t rows : {2, 700}) {
        Call call = swi_glu(random, rows, 300);
        const Call::Results want = Call(call).run();
        Prepared p(call);
        Gate gate;
        ASSERT_EQ(gate.hold(stream()), 0);
        gate.wait_until_reached();
        EXPECT_EQ(gradusLaunch(nullptr, 0, p.executor, stream()), 0) << take_message();
        EXPECT_TRUE(p.placed[1]->untouched());
        p.placed[0]->destroy();
        p.placed[1]->destroy();
        p.placed[0]->free();
        const auto bytes = static_cast<size_t>(rows * 600 * 4);
        void* others[3] = {};
        for (void*& other : others) {
            EXPECT_EQ(aclrtMalloc(&other, bytes, ACL_MEM_MALLOC_HUGE_FIRST), 0);
            std::memset(other, 0x7F, bytes);  // not aclrtMemset, which waits for the stream
        }
        EXPECT_TRUE(p.placed[1]->untouched());
        gate.open();
        expect_outputs(p, call, want);
        for (void* other : others) EXPECT_EQ(aclrtFree(other), 0);
    }
}

double cpu_seconds_of_this_thread() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Small work is done when the launch returns, where nothing is before it: no thread is worth waking for it. The caller
// is not kept with large work.
TEST(PhaseTwo, DoesSmallWorkAtOnceAndLargeWorkElsewhere) {
    Random random("at once");
    const Option golden("precision", "golden"), one("num_threads", "1");
    ASSERT_EQ(aclrtSynchronizeStream(stream()), 0);
    Call small = swi_glu(random, 3, 8), large = swi_glu(random, 400, 1000);
    const Prepared p(small), q(large);
    EXPECT_EQ(gradusLaunch(nullptr, 0, p.executor, stream()), 0) << take_message();
    EXPECT_FALSE(p.placed[1]->untouched());
    const double before = cpu_seconds_of_this_thread();
    EXPECT_EQ(gradusLaunch(nullptr, 0, q.executor, stream()), 0) << take_message();
    EXPECT_LT(cpu_seconds_of_this_thread() - before, 0.002);  // 400000 elements of golden: 20 ms and more
    EXPECT_EQ(aclrtSynchronizeStream(stream()), 0);
}

}  // namespace
}  // namespace gradus::testing
