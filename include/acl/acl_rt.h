// The runtime: devices, contexts, streams, events, callbacks and memory.
//
// Unless said otherwise a NULL for a result is ACL_ERROR_INVALID_PARAM, a thread without a current context gets
// ACL_ERROR_RT_CONTEXT_NULL, and a handle that is not alive ACL_ERROR_RT_INVALID_HANDLE. A NULL stream is the default
// stream of the current context. Timeouts are in milliseconds: -1 waits forever, 0 and below -1 are
// ACL_ERROR_RT_PARAM_INVALID.
#ifndef GRADUS_ACL_ACL_RT_H
#define GRADUS_ACL_ACL_RT_H

#include "acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Types and numbers

typedef enum aclrtRunMode { ACL_DEVICE = 0, ACL_HOST = 1 } aclrtRunMode;

typedef enum aclSysParamOpt {
    ACL_OPT_DETERMINISTIC = 0,
    ACL_OPT_ENABLE_DEBUG_KERNEL = 1,
    ACL_OPT_STRONG_CONSISTENCY = 2
} aclSysParamOpt;

typedef enum aclrtLastErrLevel { ACL_RT_THREAD_LEVEL = 0 } aclrtLastErrLevel;

typedef enum aclrtMemMallocPolicy {
    ACL_MEM_MALLOC_HUGE_FIRST = 0,
    ACL_MEM_MALLOC_HUGE_ONLY = 1,
    ACL_MEM_MALLOC_NORMAL_ONLY = 2,
    ACL_MEM_MALLOC_HUGE_FIRST_P2P = 3,
    ACL_MEM_MALLOC_HUGE_ONLY_P2P = 4,
    ACL_MEM_MALLOC_NORMAL_ONLY_P2P = 5,
    ACL_MEM_MALLOC_HUGE1G_ONLY = 6,
    ACL_MEM_MALLOC_HUGE1G_ONLY_P2P = 7,
    ACL_MEM_TYPE_LOW_BAND_WIDTH = 0x100,
    ACL_MEM_TYPE_HIGH_BAND_WIDTH = 0x1000
} aclrtMemMallocPolicy;

typedef enum aclrtMemcpyKind {
    ACL_MEMCPY_HOST_TO_HOST = 0,
    ACL_MEMCPY_HOST_TO_DEVICE = 1,
    ACL_MEMCPY_DEVICE_TO_HOST = 2,
    ACL_MEMCPY_DEVICE_TO_DEVICE = 3,
    ACL_MEMCPY_DEFAULT = 4,
    ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE = 5,
    ACL_MEMCPY_INNER_DEVICE_TO_DEVICE = 6,
    ACL_MEMCPY_INTER_DEVICE_TO_DEVICE = 7
} aclrtMemcpyKind;

typedef enum aclrtMemAttr { ACL_DDR_MEM = 0, ACL_HBM_MEM = 1 } aclrtMemAttr;

// The first of these counts the other way round than the three after it.
typedef enum aclrtEventRecordedStatus {
    ACL_EVENT_RECORDED_STATUS_NOT_READY = 0,
    ACL_EVENT_RECORDED_STATUS_COMPLETE = 1
} aclrtEventRecordedStatus;

typedef enum aclrtEventStatus { ACL_EVENT_STATUS_COMPLETE = 0, ACL_EVENT_STATUS_NOT_READY = 1 } aclrtEventStatus;

typedef enum aclrtEventWaitStatus {
    ACL_EVENT_WAIT_STATUS_COMPLETE = 0,
    ACL_EVENT_WAIT_STATUS_NOT_READY = 1
} aclrtEventWaitStatus;

typedef enum aclrtStreamStatus { ACL_STREAM_STATUS_COMPLETE = 0, ACL_STREAM_STATUS_NOT_READY = 1 } aclrtStreamStatus;

typedef enum aclrtCallbackBlockType { ACL_CALLBACK_NO_BLOCK = 0, ACL_CALLBACK_BLOCK = 1 } aclrtCallbackBlockType;

// Attributes of aclrtGetDeviceInfo.
typedef enum aclrtDevAttr {
    ACL_DEV_ATTR_AICPU_CORE_NUM = 1,
    ACL_DEV_ATTR_AICORE_CORE_NUM = 101,
    ACL_DEV_ATTR_VECTOR_CORE_NUM = 201
} aclrtDevAttr;

typedef enum aclrtHostRegisterType { ACL_HOST_REGISTER_MAPPED = 0 } aclrtHostRegisterType;

// Where memory lies, as aclrtPointerGetAttributes tells it.
typedef enum aclrtMemLocationType {
    ACL_MEM_LOCATION_TYPE_HOST = 0,
    ACL_MEM_LOCATION_TYPE_DEVICE = 1,
    ACL_MEM_LOCATION_TYPE_UNREGISTERED = 2
} aclrtMemLocationType;

typedef struct aclrtMemLocation {
    uint32_t id;  // of the device
    aclrtMemLocationType type;
} aclrtMemLocation;

typedef struct aclrtPtrAttributes {
    aclrtMemLocation location;
    uint32_t pageSize;
    uint32_t rsv[4];
} aclrtPtrAttributes;

// Attributes of aclrtMallocWithCfg.
typedef enum aclrtMallocAttrType {
    ACL_RT_MEM_ATTR_RSV = 0,
    ACL_RT_MEM_ATTR_MODULE_ID = 1,
    ACL_RT_MEM_ATTR_DEVICE_ID = 2
} aclrtMallocAttrType;

typedef union aclrtMallocAttrValue {
    uint16_t moduleId;
    uint32_t deviceId;
    uint8_t rsv[8];
} aclrtMallocAttrValue;

typedef struct aclrtMallocAttribute {
    aclrtMallocAttrType attr;
    aclrtMallocAttrValue value;
} aclrtMallocAttribute;

typedef struct aclrtMallocConfig {
    aclrtMallocAttribute* attrs;
    size_t numAttrs;
} aclrtMallocConfig;

// Flags of aclrtCreateEventWithFlag and aclrtCreateEventExWithFlag.
#define ACL_EVENT_SYNC 0x01U
#define ACL_EVENT_CAPTURE_STREAM_PROGRESS 0x02U
#define ACL_EVENT_TIME_LINE 0x08U
#define ACL_EVENT_DEVICE_USE_ONLY 0x10U
#define ACL_EVENT_EXTERNAL 0x20U

// Flags of aclrtCreateStreamWithConfig.
#define ACL_STREAM_FAST_LAUNCH 0x01U
#define ACL_STREAM_FAST_SYNC 0x02U
#define ACL_STREAM_PERSISTENT 0x04U

// Modes of aclrtSetStreamFailureMode.
#define ACL_CONTINUE_ON_FAILURE 0U
#define ACL_STOP_ON_FAILURE 1U

typedef void (*aclrtHostFunc)(void* args);
typedef void (*aclrtCallback)(void* userData);

// ---- Errors

// The last error code of the calling thread, and ACL_SUCCESS afterwards.
ACL_FUNC_VISIBILITY aclError aclrtGetLastError(aclrtLastErrLevel level);
// The same without clearing it.
ACL_FUNC_VISIBILITY aclError aclrtPeekAtLastError(aclrtLastErrLevel level);

// ---- Devices

// Makes the default context of the device current on this thread; counts. ACL_ERROR_RT_INVALID_DEVICEID.
ACL_FUNC_VISIBILITY aclError aclrtSetDevice(int32_t deviceId);
// Takes back one aclrtSetDevice; the last one waits for outstanding work, then destroys the default context and its
// streams. A device that is not set: ACL_ERROR_RT_CONTEXT_RELEASE_ERROR.
ACL_FUNC_VISIBILITY aclError aclrtResetDevice(int32_t deviceId);
// The same whatever the count.
ACL_FUNC_VISIBILITY aclError aclrtResetDeviceForce(int32_t deviceId);
ACL_FUNC_VISIBILITY aclError aclrtGetDevice(int32_t* deviceId);
// GRADUS_DEVICES emulated ones, 8 unless set; ASCEND_RT_VISIBLE_DEVICES narrows them.
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceCount(uint32_t* count);
// Always ACL_HOST.
ACL_FUNC_VISIBILITY aclError aclrtGetRunMode(aclrtRunMode* runMode);
// The product stood in for: "Ascend910B1" unless GRADUS_SOC_NAME says otherwise.
ACL_FUNC_VISIBILITY const char* aclrtGetSocName(void);
// The version of the interface that is followed: ACL_MAJOR_VERSION and its like.
ACL_FUNC_VISIBILITY aclError aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion, int32_t* patchVersion);
// Cores of every kind are the threads that operators use; another attribute: ACL_ERROR_RT_FEATURE_NOT_SUPPORT.
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t* value);
// Emulated devices share their memory: 1 for every other device, and there is nothing to enable or disable.
ACL_FUNC_VISIBILITY aclError aclrtDeviceCanAccessPeer(int32_t* canAccessPeer, int32_t deviceId, int32_t peerDeviceId);
ACL_FUNC_VISIBILITY aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags);
ACL_FUNC_VISIBILITY aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId);
// Waits for all streams of the current context; expiry: ACL_ERROR_RT_STREAM_SYNC_TIMEOUT.
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeDevice(void);
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout);

// ---- Contexts: current per thread; a new thread has none

// A context with its own default stream, current on the creating thread.
ACL_FUNC_VISIBILITY aclError aclrtCreateContext(aclrtContext* context, int32_t deviceId);
// Unknown handle: ACL_ERROR_RT_CONTEXT_NULL.
ACL_FUNC_VISIBILITY aclError aclrtDestroyContext(aclrtContext context);
// Unknown handle: ACL_ERROR_RT_PARAM_INVALID.
ACL_FUNC_VISIBILITY aclError aclrtSetCurrentContext(aclrtContext context);
ACL_FUNC_VISIBILITY aclError aclrtGetCurrentContext(aclrtContext* context);

// Stored and given back; the operators are deterministic whatever is set. Reading what was never set:
// ACL_ERROR_RT_SYSPARAMOPT_NOT_SET for a context, the value 0 for the process.
ACL_FUNC_VISIBILITY aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value);
ACL_FUNC_VISIBILITY aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t* value);
ACL_FUNC_VISIBILITY aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value);
ACL_FUNC_VISIBILITY aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t* value);

// ---- Streams: first in, first out, asynchronous to the host, ordered among each other by events only

ACL_FUNC_VISIBILITY aclError aclrtCreateStream(aclrtStream* stream);
ACL_FUNC_VISIBILITY aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag);
// Waits for the stream's work. NULL is ACL_ERROR_INVALID_PARAM here, a stream of another context
// ACL_ERROR_RT_STREAM_CONTEXT.
ACL_FUNC_VISIBILITY aclError aclrtDestroyStream(aclrtStream stream);
// Does not wait for queued work.
ACL_FUNC_VISIBILITY aclError aclrtDestroyStreamForce(aclrtStream stream);
// These three return the stream's asynchronous error, if it has one. Expiry: ACL_ERROR_RT_STREAM_SYNC_TIMEOUT.
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeStream(aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout);
ACL_FUNC_VISIBILITY aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status);
// ACL_CONTINUE_ON_FAILURE, or ACL_STOP_ON_FAILURE: nothing runs after the first failure.
ACL_FUNC_VISIBILITY aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode);

// ---- Events

// The three kinds differ in what a stream does that waits on an event which was never recorded: the default kind
// refuses (ACL_ERROR_RT_PARAM_INVALID), WithFlag(ACL_EVENT_SYNC) waits until it is recorded, Ex does not wait.
ACL_FUNC_VISIBILITY aclError aclrtCreateEvent(aclrtEvent* event);
ACL_FUNC_VISIBILITY aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag);
ACL_FUNC_VISIBILITY aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag);
ACL_FUNC_VISIBILITY aclError aclrtDestroyEvent(aclrtEvent event);
ACL_FUNC_VISIBILITY aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);
// Forgets the record, in the order of the stream: one that is reached later counts again.
ACL_FUNC_VISIBILITY aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream);
// Waits for the record that is the newest now, whatever is recorded on the event later. A stream of another context
// than the current one: ACL_ERROR_RT_STREAM_CONTEXT, here and wherever work is given to a stream.
ACL_FUNC_VISIBILITY aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event);
// Whether all waits of streams for the event have ended.
ACL_FUNC_VISIBILITY aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus* status);
// Seconds. Accepted; a wait here lasts until its event comes.
ACL_FUNC_VISIBILITY aclError aclrtSetOpWaitTimeout(uint32_t timeout);
// Expiry: ACL_ERROR_RT_EVENT_SYNC_TIMEOUT.
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeEvent(aclrtEvent event);
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout);
ACL_FUNC_VISIBILITY aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status);
// The older form of aclrtQueryEventStatus; mind the other numbers.
ACL_FUNC_VISIBILITY aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus* status);
// Milliseconds between two records. Not recorded: ACL_ERROR_RT_INTERNAL_ERROR; recorded and not reached yet:
// ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID.
ACL_FUNC_VISIBILITY aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent);
// Microseconds.
ACL_FUNC_VISIBILITY aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t* timestamp);

// ---- Callbacks

// Runs fn(args) in the order of the stream, on a thread of the library.
ACL_FUNC_VISIBILITY aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void* args);
// The older way: callbacks of the stream run on the subscribed thread, whenever it calls aclrtProcessReport.
ACL_FUNC_VISIBILITY aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream);
// Without a subscription: ACL_ERROR_RT_STREAM_NO_CB_REG.
ACL_FUNC_VISIBILITY aclError aclrtLaunchCallback(aclrtCallback fn, void* userData, aclrtCallbackBlockType blockType,
                                                 aclrtStream stream);
// Runs what is due. Nothing to process: ACL_ERROR_RT_THREAD_SUBSCRIBE; expiry:
// ACL_ERROR_RT_REPORT_TIMEOUT.
ACL_FUNC_VISIBILITY aclError aclrtProcessReport(int32_t timeout);
ACL_FUNC_VISIBILITY aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream);

// ---- Memory

// Device memory, page aligned. The footprint is size rounded up to 32 bytes, plus 32, rounded up to pages of 2 MiB
// (above 1 MiB, or with a HUGE_ONLY policy) or 4 KiB; all of it may be used, and reads zeros where nothing was written.
// Size 0: ACL_ERROR_INVALID_PARAM; exhausted: ACL_ERROR_RT_MEMORY_ALLOCATION.
ACL_FUNC_VISIBILITY aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy policy);
// Without the extra 32 bytes.
ACL_FUNC_VISIBILITY aclError aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy policy);
// Needs no context and works after aclFinalize. Memory that queued work still uses stays alive until that work ends.
// NULL: ACL_ERROR_INVALID_PARAM; an unknown pointer, or one freed before: ACL_ERROR_RT_PARAM_INVALID.
ACL_FUNC_VISIBILITY aclError aclrtFree(void* devPtr);
// Host memory, 64-byte aligned, by the same rules.
ACL_FUNC_VISIBILITY aclError aclrtMallocHost(void** hostPtr, size_t size);
ACL_FUNC_VISIBILITY aclError aclrtFreeHost(void* hostPtr);
// As aclrtMalloc; of the attributes (NULL: none) the device's number is heeded.
ACL_FUNC_VISIBILITY aclError aclrtMallocWithCfg(void** devPtr, size_t size, aclrtMemMallocPolicy policy,
                                                aclrtMallocConfig* cfg);
// Makes the program's own memory known, so that tensors may lie in it; devPtr receives the same address. Memory that
// shares bytes with what is known already: ACL_ERROR_RT_PARAM_INVALID.
ACL_FUNC_VISIBILITY aclError aclrtHostRegister(void* ptr, uint64_t size, aclrtHostRegisterType type, void** devPtr);
ACL_FUNC_VISIBILITY aclError aclrtHostUnregister(void* ptr);
// Which device the memory is of, or that it is the host's, or that nobody has made it known.
ACL_FUNC_VISIBILITY aclError aclrtPointerGetAttributes(const void* ptr, aclrtPtrAttributes* attributes);
// The memory of the machine in bytes, or of the process's cgroup where that has less.
ACL_FUNC_VISIBILITY aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t* freeSize, size_t* totalSize);

// Copies count bytes; count 0 succeeds at once. The direction is deduced from the addresses, so a valid kind that does
// not fit succeeds. count > destMax, or a range that leaves the footprint of a device allocation:
// ACL_ERROR_RT_PARAM_INVALID. The synchronous functions first wait for queued work of the device, host functions
// included, unless GRADUS_SYNC_COPIES=0. The asynchronous ones complete before they return when the host memory is
// pageable, and refuse to copy from host to host (ACL_ERROR_RT_FEATURE_NOT_SUPPORT).
ACL_FUNC_VISIBILITY aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count,
                                         aclrtMemcpyKind kind);
ACL_FUNC_VISIBILITY aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count,
                                              aclrtMemcpyKind kind, aclrtStream stream);
// height rows of width bytes; dpitch and spitch are the bytes from one row to the next.
ACL_FUNC_VISIBILITY aclError aclrtMemcpy2d(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                                           size_t height, aclrtMemcpyKind kind);
ACL_FUNC_VISIBILITY aclError aclrtMemcpy2dAsync(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                                                size_t height, aclrtMemcpyKind kind, aclrtStream stream);
// Sets count bytes, at most maxCount, to the low byte of value.
ACL_FUNC_VISIBILITY aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count);
ACL_FUNC_VISIBILITY aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count,
                                              aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // GRADUS_ACL_ACL_RT_H
