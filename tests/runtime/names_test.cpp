// What belongs to the device and is small here: versions, peers, data buffers, memory by attributes, registered memory.
#include <sys/mman.h>

#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include "aclnn/aclnn_base.h"
#include "aclnnop/aclnn_swi_glu.h"
#include "testing/call.h"

namespace gradus::testing {
namespace {

class Names : public Runtime {
  protected:
    // SwiGlu of 8 numbers into 4, at these addresses.
    int launch(void* x, void* out) {
        const int64_t x_dims[] = {1, 8}, out_dims[] = {1, 4};
        aclTensor* const from = aclCreateTensor(x_dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, x_dims, 2, x);
        aclTensor* const to = aclCreateTensor(out_dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, out_dims, 2, out);
        uint64_t size = 0;
        aclOpExecutor* executor = nullptr;
        int code = aclnnSwiGluGetWorkspaceSize(from, -1, to, &size, &executor);
        if (code == 0) code = aclnnSwiGlu(nullptr, size, executor, stream);
        EXPECT_EQ(aclDestroyTensor(from), 0);
        EXPECT_EQ(aclDestroyTensor(to), 0);
        return code;
    }

    static aclrtPtrAttributes attributes_of(const void* pointer) {
        aclrtPtrAttributes attributes;
        std::memset(&attributes, 0xFF, sizeof attributes);  // all of it is written
        EXPECT_EQ(aclrtPointerGetAttributes(pointer, &attributes), 0) << take_message();
        return attributes;
    }
    static void expect_place(const void* pointer, aclrtMemLocationType type, uint32_t device, uint32_t page) {
        const aclrtPtrAttributes attributes = attributes_of(pointer);
        EXPECT_EQ(attributes.location.type, type);
        EXPECT_EQ(attributes.location.id, device);
        EXPECT_EQ(attributes.pageSize, page);
        for (const uint32_t reserved : attributes.rsv) EXPECT_EQ(reserved, 0u);
    }
};

void without_context(const std::function<void()>& call) { std::thread(call).join(); }

TEST_F(Names, VersionIsTheInterfaces) {
    int32_t major = -1, minor = -1, patch = -1;
    EXPECT_EQ(aclrtGetVersion(&major, &minor, &patch), 0);
    EXPECT_EQ((std::array{major, minor, patch}), (std::array{1, 17, 0}));
    EXPECT_EQ(aclrtGetVersion(nullptr, &minor, &patch), 100000);
    expect_message("aclrtGetVersion", "majorVersion: NULL");
    EXPECT_EQ(aclrtGetVersion(&major, nullptr, &patch), 100000);
    expect_message("aclrtGetVersion", "minorVersion: NULL");
    EXPECT_EQ(aclrtGetVersion(&major, &minor, nullptr), 100000);
    expect_message("aclrtGetVersion", "patchVersion: NULL");
}

TEST_F(Names, CoresAreThreads) {
    for (const char* threads : {"1", "3"}) {
        const Option option("num_threads", threads);
        for (aclrtDevAttr attribute :
             {ACL_DEV_ATTR_AICPU_CORE_NUM, ACL_DEV_ATTR_AICORE_CORE_NUM, ACL_DEV_ATTR_VECTOR_CORE_NUM}) {
            int64_t value = 0;
            EXPECT_EQ(aclrtGetDeviceInfo(7, attribute, &value), 0);
            EXPECT_EQ(std::to_string(value), threads);
        }
    }
    int64_t value = 5;
    EXPECT_EQ(aclrtGetDeviceInfo(0, static_cast<aclrtDevAttr>(2), &value), 207000);
    expect_message("aclrtGetDeviceInfo", "attr: 2, expected 1, 101 or 201");
    for (uint32_t device : {8u, UINT32_MAX}) {
        EXPECT_EQ(aclrtGetDeviceInfo(device, ACL_DEV_ATTR_AICPU_CORE_NUM, &value), 107001);
        expect_message("aclrtGetDeviceInfo", "deviceId: " + std::to_string(device) + ", expected 0 to 7");
    }
    EXPECT_EQ(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_AICPU_CORE_NUM, nullptr), 100000);
    EXPECT_EQ(value, 5);
}

TEST_F(Names, PeersShareMemory) {
    int32_t can = -1;
    EXPECT_EQ(aclrtDeviceCanAccessPeer(&can, 2, 2), 0);
    EXPECT_EQ(can, 0);
    for (int32_t peer : {0, 7}) {
        EXPECT_EQ(aclrtDeviceCanAccessPeer(&can, 3, peer), 0);
        EXPECT_EQ(can, 1);
    }
    EXPECT_EQ(aclrtDeviceCanAccessPeer(nullptr, 0, 1), 100000);
    for (int32_t wrong : {-1, 8}) {
        EXPECT_EQ(aclrtDeviceCanAccessPeer(&can, wrong, 1), 107001);
        expect_message("aclrtDeviceCanAccessPeer", "deviceId: " + std::to_string(wrong));
        EXPECT_EQ(aclrtDeviceCanAccessPeer(&can, 1, wrong), 107001);
        expect_message("aclrtDeviceCanAccessPeer", "peerDeviceId: " + std::to_string(wrong));
        EXPECT_EQ(aclrtDeviceEnablePeerAccess(wrong, 0), 107001);
        EXPECT_EQ(aclrtDeviceDisablePeerAccess(wrong), 107001);
    }
    EXPECT_EQ(aclrtDeviceEnablePeerAccess(1, 0), 0);
    EXPECT_EQ(aclrtDeviceDisablePeerAccess(1), 0);
    EXPECT_EQ(aclrtDeviceEnablePeerAccess(1, 1), 107000);
    expect_message("aclrtDeviceEnablePeerAccess", "flags: 1, expected 0");
    EXPECT_EQ(aclrtDeviceEnablePeerAccess(0, 0), 107000);
    expect_message("aclrtDeviceEnablePeerAccess", "0 is the current device");
    EXPECT_EQ(aclrtDeviceDisablePeerAccess(0), 107000);
    without_context([] {
        int32_t anywhere = -1;
        EXPECT_EQ(aclrtDeviceCanAccessPeer(&anywhere, 0, 1), 0);
        EXPECT_EQ(aclrtDeviceEnablePeerAccess(1, 0), 107002);
        EXPECT_EQ(aclrtDeviceDisablePeerAccess(1), 107002);
        take_message();
    });
}

TEST_F(Names, DataBuffers) {
    char bytes[8];
    aclDataBuffer* const buffer = aclCreateDataBuffer(bytes, sizeof bytes);
    aclDataBuffer* const empty = aclCreateDataBuffer(nullptr, 0);
    ASSERT_NE(buffer, nullptr);
    ASSERT_NE(empty, nullptr);
    EXPECT_NE(buffer, empty);
    EXPECT_EQ(aclGetDataBufferAddr(buffer), bytes);
    EXPECT_EQ(aclGetDataBufferSizeV2(buffer), sizeof bytes);
    EXPECT_EQ(aclGetDataBufferAddr(empty), nullptr);
    EXPECT_EQ(aclGetDataBufferSizeV2(empty), 0u);
    EXPECT_EQ(aclUpdateDataBuffer(buffer, bytes + 1, 3), 0);
    EXPECT_EQ(aclGetDataBufferAddr(buffer), bytes + 1);
    EXPECT_EQ(aclGetDataBufferSizeV2(buffer), 3u);
    EXPECT_EQ(aclUpdateDataBuffer(buffer, nullptr, 0), 0);
    EXPECT_EQ(aclGetDataBufferAddr(buffer), nullptr);
    EXPECT_EQ(take_message(), "");
    EXPECT_EQ(aclDestroyDataBuffer(buffer), 0);
    EXPECT_EQ(aclDestroyDataBuffer(empty), 0);
    for (aclDataBuffer* wrong : {buffer, static_cast<aclDataBuffer*>(nullptr), static_cast<aclDataBuffer*>(stream)}) {
        EXPECT_EQ(aclDestroyDataBuffer(wrong), 100000);
        expect_message("aclDestroyDataBuffer", "not a live aclDataBuffer");
        EXPECT_EQ(aclUpdateDataBuffer(wrong, bytes, 1), 100000);
        expect_message("aclUpdateDataBuffer", "dataBuffer");
        EXPECT_EQ(aclGetDataBufferAddr(wrong), nullptr);
        expect_message("aclGetDataBufferAddr", "dataBuffer");
        EXPECT_EQ(aclGetDataBufferSizeV2(wrong), 0u);
        expect_message("aclGetDataBufferSizeV2", "dataBuffer");
    }
}

TEST_F(Names, AllocationsByAttributes) {
    void* p = nullptr;
    const auto allocate = [&](aclrtMallocConfig* config) {
        return aclrtMallocWithCfg(&p, 100, ACL_MEM_MALLOC_HUGE_FIRST, config);
    };
    aclrtMallocAttribute attributes[2] = {};
    attributes[0].attr = ACL_RT_MEM_ATTR_MODULE_ID;
    attributes[0].value.moduleId = 33;
    attributes[1].attr = ACL_RT_MEM_ATTR_DEVICE_ID;
    attributes[1].value.deviceId = 3;
    aclrtMallocConfig both{attributes, 2}, module{attributes, 1}, none{nullptr, 0}, missing{nullptr, 1};

    for (aclrtMallocConfig* config : {static_cast<aclrtMallocConfig*>(nullptr), &none, &module, &both}) {
        ASSERT_EQ(allocate(config), 0) << take_message();
        expect_place(p, ACL_MEM_LOCATION_TYPE_DEVICE, config == &both ? 3 : 0, 4096);
        EXPECT_EQ(aclrtMemset(p, 4096, 1, 4096), 0);  // the footprint is aclrtMalloc's
        EXPECT_EQ(aclrtFree(p), 0);
    }
    ASSERT_EQ(aclrtMallocWithCfg(&p, 1, ACL_MEM_MALLOC_HUGE_ONLY, nullptr), 0);
    expect_place(p, ACL_MEM_LOCATION_TYPE_DEVICE, 0, 2 << 20);
    EXPECT_EQ(aclrtFree(p), 0);

    p = nullptr;
    EXPECT_EQ(allocate(&missing), 100000);
    expect_message("aclrtMallocWithCfg", "cfg->attrs: NULL");
    for (uint32_t wrong : {8u, UINT32_MAX}) {
        attributes[1].value.deviceId = wrong;
        EXPECT_EQ(allocate(&both), 107001);
        expect_message("aclrtMallocWithCfg", "deviceId: " + std::to_string(wrong) + ", expected 0 to 7");
    }
    EXPECT_EQ(aclrtMallocWithCfg(nullptr, 100, ACL_MEM_MALLOC_HUGE_FIRST, nullptr), 100000);
    EXPECT_EQ(aclrtMallocWithCfg(&p, 0, ACL_MEM_MALLOC_HUGE_FIRST, nullptr), 100000);
    EXPECT_EQ(aclrtMallocWithCfg(&p, SIZE_MAX, ACL_MEM_MALLOC_HUGE_FIRST, nullptr), 207001);
    without_context([&] { EXPECT_EQ(allocate(nullptr), 107002); });
    EXPECT_EQ(p, nullptr);
}

TEST_F(Names, PointersKnowTheirPlace) {
    char* const small = static_cast<char*>(device_memory(100));
    char* const large = static_cast<char*>(device_memory(2 << 20));
    void* host = nullptr;
    ASSERT_EQ(aclrtMallocHost(&host, 5000), 0);
    int local = 0;

    expect_place(small, ACL_MEM_LOCATION_TYPE_DEVICE, 0, 4096);
    expect_place(small + 4095, ACL_MEM_LOCATION_TYPE_DEVICE, 0, 4096);
    expect_place(large + (4 << 20) - 1, ACL_MEM_LOCATION_TYPE_DEVICE, 0, 2 << 20);
    expect_place(host, ACL_MEM_LOCATION_TYPE_HOST, 0, 4096);
    expect_place(static_cast<char*>(host) + 8191, ACL_MEM_LOCATION_TYPE_HOST, 0, 4096);
    expect_place(&local, ACL_MEM_LOCATION_TYPE_UNREGISTERED, 0, 0);
    void* registered = nullptr;
    ASSERT_EQ(aclrtHostRegister(&local, sizeof local, ACL_HOST_REGISTER_MAPPED, &registered), 0);
    expect_place(&local, ACL_MEM_LOCATION_TYPE_HOST, 0, 4096);
    expect_place(reinterpret_cast<char*>(&local) + 3, ACL_MEM_LOCATION_TYPE_HOST, 0, 4096);
    expect_place(&local + 1, ACL_MEM_LOCATION_TYPE_UNREGISTERED, 0, 0);
    EXPECT_EQ(aclrtHostUnregister(&local), 0);
    expect_place(&local, ACL_MEM_LOCATION_TYPE_UNREGISTERED, 0, 0);
    without_context([&] { expect_place(small, ACL_MEM_LOCATION_TYPE_DEVICE, 0, 4096); });

    EXPECT_EQ(aclrtFree(small), 0);
    EXPECT_EQ(aclrtFree(large), 0);
    EXPECT_EQ(aclrtFreeHost(host), 0);
    expect_place(small, ACL_MEM_LOCATION_TYPE_UNREGISTERED, 0, 0);
    aclrtPtrAttributes attributes;
    EXPECT_EQ(aclrtPointerGetAttributes(nullptr, &attributes), 100000);
    expect_message("aclrtPointerGetAttributes", "ptr: NULL");
    EXPECT_EQ(aclrtPointerGetAttributes(&local, nullptr), 100000);
    expect_message("aclrtPointerGetAttributes", "attributes: NULL");
}

class Registered : public Names {
  protected:
    std::vector<float> values = std::vector<float>(64, 1.0F);
    size_t bytes = values.size() * sizeof(float);
    void* device = nullptr;

    int add() { return aclrtHostRegister(values.data(), bytes, ACL_HOST_REGISTER_MAPPED, &device); }
};

TEST_F(Registered, TensorsMayLieInIt) {
    float* const out = values.data() + 8;
    EXPECT_EQ(launch(values.data(), out), 161002);
    expect_message("aclnnSwiGlu", "outside every device allocation");
    ASSERT_EQ(add(), 0) << take_message();
    EXPECT_EQ(device, values.data());
    ASSERT_EQ(launch(device, out), 0) << take_message();
    EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
    for (int i = 0; i < 4; ++i) EXPECT_NEAR(out[i], 0.7310586F, 1e-6F);
    EXPECT_EQ(out[4], 1.0F);
    EXPECT_EQ(launch(device, values.data() + 61), 161002);  // one element too far
    expect_message("aclnnSwiGlu", "leave their");
    EXPECT_EQ(aclrtHostUnregister(device), 0);
    EXPECT_EQ(launch(values.data(), out), 161002);
    expect_message("aclnnSwiGlu", "outside every device allocation");
}

TEST_F(Registered, CopiesAreQueued) {
    auto* const target = static_cast<float*>(device_memory(bytes));
    ASSERT_EQ(add(), 0);
    {
        Gate gate;
        ASSERT_EQ(gate.hold(stream), 0);
        EXPECT_EQ(aclrtMemcpyAsync(target, bytes, device, bytes, ACL_MEMCPY_HOST_TO_DEVICE, stream), 0);
        values[5] = 7;  // the copy has not come to it yet
        EXPECT_EQ(target[5], 0.0F);
    }
    EXPECT_EQ(aclrtSynchronizeStream(stream), 0);
    EXPECT_EQ(target[5], 7.0F);
    EXPECT_EQ(aclrtMemcpy(target, bytes + 4, device, bytes + 4, ACL_MEMCPY_HOST_TO_DEVICE), 107000);
    expect_message("aclrtMemcpy", "src: 260 bytes");
    EXPECT_EQ(aclrtHostUnregister(device), 0);
    EXPECT_EQ(aclrtFree(target), 0);
}

TEST_F(Registered, Refusals) {
    void* got = nullptr;
    const auto put = [&](void* pointer, uint64_t size) {
        return aclrtHostRegister(pointer, size, ACL_HOST_REGISTER_MAPPED, &got);
    };
    EXPECT_EQ(put(nullptr, bytes), 100000);
    expect_message("aclrtHostRegister", "ptr: NULL");
    EXPECT_EQ(put(values.data(), 0), 100000);
    expect_message("aclrtHostRegister", "size: 0");
    EXPECT_EQ(aclrtHostRegister(values.data(), bytes, ACL_HOST_REGISTER_MAPPED, nullptr), 100000);
    EXPECT_EQ(aclrtHostRegister(values.data(), bytes, static_cast<aclrtHostRegisterType>(1), &got), 100000);
    expect_message("aclrtHostRegister", "type: 1");
    without_context([&] { EXPECT_EQ(put(values.data(), bytes), 107002); });

    ASSERT_EQ(put(values.data() + 8, 32), 0);
    for (size_t from : {0, 1, 8, 15})  // over its front, all of it, its end
        EXPECT_EQ(put(values.data() + from, 40), 107000) << from;
    expect_message("aclrtHostRegister", "shares bytes with memory");
    void* const neighbour = values.data() + 16;
    ASSERT_EQ(put(neighbour, 32), 0);
    EXPECT_EQ(got, neighbour);
    char* const mine = static_cast<char*>(device_memory(100));
    EXPECT_EQ(put(mine, 100), 107000);
    EXPECT_EQ(put(mine + 4000, 10), 107000);

    EXPECT_EQ(aclrtFree(neighbour), 107000);
    expect_message("aclrtFree", "aclrtHostUnregister");
    EXPECT_EQ(aclrtFreeHost(neighbour), 107000);
    EXPECT_EQ(aclrtHostUnregister(mine), 107000);
    expect_message("aclrtHostUnregister", "aclrtFree");
    EXPECT_EQ(aclrtHostUnregister(values.data() + 9), 107000);  // not its start
    EXPECT_EQ(aclrtHostUnregister(values.data()), 107000);
    EXPECT_EQ(aclrtHostUnregister(nullptr), 100000);
    EXPECT_EQ(aclrtHostUnregister(neighbour), 0);
    EXPECT_EQ(aclrtHostUnregister(neighbour), 107000);
    EXPECT_EQ(aclrtHostUnregister(values.data() + 8), 0);
    EXPECT_EQ(aclrtFree(mine), 0);
    EXPECT_EQ(values, std::vector<float>(64, 1.0F));
}

class EventWaits : public Runtime {
  protected:
    void SetUp() override {
        Runtime::SetUp();
        ASSERT_EQ(aclrtCreateEvent(&event), 0);
        ASSERT_EQ(aclrtCreateStream(&other), 0);
    }
    void TearDown() override {
        EXPECT_EQ(aclrtDestroyEvent(event), 0);
        Runtime::TearDown();
    }
    aclrtEventWaitStatus status() const {
        aclrtEventWaitStatus status{};
        EXPECT_EQ(aclrtQueryEventWaitStatus(event, &status), 0) << take_message();
        return status;
    }
    // `other` waits for what `stream` records behind the gate.
    void wait_behind(Gate& gate) {
        ASSERT_EQ(gate.hold(stream), 0);
        ASSERT_EQ(aclrtRecordEvent(event, stream), 0);
        EXPECT_EQ(status(), ACL_EVENT_WAIT_STATUS_COMPLETE);  // recording is not waiting
        ASSERT_EQ(aclrtStreamWaitEvent(other, event), 0);
        EXPECT_EQ(status(), ACL_EVENT_WAIT_STATUS_NOT_READY);
    }

    aclrtEvent event = nullptr;
    aclrtStream other = nullptr;
};

TEST_F(EventWaits, EndWithTheRecord) {
    EXPECT_EQ(status(), ACL_EVENT_WAIT_STATUS_COMPLETE);
    Gate gate;
    wait_behind(gate);
    gate.open();
    EXPECT_EQ(aclrtSynchronizeStream(other), 0);
    EXPECT_EQ(status(), ACL_EVENT_WAIT_STATUS_COMPLETE);
    EXPECT_EQ(aclrtStreamWaitEvent(other, event), 0);  // for what is over
    EXPECT_EQ(status(), ACL_EVENT_WAIT_STATUS_COMPLETE);
    EXPECT_EQ(aclrtDestroyStream(other), 0);
}

TEST_F(EventWaits, EndWithTheStream) {
    Gate gate;
    wait_behind(gate);
    EXPECT_EQ(aclrtDestroyStreamForce(other), 0);
    EXPECT_EQ(status(), ACL_EVENT_WAIT_STATUS_COMPLETE);
}

TEST_F(EventWaits, Refusals) {
    aclrtEventWaitStatus unused;
    EXPECT_EQ(aclrtQueryEventWaitStatus(nullptr, &unused), 100000);
    expect_message("aclrtQueryEventWaitStatus", "event: NULL");
    EXPECT_EQ(aclrtQueryEventWaitStatus(event, nullptr), 100000);
    expect_message("aclrtQueryEventWaitStatus", "status: NULL");
    EXPECT_EQ(aclrtQueryEventWaitStatus(other, &unused), 107017);
    expect_message("aclrtQueryEventWaitStatus", "not a live event");
    for (uint32_t seconds : {0u, 1u, UINT32_MAX}) EXPECT_EQ(aclrtSetOpWaitTimeout(seconds), 0);
    EXPECT_EQ(aclrtDestroyStream(other), 0);
}

TEST_F(Names, NoOperatorHasTensorLists) {
    const int64_t x_dims[] = {1, 8}, out_dims[] = {1, 4};
    aclTensor* const x = aclCreateTensor(x_dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, x_dims, 2, nullptr);
    aclTensor* const out = aclCreateTensor(out_dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, out_dims, 2, nullptr);
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    ASSERT_EQ(aclnnSwiGluGetWorkspaceSize(x, -1, out, &size, &executor), 0) << take_message();
    aclTensorList* const list = aclCreateTensorList(&x, 1);
    const struct {
        const char* name;
        decltype(&aclSetDynamicInputTensorAddr) set;
    } both[] = {{"aclSetDynamicInputTensorAddr", aclSetDynamicInputTensorAddr},
                {"aclSetDynamicOutputTensorAddr", aclSetDynamicOutputTensorAddr}};
    for (const auto& [name, set] : both) {
        EXPECT_EQ(set(executor, 0, 0, list, x), 161002);
        expect_message(name, "irIndex: 0 is not a list of tensors");
        EXPECT_EQ(set(nullptr, 0, 0, list, x), 561103);
        expect_message(name, "executor: NULL");
        EXPECT_EQ(set(reinterpret_cast<aclOpExecutor*>(list), 0, 0, list, x), 561103);
        expect_message(name, "executor: not alive");
    }
    EXPECT_EQ(aclDestroyAclOpExecutor(executor), 0);  // it was not spent
    EXPECT_EQ(aclSetDynamicInputTensorAddr(executor, 0, 0, list, x), 561103);
    take_message();
    EXPECT_EQ(aclnnSwiGlu(nullptr, 0, executor, stream), 161001);
    expect_message("aclnnSwiGlu", "executor: not alive");
    EXPECT_EQ(aclnnSwiGlu(nullptr, 0, nullptr, stream), 161001);
    expect_message("aclnnSwiGlu", "executor: NULL");
    EXPECT_EQ(aclDestroyTensorList(list), 0);  // and x with it
    EXPECT_EQ(aclDestroyTensor(out), 0);
}

TEST_F(Names, ThreadsAtOneDataBuffer) {
    char small[8], large[64];
    aclDataBuffer* const buffer = aclCreateDataBuffer(small, sizeof small);
    std::thread other([&] {
        for (int i = 0; i < 2000; ++i)
            EXPECT_EQ(aclUpdateDataBuffer(buffer, i % 2 == 0 ? large : small, i % 2 == 0 ? 64 : 8), 0);
    });
    for (int i = 0; i < 2000; ++i) {
        void* const address = aclGetDataBufferAddr(buffer);
        const size_t size = aclGetDataBufferSizeV2(buffer);
        EXPECT_TRUE(address == small || address == large);
        EXPECT_TRUE(size == sizeof small || size == sizeof large);
    }
    other.join();
    EXPECT_EQ(aclDestroyDataBuffer(buffer), 0);
}

// The program unmaps what it has registered and forgets to say so; the pages come back as device memory.
TEST_F(Names, RegistrationsThatWentStale) {
    constexpr size_t kBytes = 4096;
    int reused = 0;
    for (int i = 0; i < 100; ++i) {
        void* const own = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        void* same = nullptr;
        const int code = aclrtHostRegister(own, kBytes, ACL_HOST_REGISTER_MAPPED, &same);
        ASSERT_EQ(munmap(own, kBytes), 0);
        if (code != 0) continue;  // an older stale one
        auto* const d = static_cast<char*>(device_memory(64));
        reused += d == own;
        ASSERT_EQ(aclrtMemset(d, 64, 5, 64), 0) << take_message();
        EXPECT_EQ(d[63], 5);
        ASSERT_EQ(aclrtFree(d), 0) << take_message();
        aclrtHostUnregister(own);  // it may be there still
        take_message();
    }
    EXPECT_GT(reused, 0);
}

TEST_F(Names, RegistrationBeyondTheEndOfMemory) {
    char own[64];
    void* same = nullptr;
    EXPECT_EQ(aclrtHostRegister(own, UINT64_MAX, ACL_HOST_REGISTER_MAPPED, &same), 107000);
    expect_message("aclrtHostRegister", "size");
    EXPECT_EQ(same, nullptr);
}

}  // namespace
}  // namespace gradus::testing
