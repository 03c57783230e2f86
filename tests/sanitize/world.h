// What the small programs of these tests share: a device, buffers, streams and events that clean up after themselves,
// and SwiGLU, the operator they call. x: [8, 32], y: [8, 16], f32.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_fused_cross_entropy_loss_with_max_sum.h"
#include "aclnnop/aclnn_scaled_masked_softmax.h"
#include "aclnnop/aclnn_swi_glu.h"
#include "aclnnop/aclnn_swi_glu_grad.h"
#include "gradus/gradus.h"
#include "hccl/hccl.h"

inline constexpr int64_t kRows = 8, kHalf = 16, kWidth = 2 * kHalf;
inline constexpr size_t kX = kRows * kWidth * 4, kY = kRows * kHalf * 4;

inline void must(int code, const char* what) {
    if (code == 0) return;
    const char* const message = aclGetRecentErrMsg();
    std::fprintf(stderr, "%s: %d %s\n", what, code, message != nullptr ? message : "");
    std::_Exit(99);
}
#define MUST(call) must(call, #call)

// A program by its name, which the first word of the command line says.
inline std::map<std::string, void (*)()>& programs() {
    static std::map<std::string, void (*)()> all;
    return all;
}
#define PROGRAM(name)                                                   \
    static void name();                                                 \
    static const bool name##_listed = (programs()[#name] = name, true); \
    static void name()

// The device takes no strided views of these operators.
inline void lift_limits() { MUST(gradusSetOption("limits", "off")); }

struct World {
    World() {
        MUST(aclInit(nullptr));
        MUST(aclrtSetDevice(0));
    }
    ~World() {
        aclrtResetDevice(0);
        aclFinalize();
    }
};

struct Buffer {
    explicit Buffer(size_t size, bool written = true) : bytes(size) {
        MUST(aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST));
        if (written) MUST(aclrtMemset(p, size, 0, size));
    }
    ~Buffer() {
        if (p != nullptr) MUST(aclrtFree(p));
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    operator void*() const { return p; }
    char* at(size_t offset) const { return static_cast<char*>(p) + offset; }
    void* p = nullptr;
    size_t bytes;
};

struct Pinned {
    explicit Pinned(size_t size) {
        MUST(aclrtMallocHost(&p, size));
        std::memset(p, 0, size);
    }
    ~Pinned() {
        if (p != nullptr) MUST(aclrtFreeHost(p));
    }
    Pinned(const Pinned&) = delete;
    Pinned& operator=(const Pinned&) = delete;
    operator void*() const { return p; }
    void* p = nullptr;
};

struct Stream {
    Stream() { MUST(aclrtCreateStream(&s)); }
    ~Stream() {
        if (s != nullptr) aclrtDestroyStream(s);
    }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    operator aclrtStream() const { return s; }
    aclrtStream s = nullptr;
};

enum class Kind { extended, flagged };
struct Event {
    explicit Event(Kind kind = Kind::extended) {
        MUST(kind == Kind::extended ? aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC)
                                    : aclrtCreateEventWithFlag(&e, ACL_EVENT_SYNC));
    }
    ~Event() { aclrtDestroyEvent(e); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    operator aclrtEvent() const { return e; }
    aclrtEvent e = nullptr;
};

// Two ranks of this process, with streams of one device.
struct Ranks {
    Ranks() {
        lift_limits();
        int32_t devices[] = {0, 1};
        MUST(HcclCommInitAll(2, devices, comms));
    }
    ~Ranks() {
        for (int r = 0; r < 2; ++r) {
            MUST(aclrtSynchronizeStream(streams[r]));
            MUST(HcclCommDestroy(comms[r]));
        }
    }
    void all_reduce(int rank, void* from, void* to) const {
        MUST(HcclAllReduce(from, to, kX / 4, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comms[rank], streams[rank]));
    }
    void send(int from, void* data) const {
        MUST(HcclSend(data, kX / 4, HCCL_DATA_TYPE_FP32, 1 - from, comms[from], streams[from]));
    }
    void receive(int to, void* data) const {
        MUST(HcclRecv(data, kX / 4, HCCL_DATA_TYPE_FP32, 1 - to, comms[to], streams[to]));
    }
    HcclComm comms[2];
    Stream streams[2];
};

// Rows of `columns` elements, `row` elements apart, `step` elements from one to the next.
inline aclTensor* tensor(void* address, int64_t columns, int64_t row = 0, int64_t offset = 0, int64_t step = 1,
                         int64_t storage = 0) {
    const int64_t size[] = {kRows, columns}, stride[] = {row == 0 ? columns * step : row, step};
    const int64_t all[] = {storage == 0 ? offset + (kRows - 1) * stride[0] + (columns - 1) * step + 1 : storage};
    return aclCreateTensor(size, 2, ACL_FLOAT, stride, offset, ACL_FORMAT_ND, all, 1, address);
}

struct Prepared {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    std::vector<aclTensor*> tensors = {};
};

inline Prepared prepare(const aclTensor* x, const aclTensor* y) {
    Prepared made;
    MUST(aclnnSwiGluGetWorkspaceSize(x, -1, y, &made.size, &made.executor));
    return made;
}

// Both phases, the tensors destroyed as soon as the device allows it.
inline void glu(const aclTensor* x, const aclTensor* y, aclrtStream stream, void* workspace = nullptr) {
    const Prepared made = prepare(x, y);
    MUST(aclnnSwiGlu(workspace, made.size, made.executor, stream));
    aclDestroyTensor(x);
    aclDestroyTensor(y);
}
inline void glu(void* x, void* y, aclrtStream stream) { glu(tensor(x, kWidth), tensor(y, kHalf), stream); }

// The operator that needs a workspace: x and y [1, 1, 8, 32] with every second element left out, a mask of bools.
inline Prepared prepare_softmax(void* x, void* mask, void* y) {
    const int64_t size[] = {1, 1, kRows, kWidth}, dense[] = {kX / 4, kX / 4, kWidth, 1};
    const int64_t gaps[] = {2 * kX / 4, 2 * kX / 4, 2 * kWidth, 2}, all[] = {2 * kX / 4};
    const auto make = [&](void* address, aclDataType type, const int64_t* stride) {
        return aclCreateTensor(size, 4, type, stride, 0, ACL_FORMAT_ND, all, 1, address);
    };
    aclTensor *tx = make(x, ACL_FLOAT, gaps), *tm = make(mask, ACL_BOOL, dense), *ty = make(y, ACL_FLOAT, dense);
    Prepared made;
    MUST(aclnnScaledMaskedSoftmaxGetWorkspaceSize(tx, tm, 1.0, false, ty, &made.size, &made.executor));
    made.tensors = {tx, tm, ty};
    return made;
}
inline void softmax(void* x, void* mask, void* y, aclrtStream stream, void* workspace) {
    const Prepared made = prepare_softmax(x, mask, y);
    MUST(aclnnScaledMaskedSoftmax(workspace, made.size, made.executor, stream));
    for (const aclTensor* tensor : made.tensors) aclDestroyTensor(tensor);
}

inline void sync(aclrtStream stream) { MUST(aclrtSynchronizeStream(stream)); }
inline void record(aclrtEvent event, aclrtStream stream) { MUST(aclrtRecordEvent(event, stream)); }
inline void wait(aclrtStream stream, aclrtEvent event) { MUST(aclrtStreamWaitEvent(stream, event)); }
inline void order(aclrtStream from, aclrtStream to, aclrtEvent event) {
    record(event, from);
    wait(to, event);
}

inline std::vector<float> read(void* from, size_t bytes = kY) {
    std::vector<float> values(bytes / 4);
    MUST(aclrtMemcpy(values.data(), bytes, from, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    return values;
}
