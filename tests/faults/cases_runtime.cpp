// aclrt and acl.
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "cases.h"

namespace gradus::faults {
namespace {

constexpr int kParam = 100000, kRange = 107000, kDevice = 107001, kNoContext = 107002, kHandle = 107017;
constexpr size_t kOne = 64;

alignas(4096) std::byte own[4096];

void nothing(void*) {}
void subscribe(World& w) { aclrtSubscribeReport(pthread_self(), w.stream); }
void subscribe_and_post(World& w) {
    subscribe(w);
    aclrtLaunchCallback(nothing, nullptr, ACL_CALLBACK_NO_BLOCK, w.stream);
}
void wait_for_awaited(World& w) { aclrtStreamWaitEvent(w.stream, w.awaited); }

void* bad() { return own; }  // alive as memory, not as a handle

const char* config_file() {
    static const std::string path = [] {
        std::string name = ::testing::TempDir() + "gradus_faults_XXXXXX";
        const int file = mkstemp(name.data());
        const std::string text = "{\"a key that is long\": \"and a value that is longer than a short string\"}";
        if (file < 0 || write(file, text.data(), text.size()) < 0) std::abort();
        close(file);
        std::atexit([] { std::remove(config_file()); });
        return name;
    }();
    return path.c_str();
}

void add_process(Adder add) {
    add.works("aclInit", [](World&) { return aclInit(nullptr); });
    add.works("aclInit", [path = config_file()](World&) { return aclInit(path); });
    add.refuses("aclInit", 100003, "cannot read '/nowhere'", [](World&) { return aclInit("/nowhere"); });
    add.works("aclFinalize", [](World&) { return aclFinalize(); }).prepare = [](World&) { aclInit(nullptr); };
    add.refuses("aclFinalize", 100037, "not initialised", [](World&) { return aclFinalize(); });
    add.works("aclFinalizeReference", [](World& w) { return aclFinalizeReference(&w.out.count); }).prepare =
        [](World&) { aclInit(nullptr); };
    add.refuses("aclFinalizeReference", 100037, "not init", [](World&) { return aclFinalizeReference(nullptr); });
    add.works("aclGetRecentErrMsg", [](World&) { return is(aclGetRecentErrMsg() == nullptr); });
    add.works("aclrtGetLastError", [](World&) { return aclrtGetLastError(ACL_RT_THREAD_LEVEL); });
    add.works("aclrtPeekAtLastError", [](World&) { return aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL); });
    add.works("aclDataTypeSize", [](World&) { return is(aclDataTypeSize(ACL_FLOAT) == 4); });
    add.works("aclFloat16ToFloat", [](World&) { return is(aclFloat16ToFloat(0x3C00) == 1.0F); });
    add.works("aclFloatToFloat16", [](World&) { return is(aclFloatToFloat16(1.0F) == 0x3C00); });
    add.works("gradusVersion", [](World&) { return is(gradusVersion() != nullptr); });
    add.works("gradusGetOption", [](World&) { return is(gradusGetOption("limits") != nullptr); });
    add.works("gradusSetOption", [](World&) { return gradusSetOption("soc_name", "Ascend910B1"); });
    // a name that was never set, and too long for a short string
    add.works("gradusSetOption",
              [next = 0](World&) mutable {
                  char name[64] = "Ascend910B1_and_so_on_and_so_on_00000";
                  for (int i = 36, n = next++; n > 0; --i, n /= 10) name[i] = static_cast<char>('0' + n % 10);
                  return gradusSetOption("soc_name", name);
              })
        .stays = true;
    add.works("gradusSetThreadOption", [](World&) { return gradusSetThreadOption("log", nullptr); });
    add.works("gradusSetThreadOption", [](World&) { return gradusSetThreadOption("precision", "fast"); });
    add.refuses("gradusSetThreadOption", kParam, "unknown option",
                [](World&) { return gradusSetThreadOption("color", "blue"); });
    add.works("gradusSetLoop", [](World&) { return gradusSetLoop(nullptr, nullptr); });
    add.refuses("gradusSetOption", kParam, "unknown option", [](World&) { return gradusSetOption("color", "blue"); });
    add.refuses("gradusSetOption", kParam, "name: NULL", [](World&) { return gradusSetOption(nullptr, "on"); });

    add.works("aclCreateDataBuffer", [](World& w) { return given(aclCreateDataBuffer(w.device, kOne), w.out.buffer); });
    add.works("aclDestroyDataBuffer", [](World& w) { return aclDestroyDataBuffer(w.buffer); });
    add.works("aclUpdateDataBuffer", [](World& w) { return aclUpdateDataBuffer(w.buffer, w.device, kOne); });
    add.works("aclGetDataBufferAddr", [](World& w) { return is(aclGetDataBufferAddr(w.buffer) == w.device); });
    add.works("aclGetDataBufferSizeV2", [](World& w) { return is(aclGetDataBufferSizeV2(w.buffer) == kOne); });
    add.refuses("aclDestroyDataBuffer", kParam, "not a live aclDataBuffer",
                [](World&) { return aclDestroyDataBuffer(static_cast<aclDataBuffer*>(bad())); });
    add.refuses("aclGetDataBufferAddr", kParam, "not a live aclDataBuffer", [](World& w) {
        return given(aclGetDataBufferAddr(static_cast<aclDataBuffer*>(bad())), w.out.address);
    });
}

void add_devices(Adder add) {
    add.works("aclrtSetDevice", [](World&) { return aclrtSetDevice(0); });
    add.works("aclrtSetDevice", [](World&) { return aclrtSetDevice(1); });  // makes its context
    add.refuses("aclrtSetDevice", kDevice, "deviceId: -1", [](World&) { return aclrtSetDevice(-1); });
    add.works("aclrtResetDevice", [](World&) { return aclrtResetDevice(0); });
    add.refuses("aclrtResetDevice", 507007, "is not set", [](World&) { return aclrtResetDevice(1); });
    add.works("aclrtResetDeviceForce", [](World&) { return aclrtResetDeviceForce(0); });
    add.works("aclrtGetDevice", [](World& w) { return aclrtGetDevice(&w.out.code); });
    add.refuses("aclrtGetDevice", kParam, "deviceId: NULL", [](World&) { return aclrtGetDevice(nullptr); });
    add.works("aclrtGetDeviceCount", [](World& w) { return aclrtGetDeviceCount(as<uint32_t>(w.out.code)); });
    add.works("aclrtGetRunMode", [](World& w) { return aclrtGetRunMode(as<aclrtRunMode>(w.out.code)); });
    add.works("aclrtGetSocName", [](World&) { return is(aclrtGetSocName() != nullptr); });
    add.works("aclrtGetVersion", [](World& w) { return aclrtGetVersion(&w.out.code, &w.out.code2, &w.out.code3); });
    add.works("aclrtGetDeviceInfo",
              [](World& w) { return aclrtGetDeviceInfo(0, ACL_DEV_ATTR_AICPU_CORE_NUM, &w.out.number); });
    add.refuses("aclrtGetDeviceInfo", 207000, "attr: 7",
                [](World& w) { return aclrtGetDeviceInfo(0, static_cast<aclrtDevAttr>(7), &w.out.number); });
    add.works("aclrtDeviceCanAccessPeer", [](World& w) { return aclrtDeviceCanAccessPeer(&w.out.code, 0, 1); });
    add.works("aclrtDeviceEnablePeerAccess", [](World&) { return aclrtDeviceEnablePeerAccess(1, 0); });
    add.refuses("aclrtDeviceEnablePeerAccess", kRange, "flags: 1",
                [](World&) { return aclrtDeviceEnablePeerAccess(1, 1); });
    add.works("aclrtDeviceDisablePeerAccess", [](World&) { return aclrtDeviceDisablePeerAccess(1); });
    add.works("aclrtSynchronizeDevice", [](World&) { return aclrtSynchronizeDevice(); });
    add.works("aclrtSynchronizeDeviceWithTimeout", [](World&) { return aclrtSynchronizeDeviceWithTimeout(1000); });
    add.refuses("aclrtSynchronizeDeviceWithTimeout", kRange, "timeout: 0",
                [](World&) { return aclrtSynchronizeDeviceWithTimeout(0); });
    add.works("aclrtCreateContext", [](World& w) { return aclrtCreateContext(&w.out.context, 0); });
    add.refuses("aclrtCreateContext", kDevice, "deviceId: 99",
                [](World& w) { return aclrtCreateContext(&w.out.context, 99); });
    add.works("aclrtDestroyContext", [](World& w) { return aclrtDestroyContext(w.context); });
    add.refuses("aclrtDestroyContext", kNoContext, "context", [](World&) { return aclrtDestroyContext(bad()); });
    add.works("aclrtSetCurrentContext", [](World& w) { return aclrtSetCurrentContext(w.context); });
    add.refuses("aclrtSetCurrentContext", kRange, "not a live context",
                [](World&) { return aclrtSetCurrentContext(bad()); });
    add.works("aclrtGetCurrentContext", [](World& w) {
        aclrtContext current = nullptr;
        return aclrtGetCurrentContext(&current) + is(current == w.home);
    });
    add.works("aclrtCtxSetSysParamOpt", [](World&) { return aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1); });
    add.works("aclrtCtxGetSysParamOpt",
              [](World& w) { return aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &w.out.number); })
        .prepare = [](World&) { aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1); };
    add.refuses("aclrtCtxGetSysParamOpt", 107021, "never set",
                [](World& w) { return aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &w.out.number); });
    add.works("aclrtSetSysParamOpt", [](World&) { return aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1); });
    add.works("aclrtGetSysParamOpt",
              [](World& w) { return aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &w.out.number); });
    add.refuses("aclrtSetSysParamOpt", kParam, "opt: 3",
                [](World&) { return aclrtSetSysParamOpt(static_cast<aclSysParamOpt>(3), 1); });
}

void add_streams(Adder add) {
    add.works("aclrtCreateStream", [](World& w) { return aclrtCreateStream(&w.out.stream); });
    add.refuses("aclrtCreateStream", kParam, "stream: NULL", [](World&) { return aclrtCreateStream(nullptr); });
    add.works("aclrtCreateStreamWithConfig",
              [](World& w) { return aclrtCreateStreamWithConfig(&w.out.stream, 0, ACL_STREAM_FAST_LAUNCH); });
    add.works("aclrtDestroyStream", [](World& w) { return aclrtDestroyStream(w.stream); });
    add.refuses("aclrtDestroyStream", kHandle, "not a live stream", [](World&) { return aclrtDestroyStream(bad()); });
    add.works("aclrtDestroyStreamForce", [](World& w) { return aclrtDestroyStreamForce(w.stream); });
    add.works("aclrtSynchronizeStream", [](World& w) { return aclrtSynchronizeStream(w.stream); });
    add.works("aclrtSynchronizeStream", [](World&) { return aclrtSynchronizeStream(nullptr); });  // makes it
    add.refuses("aclrtSynchronizeStream", kHandle, "not a live stream",
                [](World&) { return aclrtSynchronizeStream(bad()); });
    add.works("aclrtSynchronizeStreamWithTimeout",
              [](World& w) { return aclrtSynchronizeStreamWithTimeout(w.stream, 1000); });
    add.works("aclrtStreamQuery",
              [](World& w) { return aclrtStreamQuery(w.stream, as<aclrtStreamStatus>(w.out.code)); });
    add.refuses("aclrtStreamQuery", kHandle, "not a live stream",
                [](World& w) { return aclrtStreamQuery(bad(), as<aclrtStreamStatus>(w.out.code)); });
    add.works("aclrtSetStreamFailureMode", [](World& w) { return aclrtSetStreamFailureMode(w.stream, 0); });
    add.refuses("aclrtSetStreamFailureMode", kRange, "mode: 2",
                [](World& w) { return aclrtSetStreamFailureMode(w.stream, 2); });
    add.works("aclrtLaunchHostFunc", [](World& w) { return aclrtLaunchHostFunc(w.stream, nothing, nullptr); });
    add.works("aclrtLaunchHostFunc", [](World&) { return aclrtLaunchHostFunc(nullptr, nothing, nullptr); }).caches =
        true;
    add.refuses("aclrtLaunchHostFunc", kParam, "fn: NULL",
                [](World& w) { return aclrtLaunchHostFunc(w.stream, nullptr, nullptr); });
    add.works("aclrtSubscribeReport", [](World& w) { return aclrtSubscribeReport(pthread_self(), w.stream); });
    add.refuses("aclrtSubscribeReport", kHandle, "not a live stream",
                [](World&) { return aclrtSubscribeReport(pthread_self(), bad()); });
    Case& taken = add.refuses("aclrtSubscribeReport", kRange, "has a subscription already",
                              [](World& w) { return aclrtSubscribeReport(pthread_self() + 1, w.stream); });
    taken.prepare = subscribe, taken.may_allocate = true;
    add.works("aclrtUnSubscribeReport", [](World& w) { return aclrtUnSubscribeReport(pthread_self(), w.stream); })
        .prepare = subscribe;
    add.refuses("aclrtUnSubscribeReport", 107012, "threadId: has no subscription",
                [](World& w) { return aclrtUnSubscribeReport(pthread_self(), w.stream); });
    add.works("aclrtLaunchCallback",
              [](World& w) { return aclrtLaunchCallback(nothing, nullptr, ACL_CALLBACK_NO_BLOCK, w.stream); })
        .prepare = subscribe;
    add.works("aclrtLaunchCallback",
              [](World& w) {
                  const int code = aclrtLaunchCallback(nothing, nullptr, ACL_CALLBACK_BLOCK, w.stream);
                  return code != 0 ? code : aclrtProcessReport(1000);
              })
        .prepare = subscribe;
    add.refuses("aclrtLaunchCallback", 107015, "no thread has subscribed",
                [](World& w) { return aclrtLaunchCallback(nothing, nullptr, ACL_CALLBACK_NO_BLOCK, w.stream); });
    add.works("aclrtProcessReport", [](World&) { return aclrtProcessReport(1000); }).prepare = subscribe_and_post;
    add.refuses("aclrtProcessReport", 107012, "no subscription", [](World&) { return aclrtProcessReport(1000); });
}

void add_events(Adder add) {
    add.works("aclrtCreateEvent", [](World& w) { return aclrtCreateEvent(&w.out.event); });
    add.refuses("aclrtCreateEvent", kParam, "event: NULL", [](World&) { return aclrtCreateEvent(nullptr); });
    add.works("aclrtCreateEventWithFlag",
              [](World& w) { return aclrtCreateEventWithFlag(&w.out.event, ACL_EVENT_SYNC); });
    add.refuses("aclrtCreateEventWithFlag", kRange, "flag: 64",
                [](World& w) { return aclrtCreateEventWithFlag(&w.out.event, 64); });
    add.works("aclrtCreateEventExWithFlag",
              [](World& w) { return aclrtCreateEventExWithFlag(&w.out.event, ACL_EVENT_SYNC); });
    add.works("aclrtDestroyEvent", [](World& w) { return aclrtDestroyEvent(w.event); });
    add.works("aclrtRecordEvent", [](World& w) { return aclrtRecordEvent(w.event, w.stream); });
    Case& record_awaited = add.works("aclrtRecordEvent", [](World& w) { return aclrtRecordEvent(w.awaited, nullptr); });
    record_awaited.prepare = wait_for_awaited;
    record_awaited.caches = record_awaited.stream_waits = true;
    add.refuses("aclrtRecordEvent", kHandle, "not a live event",
                [](World& w) { return aclrtRecordEvent(bad(), w.stream); });
    add.works("aclrtResetEvent", [](World& w) { return aclrtResetEvent(w.event, w.stream); });
    add.works("aclrtStreamWaitEvent", [](World& w) { return aclrtStreamWaitEvent(w.stream, w.event); });
    add.works("aclrtStreamWaitEvent", [](World& w) {
        const int code = aclrtStreamWaitEvent(w.stream, w.awaited);
        return code != 0 ? code : aclrtDestroyEvent(w.awaited);  // which ends the wait
    });
    add.refuses("aclrtStreamWaitEvent", kHandle, "not a live event",
                [](World& w) { return aclrtStreamWaitEvent(w.stream, bad()); });
    add.works("aclrtQueryEventWaitStatus",
              [](World& w) { return aclrtQueryEventWaitStatus(w.event, as<aclrtEventWaitStatus>(w.out.code)); });
    add.works("aclrtSetOpWaitTimeout", [](World&) { return aclrtSetOpWaitTimeout(10); });
    add.works("aclrtSynchronizeEvent", [](World& w) { return aclrtSynchronizeEvent(w.event); });
    add.works("aclrtSynchronizeEventWithTimeout",
              [](World& w) { return aclrtSynchronizeEventWithTimeout(w.event, 1000); });
    add.refuses("aclrtSynchronizeEventWithTimeout", 507047, "not reached within 1 ms",
                [](World& w) { return aclrtSynchronizeEventWithTimeout(w.event, 1); })
        .prepare = [](World& w) {
        wait_for_awaited(w);
        aclrtRecordEvent(w.event, w.stream);
    };
    add.works("aclrtQueryEventStatus",
              [](World& w) { return aclrtQueryEventStatus(w.event, as<aclrtEventRecordedStatus>(w.out.code)); });
    add.works("aclrtQueryEvent", [](World& w) { return aclrtQueryEvent(w.event, as<aclrtEventStatus>(w.out.code)); });
    add.works("aclrtEventElapsedTime", [](World& w) { return aclrtEventElapsedTime(&w.out.real, w.event, w.event2); });
    add.refuses("aclrtEventElapsedTime", 507000, "never recorded",
                [](World& w) { return aclrtEventElapsedTime(&w.out.real, w.event, w.awaited); });
    add.works("aclrtEventGetTimestamp", [](World& w) { return aclrtEventGetTimestamp(w.event, &w.out.count); });
}

void add_memory(Adder add) {
    add.works("aclrtMalloc", [](World& w) { return aclrtMalloc(&w.out.device, 5000, ACL_MEM_MALLOC_NORMAL_ONLY); });
    add.refuses("aclrtMalloc", kParam, "size: 0",
                [](World& w) { return aclrtMalloc(&w.out.device, 0, ACL_MEM_MALLOC_NORMAL_ONLY); });
    add.refuses("aclrtMalloc", 207001, "do not fit",
                [](World& w) { return aclrtMalloc(&w.out.device, SIZE_MAX, ACL_MEM_MALLOC_NORMAL_ONLY); });
    add.works("aclrtMallocAlign32",
              [](World& w) { return aclrtMallocAlign32(&w.out.device, 5000, ACL_MEM_MALLOC_HUGE_ONLY); });
    add.works("aclrtMallocWithCfg",
              [](World& w) { return aclrtMallocWithCfg(&w.out.device, 5000, ACL_MEM_MALLOC_NORMAL_ONLY, nullptr); });
    add.works("aclrtFree", [](World& w) { return aclrtFree(w.device); });
    add.refuses("aclrtFree", kRange, "not the start of a live allocation", [](World&) { return aclrtFree(bad()); });
    add.works("aclrtMallocHost", [](World& w) { return aclrtMallocHost(&w.out.host, 5000); });
    add.refuses("aclrtMallocHost", kParam, "hostPtr: NULL", [](World&) { return aclrtMallocHost(nullptr, 5000); });
    add.works("aclrtFreeHost", [](World& w) { return aclrtFreeHost(w.host); });
    add.works("aclrtHostRegister",
              [](World& w) { return aclrtHostRegister(own, sizeof own, ACL_HOST_REGISTER_MAPPED, &w.out.registered); });
    add.refuses("aclrtHostRegister", kRange, "shares bytes",
                [](World& w) { return aclrtHostRegister(w.host, 64, ACL_HOST_REGISTER_MAPPED, &w.out.registered); })
        .may_allocate = true;  // whether it shares any is looked at when its place is made
    add.works("aclrtHostUnregister", [](World&) { return aclrtHostUnregister(own); }).prepare = [](World&) {
        void* same = nullptr;
        aclrtHostRegister(own, sizeof own, ACL_HOST_REGISTER_MAPPED, &same);
    };
    add.refuses("aclrtHostUnregister", kRange, "not the start", [](World&) { return aclrtHostUnregister(bad()); });
    add.works("aclrtPointerGetAttributes",
              [](World& w) { return aclrtPointerGetAttributes(w.device, &w.out.attributes); });
    add.refuses("aclrtPointerGetAttributes", kParam, "ptr: NULL",
                [](World& w) { return aclrtPointerGetAttributes(nullptr, &w.out.attributes); });
    add.works("aclrtGetMemInfo", [](World& w) {
        return aclrtGetMemInfo(ACL_HBM_MEM, reinterpret_cast<size_t*>(&w.out.number),
                               reinterpret_cast<size_t*>(&w.out.number2));
    });
    add.works("aclrtMemcpy",
              [](World& w) { return aclrtMemcpy(w.host, kOne, w.device, kOne, ACL_MEMCPY_DEVICE_TO_HOST); });
    add.refuses("aclrtMemcpy", kRange, "expected at most destMax",
                [](World& w) { return aclrtMemcpy(w.host, 1, w.device, kOne, ACL_MEMCPY_DEVICE_TO_HOST); });
    add.works("aclrtMemcpyAsync", [](World& w) {
        return aclrtMemcpyAsync(w.host, kOne, w.device, kOne, ACL_MEMCPY_DEVICE_TO_HOST, w.stream);
    });
    add.works("aclrtMemcpyAsync", [](World& w) {  // so large that the stream's thread does it
        return aclrtMemcpyAsync(w.workspace, World::kBytes, w.device, World::kBytes, ACL_MEMCPY_DEVICE_TO_DEVICE,
                                w.stream);
    });
    add.refuses("aclrtMemcpyAsync", kHandle, "not a live stream", [](World& w) {
        return aclrtMemcpyAsync(w.host, kOne, w.device, kOne, ACL_MEMCPY_DEVICE_TO_HOST, bad());
    });
    add.works("aclrtMemcpy2d",
              [](World& w) { return aclrtMemcpy2d(w.host, 32, w.device, 32, 16, 2, ACL_MEMCPY_DEVICE_TO_HOST); });
    add.refuses("aclrtMemcpy2d", kRange, "width: 64",
                [](World& w) { return aclrtMemcpy2d(w.host, 32, w.device, 32, 64, 2, ACL_MEMCPY_DEVICE_TO_HOST); });
    add.works("aclrtMemcpy2dAsync", [](World& w) {
        return aclrtMemcpy2dAsync(w.host, 32, w.device, 32, 16, 2, ACL_MEMCPY_DEVICE_TO_HOST, w.stream);
    });
    add.works("aclrtMemset", [](World& w) { return aclrtMemset(w.host, kOne, 1, kOne); });
    add.refuses("aclrtMemset", kParam, "devPtr: NULL", [](World&) { return aclrtMemset(nullptr, kOne, 1, kOne); });
    add.works("aclrtMemsetAsync", [](World& w) { return aclrtMemsetAsync(w.host, kOne, 1, kOne, w.stream); });
    add.works("aclrtMemsetAsync", [](World& w) { return aclrtMemsetAsync(w.host, kOne, 1, kOne, nullptr); }).caches =
        true;
}

}  // namespace

void add_runtime_cases(Cases& cases) {
    for (const auto add : {add_process, add_devices, add_streams, add_events, add_memory}) add(Adder(cases));
}

}  // namespace gradus::faults
