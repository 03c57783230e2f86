#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "testing/runtime.h"

namespace gradus::testing {
namespace {

TEST(Devices, NumbersAndNames) {
    uint32_t count = 0;
    EXPECT_EQ(aclrtGetDeviceCount(&count), 0);
    EXPECT_EQ(count, 8u);
    EXPECT_EQ(aclrtGetDeviceCount(nullptr), 100000);
    aclrtRunMode mode = ACL_DEVICE;
    EXPECT_EQ(aclrtGetRunMode(&mode), 0);
    EXPECT_EQ(mode, ACL_HOST);
    EXPECT_EQ(aclrtGetRunMode(nullptr), 100000);
    EXPECT_STREQ(aclrtGetSocName(), "Ascend910B1");
}

TEST(Devices, EnvironmentNarrowsThem) {
    EXPECT_EQ(run_helper("devices", "GRADUS_DEVICES=3"), 3);
    EXPECT_EQ(run_helper("devices", "GRADUS_DEVICES=3 ASCEND_RT_VISIBLE_DEVICES=0,2"), 2);
    EXPECT_EQ(run_helper("soc_name", "GRADUS_SOC_NAME=Ascend910_9391"), 0);
}

TEST(Devices, SetAndReset) {
    int32_t device = -1;
    EXPECT_EQ(aclrtGetDevice(nullptr), 100000);
    EXPECT_EQ(aclrtGetDevice(&device), 107002);
    for (int32_t wrong : {-1, 8, INT32_MAX}) {
        EXPECT_EQ(aclrtSetDevice(wrong), 107001);
        expect_message("aclrtSetDevice", "deviceId: " + std::to_string(wrong) + ", expected 0 to 7");
        EXPECT_EQ(aclrtResetDevice(wrong), 107001);
        EXPECT_EQ(aclrtResetDeviceForce(wrong), 107001);
    }
    EXPECT_EQ(aclrtResetDevice(7), 507007);
    expect_message("aclrtResetDevice", "device 7 is not set");
    EXPECT_EQ(aclrtResetDeviceForce(7), 507007);
    EXPECT_EQ(aclrtSetDevice(7), 0);
    EXPECT_EQ(aclrtSetDevice(7), 0);
    EXPECT_EQ(aclrtGetDevice(&device), 0);
    EXPECT_EQ(device, 7);
    EXPECT_EQ(aclrtResetDevice(7), 0);
    EXPECT_EQ(aclrtGetDevice(&device), 0);  // counted: still there
    EXPECT_EQ(aclrtResetDevice(7), 0);
    EXPECT_EQ(aclrtGetDevice(&device), 107002);
    EXPECT_EQ(aclrtResetDevice(7), 507007);
    EXPECT_EQ(aclrtSetDevice(7), 0);
    EXPECT_EQ(aclrtSetDevice(7), 0);
    EXPECT_EQ(aclrtResetDeviceForce(7), 0);
    EXPECT_EQ(aclrtResetDevice(7), 507007);
}

TEST(Devices, ResetWaitsAndTakesTheStreamsAlong) {
    ASSERT_EQ(aclrtSetDevice(0), 0);
    aclrtStream stream = nullptr;
    std::atomic<int> ran = 0;
    ASSERT_EQ(aclrtCreateStream(&stream), 0);
    for (int i = 0; i < 100; ++i) {
        ASSERT_EQ(aclrtLaunchHostFunc(stream, count_up, &ran), 0);
        ASSERT_EQ(aclrtLaunchHostFunc(nullptr, count_up, &ran), 0);
    }
    EXPECT_EQ(aclrtResetDevice(0), 0);
    EXPECT_EQ(ran, 200);
    EXPECT_EQ(aclrtSynchronizeStream(stream), 107017);
    EXPECT_EQ(aclrtDestroyStream(stream), 107017);
    EXPECT_EQ(aclrtSynchronizeStream(nullptr), 107002);
    EXPECT_EQ(aclrtSynchronizeDevice(), 107002);
    ASSERT_EQ(aclrtSetDevice(0), 0);  // and begins anew
    EXPECT_EQ(aclrtSynchronizeStream(nullptr), 0);
    EXPECT_EQ(aclrtSynchronizeStream(stream), 107017);
    EXPECT_EQ(aclrtResetDevice(0), 0);
}

TEST(Devices, ForcedResetDropsWhatMayNeverEnd) {
    ASSERT_EQ(aclrtSetDevice(0), 0);
    aclrtStream stream = nullptr;
    aclrtEvent event = nullptr;
    ASSERT_EQ(aclrtCreateStream(&stream), 0);
    ASSERT_EQ(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC), 0);
    ASSERT_EQ(aclrtStreamWaitEvent(stream, event), 0);
    EXPECT_EQ(aclrtResetDeviceForce(0), 0);
    EXPECT_EQ(aclrtDestroyEvent(event), 0);
}

TEST(Contexts, CreateSetDestroy) {
    aclrtContext first = nullptr, second = nullptr, current = nullptr;
    EXPECT_EQ(aclrtCreateContext(nullptr, 0), 100000);
    EXPECT_EQ(aclrtCreateContext(&first, 8), 107001);
    EXPECT_EQ(aclrtGetCurrentContext(nullptr), 100000);
    EXPECT_EQ(aclrtGetCurrentContext(&current), 107002);
    EXPECT_EQ(aclrtSetCurrentContext(nullptr), 100000);
    EXPECT_EQ(aclrtDestroyContext(nullptr), 100000);
    EXPECT_EQ(aclrtSetCurrentContext(&first), 107000);
    EXPECT_EQ(aclrtDestroyContext(&first), 107002);
    ASSERT_EQ(aclrtCreateContext(&first, 1), 0);
    EXPECT_EQ(aclrtGetCurrentContext(&current), 0);
    EXPECT_EQ(current, first);  // current on the creating thread
    ASSERT_EQ(aclrtCreateContext(&second, 2), 0);
    int32_t device = -1;
    EXPECT_EQ(aclrtGetDevice(&device), 0);
    EXPECT_EQ(device, 2);
    EXPECT_EQ(aclrtSetCurrentContext(first), 0);
    EXPECT_EQ(aclrtGetDevice(&device), 0);
    EXPECT_EQ(device, 1);
    std::thread([&] {
        EXPECT_EQ(aclrtGetCurrentContext(&current), 107002);
        EXPECT_EQ(aclrtSetCurrentContext(second), 0);
        EXPECT_EQ(aclrtDestroyContext(first), 0);
    }).join();
    EXPECT_EQ(aclrtGetCurrentContext(&current), 107002);  // destroyed elsewhere
    expect_message("aclrtGetCurrentContext", "has been destroyed");
    EXPECT_EQ(aclrtSetCurrentContext(first), 107000);
    EXPECT_EQ(aclrtDestroyContext(first), 107002);
    EXPECT_EQ(aclrtDestroyContext(second), 0);
}

TEST(Contexts, TheDevicesOwnStays) {
    ASSERT_EQ(aclrtSetDevice(3), 0);
    aclrtContext context = nullptr;
    ASSERT_EQ(aclrtGetCurrentContext(&context), 0);
    EXPECT_EQ(aclrtDestroyContext(context), 107000);
    expect_message("aclrtDestroyContext", "default context");
    EXPECT_EQ(aclrtResetDevice(3), 0);
    EXPECT_EQ(aclrtDestroyContext(context), 107002);
}

TEST(Contexts, HaveTheirOwnStreams) {
    aclrtContext first = nullptr, second = nullptr;
    ASSERT_EQ(aclrtCreateContext(&first, 0), 0);
    ASSERT_EQ(aclrtCreateContext(&second, 0), 0);
    Gate gate;
    ASSERT_EQ(gate.hold(nullptr), 0);
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(nullptr, 20), 507046);
    ASSERT_EQ(aclrtSetCurrentContext(first), 0);
    EXPECT_EQ(aclrtSynchronizeStream(nullptr), 0);  // another default stream
    EXPECT_EQ(aclrtSynchronizeDevice(), 0);
    gate.open();
    std::atomic<int> ran = 0;
    aclrtStream stream = nullptr;
    ASSERT_EQ(aclrtCreateStream(&stream), 0);
    ASSERT_EQ(aclrtLaunchHostFunc(stream, count_up, &ran), 0);
    EXPECT_EQ(aclrtDestroyContext(first), 0);
    EXPECT_EQ(ran, 1);
    EXPECT_EQ(aclrtSynchronizeStream(stream), 107017);
    EXPECT_EQ(aclrtDestroyContext(second), 0);
}

// It would wait for itself.
TEST(Contexts, AreNotDestroyedFromWithin) {
    static aclrtContext context = nullptr;
    static int code = 0;
    ASSERT_EQ(aclrtCreateContext(&context, 0), 0);
    const auto destroy = [](void*) { code = aclrtDestroyContext(context); };
    ASSERT_EQ(aclrtLaunchHostFunc(nullptr, destroy, nullptr), 0);
    EXPECT_EQ(aclrtSynchronizeStream(nullptr), 0);
    EXPECT_EQ(code, 107000);
    EXPECT_EQ(aclrtDestroyContext(context), 0);
}

TEST(SysParams, OfContextAndProcess) {
    int64_t value = -1;
    EXPECT_EQ(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1), 107002);
    EXPECT_EQ(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value), 107002);
    EXPECT_EQ(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value), 0);
    EXPECT_EQ(value, 0);
    EXPECT_EQ(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, nullptr), 100000);
    EXPECT_EQ(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 5), 0);
    EXPECT_EQ(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value), 0);
    EXPECT_EQ(value, 5);
    EXPECT_EQ(aclrtSetSysParamOpt(static_cast<aclSysParamOpt>(3), 5), 100000);
    expect_message("aclrtSetSysParamOpt", "opt: 3, expected 0 to 2");
    EXPECT_EQ(aclrtGetSysParamOpt(static_cast<aclSysParamOpt>(3), &value), 100000);
    expect_message("aclrtGetSysParamOpt", "opt: 3, expected 0 to 2");
    ASSERT_EQ(aclrtSetDevice(0), 0);
    EXPECT_EQ(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, nullptr), 100000);
    EXPECT_EQ(aclrtCtxGetSysParamOpt(ACL_OPT_STRONG_CONSISTENCY, &value), 107021);
    EXPECT_EQ(aclrtCtxSetSysParamOpt(ACL_OPT_STRONG_CONSISTENCY, -7), 0);
    EXPECT_EQ(aclrtCtxSetSysParamOpt(static_cast<aclSysParamOpt>(3), 5), 100000);
    EXPECT_EQ(aclrtCtxGetSysParamOpt(static_cast<aclSysParamOpt>(3), &value), 100000);
    EXPECT_EQ(aclrtCtxGetSysParamOpt(ACL_OPT_STRONG_CONSISTENCY, &value), 0);
    EXPECT_EQ(value, -7);
    EXPECT_EQ(aclrtResetDevice(0), 0);
}

// A stream that is made while its device is reset either goes with it or is not made: none stays that nobody can
// destroy.
TEST(Devices, StreamsMadeDuringAReset) {
    std::atomic<bool> stop = false;
    std::thread resets([&] {
        while (!stop) {
            aclrtSetDevice(0);
            aclrtResetDeviceForce(0);
        }
    });
    std::vector<aclrtStream> left;  // to a reset
    int met = 0;                    // resets that came between two of the calls
    for (int i = 0; i < 20000 || (met < 200 && i < 2000000); ++i) {
        aclrtStream made = nullptr;
        aclrtSetDevice(0);
        const int code = aclrtCreateStream(&made);
        EXPECT_TRUE(code == 0 || code == 107002) << take_message();
        aclrtSynchronizeStream(nullptr);  // a default stream too
        if (code == 0 && aclrtDestroyStream(made) == 0) continue;
        ++met;
        if (code == 0) left.push_back(made);
    }
    stop = true;
    resets.join();
    aclrtResetDeviceForce(0);
    // by now every context that they were made in is gone, and all its resets have ended
    const auto orphans = std::count_if(left.begin(), left.end(), [](aclrtStream stream) {
        aclrtStreamStatus status;
        return aclrtStreamQuery(stream, &status) == 0;
    });
    take_message();
    EXPECT_EQ(orphans, 0);
}

TEST(Devices, ThreadsSetAndResetAtOnce) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([] {
            for (int i = 0; i < 300; ++i) {
                std::atomic<int> ran = 0;
                ASSERT_EQ(aclrtSetDevice(i % 2), 0);
                ASSERT_EQ(aclrtLaunchHostFunc(nullptr, count_up, &ran), 0);
                ASSERT_EQ(aclrtSynchronizeStream(nullptr), 0);
                ASSERT_EQ(ran, 1);
                ASSERT_EQ(aclrtResetDevice(i % 2), 0);
            }
        });
    for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace gradus::testing
