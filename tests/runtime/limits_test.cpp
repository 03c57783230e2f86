// What the device refuses and a CPU could do (option `limits`), and where tensors may lie (option `memory`).
#include <cstring>
#include <vector>

#include "aclnnop/aclnn_segsum.h"
#include "aclnnop/aclnn_swi_glu.h"
#include "testing/call.h"

namespace gradus::testing {
namespace {

// The arguments of a call at addresses of the test's choice.
class Arguments {
  public:
    ~Arguments() {
        for (const aclTensor* tensor : tensors_) EXPECT_EQ(aclDestroyTensor(tensor), 0);
    }
    aclTensor* add(const std::vector<int64_t>& dims, const std::vector<int64_t>& stride, void* address) {
        const int64_t storage = 64;
        tensors_.push_back(aclCreateTensor(dims.data(), dims.size(), ACL_FLOAT, stride.data(), 0, ACL_FORMAT_ND,
                                           &storage, 1, address));
        return tensors_.back();
    }

  private:
    std::vector<aclTensor*> tensors_;
};

int swi_glu(void* x, void* out, aclrtStream stream) {
    Arguments arguments;
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    const int code = aclnnSwiGluGetWorkspaceSize(arguments.add({1, 8}, {8, 1}, x), -1,
                                                 arguments.add({1, 4}, {4, 1}, out), &size, &executor);
    return code != 0 ? code : aclnnSwiGlu(nullptr, size, executor, stream);
}

// One that wants a workspace, because its input is not contiguous.
constexpr size_t kWorkspace = size_t{1} << 20;
int exp_segsum(void* x, void* out, void* workspace, aclrtStream stream) {
    Arguments arguments;
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    const int code = aclnnExpSegsumGetWorkspaceSize(arguments.add({1, 1, 4}, {8, 8, 2}, x),
                                                    arguments.add({1, 1, 4, 4}, {16, 16, 4, 1}, out), &size, &executor);
    EXPECT_GT(size, 0u);
    EXPECT_LE(size, kWorkspace);
    return code != 0 ? code : aclnnExpSegsum(workspace, size, executor, stream);
}

// `stream` belongs to the device's own context; another one is current.
class OtherContext : public Runtime {
  protected:
    void SetUp() override {
        Runtime::SetUp();
        memory = static_cast<char*>(device_memory(1024));
        ASSERT_EQ(aclrtMallocHost(&host, 1024), 0);
        ASSERT_EQ(aclrtCreateEvent(&event), 0);
        ASSERT_EQ(aclrtRecordEvent(event, stream), 0);
        ASSERT_EQ(aclrtGetCurrentContext(&own), 0);
        ASSERT_EQ(aclrtCreateContext(&other, 0), 0);
    }
    void TearDown() override {
        EXPECT_EQ(aclrtSetCurrentContext(own), 0);
        EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
        EXPECT_EQ(aclrtDestroyContext(other), 0);
        EXPECT_EQ(aclrtDestroyEvent(event), 0);
        EXPECT_EQ(aclrtFreeHost(host), 0);
        EXPECT_EQ(aclrtFree(memory), 0);
        Runtime::TearDown();
    }

    struct Answer {
        const char* function;
        int code;
        std::string message;
    };
    // Every call that gives work to a stream, on the stream of the context that is not current.
    std::vector<Answer> give_work() {
        std::vector<Answer> answers;
        const auto note = [&](const char* function, int code) { answers.push_back({function, code, take_message()}); };
        note("aclrtMemcpyAsync", aclrtMemcpyAsync(memory, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream));
        note("aclrtMemcpy2dAsync", aclrtMemcpy2dAsync(memory, 64, host, 64, 8, 8, ACL_MEMCPY_HOST_TO_DEVICE, stream));
        note("aclrtMemsetAsync", aclrtMemsetAsync(memory, 64, 1, 64, stream));
        note("aclrtStreamWaitEvent", aclrtStreamWaitEvent(stream, event));
        note("aclrtResetEvent", aclrtResetEvent(event, stream));
        note("aclrtRecordEvent", aclrtRecordEvent(event, stream));
        note("aclnnSwiGlu", swi_glu(memory, memory + 512, stream));
        return answers;
    }

    char* memory = nullptr;
    void* host = nullptr;
    aclrtEvent event = nullptr;
    aclrtContext own = nullptr, other = nullptr;
};

TEST_F(OtherContext, ItsStreamsTakeNoWork) {
    std::memset(host, 7, 1024);
    for (const auto& [function, code, message] : give_work()) {
        EXPECT_EQ(code, std::string(function) == "aclnnSwiGlu" ? 361001 : 107003) << function;
        EXPECT_EQ(message.rfind(std::string(function) + ": ", 0), 0u) << message;
        EXPECT_NE(message.find("belongs to another context"), std::string::npos) << message;
        EXPECT_NE(message.find("GRADUS_LIMITS=off"), std::string::npos) << message;
    }
    EXPECT_EQ(aclrtSynchronizeStream(stream), 0);  // looking at it is allowed
    EXPECT_EQ(memory[0], 0);
    aclrtEventRecordedStatus status;
    EXPECT_EQ(aclrtQueryEventStatus(event, &status), 0);
    EXPECT_EQ(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);  // it was not reset
}

TEST_F(OtherContext, WithoutLimitsTheyDo) {
    const Option option("limits", "off");
    for (const auto& [function, code, message] : give_work()) EXPECT_EQ(code, 0) << function << " " << message;
    EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
    EXPECT_EQ(memory[63], 1);
}

TEST_F(OtherContext, AThreadWithoutAContextMayUseAny) {
    std::thread([&] {
        for (const auto& [function, code, message] : give_work()) EXPECT_EQ(code, 0) << function << " " << message;
    }).join();
}

// Pageable and pinned memory, from either to either.
class HostToHost : public Runtime {
  protected:
    void SetUp() override {
        Runtime::SetUp();
        ASSERT_EQ(aclrtMallocHost(&pinned[0], 64), 0);
        ASSERT_EQ(aclrtMallocHost(&pinned[1], 64), 0);
    }
    void TearDown() override {
        for (void* p : pinned) EXPECT_EQ(aclrtFreeHost(p), 0);
        Runtime::TearDown();
    }
    template <typename F>
    void each_pair(const F& f) {
        for (void* from : {pinned[0], static_cast<void*>(pageable[0])})
            for (void* to : {pinned[1], static_cast<void*>(pageable[1])}) {
                std::memset(from, 5, 64);
                std::memset(to, 1, 64);
                f(to, from);
            }
    }

    void* pinned[2] = {};
    char pageable[2][64] = {};
};

TEST_F(HostToHost, NotOnAStream) {
    each_pair([&](void* to, void* from) {
        for (aclrtMemcpyKind kind : {ACL_MEMCPY_HOST_TO_HOST, ACL_MEMCPY_DEFAULT, ACL_MEMCPY_HOST_TO_DEVICE}) {
            EXPECT_EQ(aclrtMemcpyAsync(to, 64, from, 64, kind, stream), 207000);
            expect_message("aclrtMemcpyAsync", "both host memory");
            EXPECT_EQ(aclrtMemcpy2dAsync(to, 8, from, 8, 8, 8, kind, nullptr), 207000);
            expect_message("aclrtMemcpy2dAsync", "GRADUS_LIMITS=off");
        }
        EXPECT_EQ(aclrtMemcpyAsync(to, 64, from, 0, ACL_MEMCPY_HOST_TO_HOST, stream), 0);  // nothing to refuse
        EXPECT_EQ(static_cast<char*>(to)[0], 1);
    });
}

TEST_F(HostToHost, OnAStreamWithoutLimits) {
    const Option option("limits", "off");
    each_pair([&](void* to, void* from) {
        EXPECT_EQ(aclrtMemcpyAsync(to, 64, from, 32, ACL_MEMCPY_HOST_TO_HOST, stream), 0);
        EXPECT_EQ(aclrtMemcpy2dAsync(static_cast<char*>(to) + 32, 8, from, 8, 8, 4, ACL_MEMCPY_HOST_TO_HOST, stream),
                  0);
        EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
        EXPECT_EQ(std::memcmp(to, from, 64), 0);
    });
}

TEST_F(HostToHost, Synchronously) {
    each_pair([](void* to, void* from) {
        EXPECT_EQ(aclrtMemcpy(to, 64, from, 32, ACL_MEMCPY_HOST_TO_HOST), 0);
        EXPECT_EQ(aclrtMemcpy2d(static_cast<char*>(to) + 32, 8, from, 8, 8, 4, ACL_MEMCPY_HOST_TO_HOST), 0);
        EXPECT_EQ(std::memcmp(to, from, 64), 0);
    });
}

class MemoryOption : public Runtime {
  protected:
    std::vector<float> x = std::vector<float>(64, 1.0F), out = std::vector<float>(64, 9.0F);
    std::vector<std::byte> workspace = std::vector<std::byte>(kWorkspace);
};

TEST_F(MemoryOption, DeviceHoldsWithoutLimitsToo) {
    auto* const mine = static_cast<float*>(device_memory(4096));
    for (const char* limits : {"on", "off"}) {
        const Option option("limits", limits);
        EXPECT_EQ(swi_glu(x.data(), mine, stream), 161002);
        expect_message("aclnnSwiGlu", "x: an address outside every device allocation (GRADUS_MEMORY=any");
        EXPECT_EQ(swi_glu(mine, out.data(), stream), 161002);
        expect_message("aclnnSwiGlu", "out: an address outside every device allocation (GRADUS_MEMORY=any");
        EXPECT_EQ(exp_segsum(mine, mine + 64, workspace.data(), stream), 161002);
        expect_message("aclnnExpSegsum", "workspace: an address outside every device allocation (GRADUS_MEMORY=any");
    }
    EXPECT_EQ(aclrtFree(mine), 0);
}

TEST_F(MemoryOption, AnyHoldsWithLimitsToo) {
    const Option option("memory", "any");
    for (const char* limits : {"on", "off"}) {
        const Option also("limits", limits);
        ASSERT_EQ(swi_glu(x.data(), out.data(), stream), 0) << take_message();
        EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
        EXPECT_NEAR(out[3], 0.7310586F, 1e-6F);
        EXPECT_EQ(out[4], 9.0F);
        ASSERT_EQ(exp_segsum(x.data(), out.data(), workspace.data(), stream), 0) << take_message();
        EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
        EXPECT_NEAR(out[12], 20.085537F, 1e-4F);  // row 3, column 0: e^(1 + 1 + 1)
        out.assign(64, 9.0F);
    }
    void* const mine = device_memory(100);  // what is known is still held to its footprint
    EXPECT_EQ(swi_glu(static_cast<char*>(mine) + 4080, out.data(), stream), 161002);
    expect_message("aclnnSwiGlu", "leave their device allocation");
    EXPECT_EQ(aclrtFree(mine), 0);
}

TEST_F(MemoryOption, IsReadInPhaseOne) {
    Arguments arguments;
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    {
        const Option option("memory", "any");
        ASSERT_EQ(aclnnSwiGluGetWorkspaceSize(arguments.add({1, 8}, {8, 1}, x.data()), -1,
                                              arguments.add({1, 4}, {4, 1}, out.data()), &size, &executor),
                  0);
    }
    EXPECT_EQ(aclnnSwiGlu(nullptr, size, executor, stream), 0) << take_message();
    EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
}

TEST_F(MemoryOption, Values) {
    EXPECT_STREQ(gradusGetOption("memory"), "device");
    for (const char* wrong : {"", "host", "Any", "device ", "1"}) {
        EXPECT_EQ(gradusSetOption("memory", wrong), 100000);
        expect_message("gradusSetOption", "memory: value '" + std::string(wrong) + "', expected device or any");
    }
    EXPECT_STREQ(gradusGetOption("memory"), "device");
}

}  // namespace
}  // namespace gradus::testing
