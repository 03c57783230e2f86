// Handles, executors, sizes and contexts that a call should not have been given.
#include <thread>

#include "planted.h"

// expect executor-reused error-ignored argument=executor
PLANTED(executor_launched_twice) {
    Buffer x(kX), y(kY);
    Stream s;
    aclTensor *tx = tensor(x, kWidth), *ty = tensor(y, kHalf);
    const Prepared made = prepare(tx, ty);
    if (mended) MUST(aclSetAclOpExecutorRepeatable(made.executor));
    MUST(aclnnSwiGlu(nullptr, made.size, made.executor, s));  // b
    aclnnSwiGlu(nullptr, made.size, made.executor, s);        // a
    sync(s);
    if (mended) MUST(aclDestroyAclOpExecutor(made.executor));
    aclDestroyTensor(tx);
    aclDestroyTensor(ty);
}

// expect stale-address error-ignored argument=x
PLANTED(repeated_with_a_freed_address) {
    Buffer x(kX), y(kY);
    Stream s;
    aclTensor *tx = tensor(x, kWidth), *ty = tensor(y, kHalf);
    const Prepared made = prepare(tx, ty);
    MUST(aclSetAclOpExecutorRepeatable(made.executor));
    MUST(aclnnSwiGlu(nullptr, made.size, made.executor, s));
    sync(s);
    MUST(aclrtFree(x.p));  // b
    MUST(aclrtMalloc(&x.p, kX, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtMemset(x, kX, 0, kX));
    if (mended) MUST(aclSetInputTensorAddr(made.executor, 0, tx, x.p));
    aclnnSwiGlu(nullptr, made.size, made.executor, s);  // a
    sync(s);
    MUST(aclDestroyAclOpExecutor(made.executor));
    aclDestroyTensor(tx);
    aclDestroyTensor(ty);
}

// expect stale-address argument=x
PLANTED(repeated_with_an_address_used_again) {
    Buffer y(kY);
    Stream s;
    void* x = nullptr;
    MUST(aclrtMalloc(&x, kX, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtMemset(x, kX, 0, kX));
    aclTensor *tx = tensor(x, kWidth), *ty = tensor(y, kHalf);
    const Prepared made = prepare(tx, ty);
    MUST(aclSetAclOpExecutorRepeatable(made.executor));
    MUST(aclnnSwiGlu(nullptr, made.size, made.executor, s));
    sync(s);
    MUST(aclrtFree(x));  // b
    const std::vector<void*> others = allocate_until(x);
    MUST(aclrtMemset(x, kX, 0, kX));
    if (mended) MUST(aclSetInputTensorAddr(made.executor, 0, tx, x));
    MUST(aclnnSwiGlu(nullptr, made.size, made.executor, s));  // a
    sync(s);
    if (mended) {  // and so does a tensor that is told its address again
        MUST(aclSetRawTensorAddr(tx, x));
        glu(tx, ty, s);
        sync(s);
    } else {
        aclDestroyTensor(tx);
        aclDestroyTensor(ty);
    }
    MUST(aclDestroyAclOpExecutor(made.executor));
    for (void* other : others) MUST(aclrtFree(other));
}

// expect destroyed-between-phases argument=x
PLANTED(tensor_destroyed_between_the_phases) {
    Buffer x(kX), y(kY);
    Stream s;
    aclTensor *tx = tensor(x, kWidth), *ty = tensor(y, kHalf);
    const Prepared made = prepare(tx, ty);
    if (!mended) aclDestroyTensor(tx);                        // b
    MUST(aclnnSwiGlu(nullptr, made.size, made.executor, s));  // a
    if (mended) aclDestroyTensor(tx);
    aclDestroyTensor(ty);
    sync(s);
}

// expect api-error bad-handle error-ignored
PLANTED(failed_phase_one_launched) {
    Buffer x(kX), y(kY);
    Stream s;
    uint64_t size = 0;
    aclOpExecutor* executor = reinterpret_cast<aclOpExecutor*>(0x7000);
    aclTensor *tx = tensor(x, mended ? kWidth : kWidth - 1), *ty = tensor(y, kHalf);
    aclnnSwiGluGetWorkspaceSize(tx, -1, ty, &size, &executor);  // a
    aclnnSwiGlu(nullptr, size, executor, s);
    aclDestroyTensor(tx);
    aclDestroyTensor(ty);
}

// expect api-error error-ignored function=aclnnSwiGluGetWorkspaceSize
PLANTED(one_of_two_first_phases_failed) {
    Buffer x(kX), y(kY), z(kY);
    Stream s;
    aclTensor *a = tensor(x, mended ? kWidth : kWidth - 1), *b = tensor(y, kHalf);
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    aclnnSwiGluGetWorkspaceSize(a, -1, b, &size, &executor);  // a
    if (mended) MUST(aclnnSwiGlu(nullptr, size, executor, s));
    aclDestroyTensor(a);
    aclDestroyTensor(b);
    glu(x, z, s);
    sync(s);
}

// expect workspace-size error-ignored uninitialised-copy argument=workspaceSize
PLANTED(workspace_too_small) {
    lift_limits();
    Buffer x(2 * kX), mask(kX), y(kX, false), workspace(1 << 20);
    Stream s;
    const Prepared made = prepare_softmax(x, mask, y);
    aclnnScaledMaskedSoftmax(workspace, mended ? made.size : made.size - 1, made.executor, s);  // a
    sync(s);
    read(y);
    for (const aclTensor* one : made.tensors) aclDestroyTensor(one);
}

// expect context error-ignored code=107002 says=(thread_ says=a_stream_was_made_by says=a_context_was_made_by
PLANTED(thread_without_a_device) {
    const Stream s;
    std::thread([] {
        if (mended) MUST(aclrtSetDevice(0));
        void* p = nullptr;
        aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST);  // a
        if (p != nullptr) MUST(aclrtFree(p));
        if (mended) aclrtResetDevice(0);
    }).join();
}

// expect context code=107002 says=(thread_ says=the_stream_was_made_by_aclrtCreateStream
PLANTED(stream_used_by_a_thread_without_a_device) {
    Buffer x(kX), y(kY);
    Stream s;  // b
    std::thread([&] {
        if (mended) MUST(aclrtSetDevice(0));
        glu(x, y, s);  // a
        if (mended) MUST(aclrtResetDevice(0));
    }).join();
}

// expect context error-ignored says=the_stream_was_made_by_aclrtCreateStream
PLANTED(stream_of_another_device) {
    Buffer x(kX);
    Stream s;  // b
    MUST(aclrtSetDevice(1));
    if (mended) MUST(aclrtSetDevice(0));
    aclrtMemsetAsync(x, kX, 0, kX, s);  // a
    if (!mended) MUST(aclrtSetDevice(0));
    sync(s);
    MUST(aclrtResetDevice(1));
    MUST(aclrtResetDevice(0));
}

// Device 1 is current while it lives.
struct OtherDevice {
    OtherDevice() { MUST(aclrtSetDevice(1)); }
    ~OtherDevice() {
        MUST(aclrtResetDevice(1));
        MUST(aclrtSetDevice(0));
        MUST(aclrtResetDevice(0));  // the first one stays
    }
};

// expect context
PLANTED(event_of_another_device_recorded) {
    Event mine;
    Stream s;
    aclrtEvent theirs = nullptr;
    {
        const OtherDevice other;
        MUST(aclrtCreateEventExWithFlag(&theirs, ACL_EVENT_SYNC));  // b
    }
    record(mended ? mine.e : theirs, s);  // a
    sync(s);
    MUST(aclrtDestroyEvent(theirs));
}

// expect context
PLANTED(event_of_another_device_waited_for) {
    Stream s;
    aclrtEvent theirs = nullptr;
    aclrtStream stream = nullptr;
    MUST(aclrtSetDevice(1));
    MUST(aclrtCreateEventExWithFlag(&theirs, ACL_EVENT_SYNC));  // b
    MUST(aclrtCreateStream(&stream));
    record(theirs, stream);
    MUST(aclrtSetDevice(0));
    if (mended)
        MUST(aclrtSynchronizeEvent(theirs));  // which any thread may
    else
        wait(s, theirs);  // a
    sync(s);
    MUST(aclrtDestroyEvent(theirs));
    MUST(aclrtResetDevice(1));
    MUST(aclrtResetDevice(0));
}

// expect bad-handle argument=stream says=the_address_of_the_handle_was_given
PLANTED(address_of_a_stream_destroyed) {
    aclrtStream s = nullptr;
    MUST(aclrtCreateStream(&s));
    if (!mended) aclrtDestroyStream(&s);  // a
    MUST(aclrtDestroyStream(s));
}
