// Programs with one mistake each, and, with a second argument, the same without it.
//   planted NAME [mended]
// test_planted.py reads here what each must give: `expect` names the ids, `argument` is the one that the first finding
// names; its two stacks go through the lines that end with a and b.
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cstdlib>

#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <thread>

#include "world.h"

static bool mended = false;

#define PLANTED(name) PROGRAM(name)

// expect race argument=src
PLANTED(read_too_early) {
    Buffer x(kX), y(kY);
    Stream s;
    glu(x, y, s);  // b
    if (mended) sync(s);
    read(y);  // a
}

// expect race argument=src
PLANTED(record_before_the_launch) {
    Buffer x(kX), y(kY);
    Event e;
    Stream s;
    if (!mended) record(e, s);
    glu(x, y, s);  // b
    if (mended) record(e, s);
    MUST(aclrtSynchronizeEvent(e));
    read(y);  // a
}

// expect race argument=src
PLANTED(other_stream_synchronised) {
    Buffer x(kX), y(kY);
    Stream s, other;
    glu(x, y, s);  // b
    sync(mended ? s : other);
    read(y);  // a
}

// expect race error-ignored argument=src
PLANTED(timeout_expired) {
    Buffer x(kX), y(kY);
    Event e(Kind::flagged);
    Stream s, other;
    wait(s, e);
    glu(x, y, s);  // b
    if (mended) record(e, other);
    aclrtSynchronizeStreamWithTimeout(s, mended ? 10000 : 1);
    if (!mended) record(e, other);
    read(y);  // a
}

// expect race error-ignored argument=src
PLANTED(timeout_expired_behind_a_callback) {
    Buffer x(kX), y(kY);
    Stream s;
    MUST(aclrtLaunchHostFunc(
        s, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }, nullptr));
    glu(x, y, s);  // b
    while (aclrtSynchronizeStreamWithTimeout(s, 1) != 0 && mended) {
    }
    read(y);  // a
}

// expect race error-ignored argument=src
PLANTED(timeout_of_an_event_expired_behind_a_callback) {
    Buffer x(kX), y(kY);
    Event e;
    Stream s;
    MUST(aclrtLaunchHostFunc(
        s, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }, nullptr));
    glu(x, y, s);  // b
    record(e, s);
    while (aclrtSynchronizeEventWithTimeout(e, 1) != 0 && mended) {
    }
    read(y);  // a
}

// What has surely ended by then is not known to: a timeout tells nothing.
// expect race error-ignored argument=src
PLANTED(timeout_expired_behind_the_result) {
    Buffer x(kX), y(kY);
    Event e(Kind::flagged);
    Stream s, other;
    glu(x, y, s);  // b
    wait(s, e);
    if (mended) record(e, other);
    aclrtSynchronizeStreamWithTimeout(s, mended ? 10000 : 1);
    read(y);  // a
    if (!mended) record(e, other);
}

// expect race free-in-use argument=src
PLANTED(stream_destroyed_by_force) {
    Buffer y(kY);
    aclrtStream s = nullptr;
    MUST(aclrtCreateStream(&s));
    MUST(aclrtMemsetAsync(y, kY, 0, kY, s));  // b
    MUST(mended ? aclrtDestroyStream(s) : aclrtDestroyStreamForce(s));
    read(y);  // a
}

// expect race argument=src
PLANTED(stream_asked_once) {
    Buffer x(kX), y(kX), z(kY);
    Stream s;
    glu(x, y, s);
    glu(y, z, s);  // b
    aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
    do MUST(aclrtStreamQuery(s, &status));
    while (mended && status != ACL_STREAM_STATUS_COMPLETE);
    read(z);  // a
}

// expect race argument=src
PLANTED(event_asked_once) {
    Buffer x(kX), y(kX), z(kY);
    Event e;
    Stream s;
    glu(x, y, s);
    glu(y, z, s);  // b
    record(e, s);
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    do MUST(aclrtQueryEventStatus(e, &status));
    while (mended && status != ACL_EVENT_RECORDED_STATUS_COMPLETE);
    read(z);  // a
}

// Asked for while another thread waits for the stream, which does not wait for this.
// expect race argument=src
PLANTED(asked_for_after_the_wait_began) {
    Buffer x(kX), y(kY);
    Event e(Kind::flagged);
    Stream s, other;
    std::atomic<bool> begun = false;
    wait(s, e);
    std::thread waiter([&] {
        begun = true;
        sync(s);
    });
    while (!begun) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    glu(x, y, s);  // b
    record(e, other);
    waiter.join();
    if (mended) sync(s);
    read(y);  // a
}

// expect race argument=x
PLANTED(no_event_between) {
    Buffer x(kX), y(kX), z(kY);
    Event e;
    Stream s1, s2;
    glu(x, y, s1);  // b
    if (mended) order(s1, s2, e);
    glu(y, z, s2);  // a
}

// expect race argument=x
PLANTED(wait_before_record) {
    Buffer x(kX), y(kX), z(kY);
    Event e;
    Stream s1, s2;
    if (!mended) wait(s2, e);
    glu(x, y, s1);  // b
    record(e, s1);
    if (mended) wait(s2, e);
    glu(y, z, s2);  // a
}

// expect race argument=x
PLANTED(waits_for_the_old_record) {
    Buffer x(kX), y(kX), z(kY);
    Event e;
    Stream s1, s2;
    record(e, s1);
    if (!mended) wait(s2, e);
    glu(x, y, s1);  // b
    record(e, s1);
    if (mended) wait(s2, e);
    glu(y, z, s2);  // a
}

// expect race argument=x
PLANTED(record_on_the_wrong_stream) {
    Buffer x(kX), y(kX), z(kY);
    Event e;
    Stream s1, s2, s3;
    glu(x, y, s1);  // b
    record(e, mended ? s1 : s3);
    wait(s2, e);
    glu(y, z, s2);  // a
}

// expect race argument=devPtr
PLANTED(overwritten_while_read) {
    Buffer x(kX), y(kY);
    Event e;
    Stream s1, s2;
    glu(x, y, s1);  // b
    if (mended) order(s1, s2, e);
    MUST(aclrtMemsetAsync(x, kX, 0, kX, s2));  // a
}

// expect race argument=out
PLANTED(two_outputs_in_one_buffer) {
    Buffer x(kX), y(kY);
    Event e;
    Stream s1, s2;
    glu(x, y, s1);  // b
    if (mended) order(s1, s2, e);
    glu(x, y, s2);  // a
}

// expect race argument=out
PLANTED(views_that_overlap) {
    lift_limits();
    Buffer x(kX), all(2 * kX), one(1 << 20), two(1 << 20);
    Stream s1, s2;
    // columns 0, 2, 4, … and 2, 4, … again; mended: 1, 3, 5, …
    glu(tensor(x, kWidth), tensor(all, kHalf, kWidth, 0, 2), s1, one);               // b
    glu(tensor(x, kWidth), tensor(all, kHalf, kWidth, mended ? 1 : 2, 2), s2, two);  // a
}

// Two views with 8 strides each, without any order: nobody can tell in time that they share no byte.
struct Tangle {
    explicit Tangle(uint64_t noise) {
        for (int d = 0; d < 8; ++d) {
            noise = noise * 6364136223846793005u + 1442695040888963407u;
            stride[d] = (1 << 14) + static_cast<int64_t>(noise >> 50);
        }
    }
    int64_t stride[8];
};

// expect race argument=out level=warning
PLANTED(strides_beyond_counting) {
    lift_limits();
    const int64_t in[] = {4, 2, 2, 2, 2, 2, 2, 2}, out[] = {2, 2, 2, 2, 2, 2, 2, 2}, storage[] = {1 << 18};
    Buffer all(4 << 18), x(4 * 512), y(4 * 256), one(1 << 20), two(1 << 20);
    Event e;
    Stream s1, s2;
    const auto call = [&](const int64_t* in_stride, void* from, const int64_t* out_stride, int64_t offset, void* to,
                          aclrtStream stream, void* workspace) {
        aclTensor* const a = aclCreateTensor(in, 8, ACL_FLOAT, in_stride, 0, ACL_FORMAT_ND, storage, 1, from);
        aclTensor* const b = aclCreateTensor(out, 8, ACL_FLOAT, out_stride, offset, ACL_FORMAT_ND, storage, 1, to);
        Prepared made;
        MUST(aclnnSwiGluGetWorkspaceSize(a, 0, b, &made.size, &made.executor));
        MUST(aclnnSwiGlu(workspace, made.size, made.executor, stream));
        aclDestroyTensor(a);
        aclDestroyTensor(b);
    };
    call(Tangle(1).stride, all, nullptr, 0, y, s1, one);  // b
    if (mended) order(s1, s2, e);
    call(nullptr, x, Tangle(2).stride, 1, all, s2, two);  // a
}

// What is read depends on the mask: the report says so.
// expect race argument=devPtr declared=yes level=error
PLANTED(scores_overwritten_while_read) {
    lift_limits();
    Buffer x(2 * kX), mask(kX), y(kX), workspace(1 << 20);
    Event e;
    Stream s1, s2;
    softmax(x, mask, y, s1, workspace);  // b
    if (mended) order(s1, s2, e);
    MUST(aclrtMemsetAsync(x, kX, 0, kX, s2));  // a
}

// expect uninitialised argument=x level=warning
PLANTED(scores_written_in_part) {
    lift_limits();
    Buffer x(2 * kX, mended), mask(kX), y(kX), workspace(1 << 20);
    Stream s;
    MUST(aclrtMemset(x, 2 * kX, 0, kX));
    softmax(x, mask, y, s, workspace);  // a
    sync(s);
}

// expect uninitialised argument=x level=error
PLANTED(scores_never_written) {
    lift_limits();
    Buffer x(2 * kX, mended), mask(kX), y(kX), workspace(1 << 20);
    Stream s;
    softmax(x, mask, y, s, workspace);  // a
    sync(s);
}

// expect race argument=workspace
PLANTED(one_workspace_on_two_streams) {
    lift_limits();
    Buffer x(2 * kX), mask(kX), y(kX), z(kX), one(1 << 20), two(1 << 20);
    Stream s1, s2;
    softmax(x, mask, y, s1, one);                     // b
    softmax(x, mask, z, s2, mended ? two.p : one.p);  // a
}

// expect free-in-use argument=workspace
PLANTED(workspace_freed_at_once) {
    lift_limits();
    Buffer x(2 * kX), mask(kX), y(kX);
    Stream s;
    void* workspace = nullptr;
    MUST(aclrtMalloc(&workspace, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    softmax(x, mask, y, s, workspace);  // b
    if (mended) sync(s);
    MUST(aclrtFree(workspace));  // a
}

// expect free-in-use argument=x
PLANTED(input_freed_at_once) {
    Buffer x(kX), y(kY);
    Stream s;
    glu(x, y, s);  // b
    if (mended) sync(s);
    MUST(aclrtFree(x.p));  // a
    x.p = nullptr;
}

// expect free-in-use argument=out
PLANTED(output_freed_at_once) {
    Buffer x(kX), y(kY);
    Stream s;
    glu(x, y, s);  // b
    if (mended) sync(s);
    MUST(aclrtFree(y.p));  // a
    y.p = nullptr;
}

// expect use-after-free error-ignored argument=x
PLANTED(tensor_of_freed_memory) {
    Buffer x(kX), y(kY);
    Stream s;
    aclTensor *tx = tensor(x, kWidth), *ty = tensor(y, kHalf);
    if (!mended) {
        MUST(aclrtFree(x.p));  // b
        MUST(aclrtMalloc(&x.p, kX, ACL_MEM_MALLOC_HUGE_FIRST));
        MUST(aclrtMemset(x, kX, 0, kX));
    }
    const Prepared made = prepare(tx, ty);
    aclnnSwiGlu(nullptr, made.size, made.executor, s);  // a
    aclDestroyTensor(tx);
    aclDestroyTensor(ty);
}

// expect use-after-free error-ignored argument=src
PLANTED(copy_of_freed_memory) {
    Buffer x(kX), y(kX);
    char host[16];
    MUST(aclrtFree(y.p));                                                      // b
    aclrtMemcpy(host, 16, mended ? x.p : y.p, 16, ACL_MEMCPY_DEVICE_TO_HOST);  // a
    y.p = nullptr;
}

// Without a quarantine the kernel gives the same pages out again, if it is asked often enough.
static std::vector<void*> allocate_until(const void* address) {
    std::vector<void*> all;
    for (void* fresh = nullptr; fresh != address && all.size() < 1000; all.push_back(fresh))
        MUST(aclrtMalloc(&fresh, kX, ACL_MEM_MALLOC_HUGE_FIRST));
    return all;
}

// expect address-reused argument=x
PLANTED(address_used_again) {
    Buffer y(kY);
    Stream s;
    void* x = nullptr;
    MUST(aclrtMalloc(&x, kX, ACL_MEM_MALLOC_HUGE_FIRST));
    aclTensor *tx = tensor(x, kWidth), *ty = tensor(y, kHalf);
    MUST(aclrtFree(x));  // b
    const std::vector<void*> others = allocate_until(x);
    MUST(aclrtMemset(x, kX, 0, kX));
    if (mended) {
        aclDestroyTensor(tx);
        tx = tensor(x, kWidth);
    }
    const Prepared made = prepare(tx, ty);
    MUST(aclnnSwiGlu(nullptr, made.size, made.executor, s));  // a
    aclDestroyTensor(tx);
    aclDestroyTensor(ty);
    sync(s);
    for (void* other : others) MUST(aclrtFree(other));
}

// expect host-touches-inflight argument=src
PLANTED(pinned_source_overwritten) {
    Buffer x(8192);
    Pinned host(8192);
    Stream s;
    MUST(aclrtMemcpyAsync(x, 8192, host, 8192, ACL_MEMCPY_HOST_TO_DEVICE, s));  // b
    if (mended) sync(s);
    static_cast<volatile char*>(host.p)[5000] = 1;  // a
}

// expect host-touches-inflight argument=src
PLANTED(pinned_source_of_several_copies_overwritten) {
    constexpr size_t kPart = 1024, kAll = 8 * kPart;  // a page is filled by several
    Buffer x(kAll);
    Pinned h(kAll);
    Stream s;
    for (size_t at = 0; at < kAll; at += kPart)
        MUST(aclrtMemcpyAsync(x.at(at), kPart, static_cast<char*>(h.p) + at, kPart, ACL_MEMCPY_HOST_TO_DEVICE, s));
    if (mended) sync(s);
    static_cast<volatile char*>(h.p)[5000] = 1;  // a
    sync(s);
}

// expect host-touches-inflight argument=dst
PLANTED(pinned_result_read_too_early) {
    Buffer x(8192);
    Pinned host(8192);
    Stream s;
    MUST(aclrtMemcpyAsync(host, 8192, x, 8192, ACL_MEMCPY_DEVICE_TO_HOST, s));  // b
    if (mended) sync(s);
    (void)static_cast<volatile char*>(host.p)[100];  // a
}

// expect host-free-in-use argument=src
PLANTED(pinned_freed_at_once) {
    Buffer x(8192);
    Pinned host(8192);
    Stream s;
    MUST(aclrtMemcpyAsync(x, 8192, host, 8192, ACL_MEMCPY_HOST_TO_DEVICE, s));  // b
    if (mended) sync(s);
    MUST(aclrtFreeHost(host.p));  // a
    host.p = nullptr;
}

// expect host-touches-device
PLANTED(host_reads_device_memory) {
    Buffer x(kX);
    float value = 0;
    if (mended)
        MUST(aclrtMemcpy(&value, 4, x, 4, ACL_MEMCPY_DEVICE_TO_HOST));
    else
        value = *static_cast<volatile float*>(x.p);  // a
    if (value != 0) std::abort();
}

// expect host-touches-device
PLANTED(host_writes_device_memory) {
    Buffer x(kX);
    const float value = 7;
    if (mended)
        MUST(aclrtMemcpy(x.at(64), 4, &value, 4, ACL_MEMCPY_HOST_TO_DEVICE));
    else
        *reinterpret_cast<volatile float*>(x.at(64)) = value;  // a
    if (read(x, kX)[16] != 7) std::abort();
}

// Once told, what the host has written counts as written.
// expect host-touches-device
PLANTED(host_fills_an_input) {
    Buffer x(kX, false), y(kY);
    Stream s;
    if (mended)
        MUST(aclrtMemset(x, kX, 0, kX));
    else
        std::memset(x.p, 0, kX);  // a
    glu(x, y, s);
    sync(s);
}

// expect host-touches-device
PLANTED(host_touches_device_memory_with_a_small_stack_for_signals) {
    constexpr size_t kPage = 4096, kStack = 8192;
    void* const map = mmap(nullptr, kPage + kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(map, kPage, PROT_NONE);  // below it
    stack_t stack{};
    stack.ss_sp = static_cast<char*>(map) + kPage;
    stack.ss_size = kStack;
    sigaltstack(&stack, nullptr);
    Buffer x(kX);
    if (!mended) *static_cast<volatile char*>(x.p) = 1;  // a
}

// expect host-touches-device
PLANTED(host_touches_device_memory_behind_a_handler_of_its_own) {
    Buffer x(kX);
    struct sigaction own {};
    own.sa_handler = [](int) { std::_Exit(97); };
    sigaction(SIGSEGV, &own, nullptr);
    MUST(aclrtSynchronizeDevice());
    if (!mended) *static_cast<volatile char*>(x.p) = 1;  // a
}

// expect out-of-footprint error-ignored argument=x
PLANTED(host_memory_as_a_tensor) {
    Buffer x(kX), y(kY);
    Stream s;
    std::vector<float> host(kX / 4);
    aclTensor *tx = tensor(mended ? x.p : host.data(), kWidth), *ty = tensor(y, kHalf);
    const Prepared made = prepare(tx, ty);
    aclnnSwiGlu(nullptr, made.size, made.executor, s);  // a
    aclDestroyTensor(tx);
    aclDestroyTensor(ty);
}

// expect uninitialised argument=x
PLANTED(input_never_written) {
    Buffer x(kX, mended), y(kY);
    Stream s;
    glu(x, y, s);  // a
    sync(s);
}

// expect uninitialised argument=sendBuf
PLANTED(nothing_written_to_send) {
    Buffer a(kX, mended), b(kX), c(kX), d(kX);
    const Ranks ranks;
    ranks.all_reduce(0, a, b);  // a
    ranks.all_reduce(1, c, d);
}

// expect uninitialised argument=x
PLANTED(half_an_input_written) {
    Buffer x(kX, false), y(kY);
    Stream s;
    std::vector<char> host(kX);
    const size_t bytes = mended ? kX : kX / 2;
    MUST(aclrtMemcpy(x, kX, host.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    glu(x, y, s);  // a
    sync(s);
}

// expect uninitialised-copy argument=src
PLANTED(wrong_buffer_copied_back) {
    Buffer x(kX), y(kY, false), z(kY, false);
    Stream s;
    glu(x, y, s);
    sync(s);
    read(mended ? y : z);  // a
}

// expect beyond-size uninitialised-copy argument=src
PLANTED(halves_read_as_floats) {
    Buffer y(kY / 2);
    std::vector<char> host(kY);
    const size_t bytes = mended ? kY / 2 : kY / 2 + 16;
    MUST(aclrtMemcpy(host.data(), kY, y, bytes, ACL_MEMCPY_DEVICE_TO_HOST));  // a
}

// expect out-of-footprint error-ignored argument=src
PLANTED(read_beyond_the_memory) {
    Buffer y(kY);
    std::vector<char> host(8192);
    const size_t bytes = mended ? kY : 8192;
    aclrtMemcpy(host.data(), 8192, y, bytes, ACL_MEMCPY_DEVICE_TO_HOST);  // a
}

// expect beyond-size argument=out
PLANTED(one_row_too_far) {
    Buffer x(kX), y(kY);
    Stream s;
    glu(tensor(x, kWidth), tensor(y, kHalf, 0, mended ? 0 : kHalf), s);  // a
    sync(s);
}

// expect out-of-footprint error-ignored argument=out
PLANTED(one_row_beyond_the_storage) {
    Buffer x(kX), y(2 * kY);
    Stream s;
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    aclTensor *tx = tensor(x, kWidth), *ty = tensor(y, kHalf, 0, mended ? 0 : kHalf, 1, kRows * kHalf);
    const int code = aclnnSwiGluGetWorkspaceSize(tx, -1, ty, &size, &executor);  // a
    if (code == 0) MUST(aclnnSwiGlu(nullptr, size, executor, s));
    aclDestroyTensor(tx);
    aclDestroyTensor(ty);
}

// expect overlap error-ignored argument=out
PLANTED(output_inside_the_input) {
    Buffer x(kX), y(kY);
    Stream s;
    aclTensor *tx = tensor(x, kWidth), *ty = tensor(mended ? y.p : x.at(kX / 2), kHalf);
    const Prepared made = prepare(tx, ty);
    aclnnSwiGlu(nullptr, made.size, made.executor, s);  // a
    aclDestroyTensor(tx);
    aclDestroyTensor(ty);
}

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

// expect leak what=executor
PLANTED(executor_left) {
    Buffer x(kX), y(kY);
    Stream s;
    aclTensor *tx = tensor(x, kWidth), *ty = tensor(y, kHalf);
    const Prepared made = prepare(tx, ty);  // a
    MUST(aclSetAclOpExecutorRepeatable(made.executor));
    MUST(aclnnSwiGlu(nullptr, made.size, made.executor, s));
    sync(s);
    if (mended) MUST(aclDestroyAclOpExecutor(made.executor));
    aclDestroyTensor(tx);
    aclDestroyTensor(ty);
}

// expect leak what=communicator
PLANTED(communicator_left) {
    HcclComm comm = nullptr;
    int32_t device = 0;
    MUST(HcclCommInitAll(1, &device, &comm));  // a
    if (mended) MUST(HcclCommDestroy(comm));
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

// expect context error-ignored
PLANTED(thread_without_a_device) {
    std::thread([] {
        if (mended) MUST(aclrtSetDevice(0));
        void* p = nullptr;
        aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST);  // a
        if (p != nullptr) MUST(aclrtFree(p));
        if (mended) aclrtResetDevice(0);
    }).join();
}

// expect context
PLANTED(stream_used_by_a_thread_without_a_device) {
    Buffer x(kX), y(kY);
    Stream s;  // b
    std::thread([&] {
        if (mended) MUST(aclrtSetDevice(0));
        glu(x, y, s);  // a
        if (mended) MUST(aclrtResetDevice(0));
    }).join();
}

// expect context error-ignored
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

// expect bad-handle
PLANTED(address_of_a_stream_destroyed) {
    aclrtStream s = nullptr;
    MUST(aclrtCreateStream(&s));
    if (!mended) aclrtDestroyStream(&s);  // a
    MUST(aclrtDestroyStream(s));
}

// expect bad-free error-ignored
PLANTED(freed_twice) {
    void* p = nullptr;
    MUST(aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtFree(p));         // b
    if (!mended) aclrtFree(p);  // a
}

// expect bad-free error-ignored
PLANTED(host_memory_freed_as_the_device_s) {
    Pinned host(64);
    if (!mended) aclrtFree(host.p);  // a
}

// expect bad-free
PLANTED(freed_in_the_middle) {
    Buffer x(kX);
    if (!mended) aclrtFree(x.at(16));  // a
}

// expect leak
PLANTED(everything_left) {
    auto* const x = new Buffer(kX);  // a
    auto* const y = new Buffer(kX);
    auto* const s = new Stream;
    auto* const e = new Event;
    aclTensor *one = tensor(*x, kWidth), *two = tensor(*y, kWidth), *three = tensor(*y, kWidth);
    const aclTensor* both[] = {two, three};
    aclTensorList* const list = aclCreateTensorList(both, 2);
    if (!mended) std::exit(0);  // before the device is reset, which would end its streams
    aclDestroyTensorList(list);
    aclDestroyTensor(one);
    delete s;
    delete e;
    delete x;
    delete y;
}

// expect not-waited-for leak
PLANTED(exit_with_work_queued) {
    auto* const x = new Buffer(kX);
    auto* const y = new Buffer(kY);
    auto* const s = new Stream;
    glu(*x, *y, *s);  // a
    if (mended) {
        sync(*s);
        delete s;
        delete y;
        delete x;
    }
    std::exit(0);
}

// expect not-waited-for leak
PLANTED(exit_with_a_callback_queued) {
    const auto slow = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); };
    aclrtStream stream = nullptr;
    MUST(aclrtCreateStream(&stream));
    MUST(aclrtLaunchHostFunc(stream, slow, nullptr));  // a
    MUST(aclrtLaunchHostFunc(stream, slow, nullptr));  // a
    if (mended) MUST(aclrtDestroyStream(stream));
    std::exit(0);
}

// expect deadlock
PLANTED(nobody_records) {
    Buffer x(kX), y(kY);
    Event e(Kind::flagged);
    Stream s, other;
    wait(s, e);  // b
    if (mended) record(e, other);
    sync(s);  // a
}

static aclrtStream stream_of_callback = nullptr;
static Buffer *callback_x = nullptr, *callback_y = nullptr;

// expect deadlock function=aclrtSynchronizeStream
PLANTED(two_streams_wait_for_each_other) {
    Event e1(Kind::flagged), e2(Kind::flagged);
    Stream s1, s2;
    if (mended) record(e2, s2);
    wait(s1, e2);  // b
    record(e1, s1);
    wait(s2, e1);  // b
    record(e2, s2);
    sync(s1);  // a
}

// Told after 5 seconds, because the other thread may yet do it; and it does.
// expect deadlock function=aclrtSynchronizeStream
PLANTED(another_thread_records_late) {
    Event e(Kind::flagged);
    Stream s, other;
    wait(s, e);  // b
    std::thread thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(mended ? 10 : 7000));
        MUST(aclrtSetDevice(0));
        record(e, other);
        MUST(aclrtResetDevice(0));
    });
    sync(s);  // a
    thread.join();
}

// expect portability
PLANTED(callback_launches) {
    Buffer x(kX), y(kY);
    Stream s, other;
    stream_of_callback = other;
    callback_x = &x;
    callback_y = &y;
    const auto body = [](void*) {
        MUST(aclrtMemsetAsync(*callback_x, kX, 0, kX, stream_of_callback));  // a
    };
    if (mended) {
        sync(s);
        MUST(aclrtMemsetAsync(x, kX, 0, kX, other));
    } else {
        MUST(aclrtLaunchHostFunc(s, body, nullptr));
    }
    sync(s);
    sync(other);
}

// expect portability
PLANTED(callback_records_what_is_waited_for) {
    static aclrtEvent event = nullptr;
    static aclrtStream third = nullptr;
    Event e(Kind::flagged);
    Stream s1, s2, s3;
    event = e;
    third = s3;
    const auto record_later = [](void*) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        aclrtRecordEvent(event, third);  // a
    };
    if (!mended) MUST(aclrtLaunchHostFunc(s2, record_later, nullptr));
    wait(s1, e);
    if (mended) record(e, s3);
    sync(s1);
    sync(s2);
}

// expect portability
PLANTED(callback_launches_an_operator) {
    Buffer x(kX), y(kY);
    Stream s, other;
    stream_of_callback = other;
    callback_x = &x;
    callback_y = &y;
    const auto body = [](void*) {
        glu(*callback_x, *callback_y, stream_of_callback);  // a
    };
    if (mended)
        glu(x, y, other);
    else
        MUST(aclrtLaunchHostFunc(s, body, nullptr));
    sync(s);
    sync(other);
}

// expect race argument=src
PLANTED(callback_reads_what_later_work_writes) {
    Buffer x(kX), y(kY);
    Stream s;
    callback_y = &y;
    MUST(aclrtSubscribeReport(pthread_self(), s));
    if (mended) glu(x, y, s);
    if (mended) sync(s);
    const auto body = [](void*) {
        if (!mended) read(*callback_y);  // a
    };
    MUST(aclrtLaunchCallback(body, nullptr, ACL_CALLBACK_NO_BLOCK, s));
    if (!mended) glu(x, y, s);  // b
    MUST(aclrtProcessReport(-1));
    MUST(aclrtUnSubscribeReport(pthread_self(), s));
}

// expect race argument=out
PLANTED(in_place_while_read) {
    Buffer x(kX), g(kY), y(kY);
    Event e;
    Stream s1, s2;
    glu(x, y, s1);  // b
    if (mended) order(s1, s2, e);
    aclTensor *ty = tensor(g, kHalf), *tx = tensor(x, kWidth);
    Prepared made;
    MUST(aclnnSwiGluGradGetWorkspaceSize(ty, tx, -1, tx, &made.size, &made.executor));
    MUST(aclnnSwiGluGrad(nullptr, made.size, made.executor, s2));  // a
    aclDestroyTensor(ty);
    aclDestroyTensor(tx);
}

// expect race argument=dst
PLANTED(rows_of_a_copy_reach_too_far) {
    lift_limits();
    Buffer x(kX), all(2 * kX), from(kX), one(1 << 20);
    Stream s1, s2;
    glu(tensor(x, kWidth), tensor(all, kHalf, kWidth), s1, one);  // b
    const size_t width = 4 * kHalf;
    MUST(aclrtMemcpy2dAsync(all.at(mended ? width : width - 4), 4 * kWidth, from, 4 * kWidth, width, kRows,  // a
                            ACL_MEMCPY_DEVICE_TO_DEVICE, s2));                                               // a
}

// expect race argument=x
PLANTED(collective_s_result_used_too_early) {
    Buffer x(kX), y(kY);
    Event e;
    Stream s1, s2;
    HcclComm comm = nullptr;
    int32_t device = 0;
    MUST(HcclCommInitAll(1, &device, &comm));
    MUST(HcclAllReduce(x, x, kX / 4, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, s1));  // b
    if (mended) order(s1, s2, e);
    glu(x, y, s2);  // a
    sync(s1);
    MUST(HcclCommDestroy(comm));
}

// expect race argument=x
PLANTED(first_of_two_parts_of_a_buffer) {
    Buffer x(kX), all(2 * kX), z(kY);
    Event e;
    Stream s1, s2;
    glu(x, all, s1);  // b
    glu(x, all.at(kX), s1);
    if (mended) order(s1, s2, e);
    glu(all, z, s2);  // a
}

// expect host-touches-device
PLANTED(callback_writes_device_memory) {
    Buffer x(kX);
    static char own[kX];
    Stream s;
    MUST(aclrtLaunchHostFunc(
        s, [](void* data) { *static_cast<volatile char*>(data) = 1; }, mended ? own : x.p));
    sync(s);
}

// expect race argument=recvBuf
PLANTED(ranks_share_a_receive_buffer) {
    Buffer x(kX), y(kX), z(kX);
    const Ranks ranks;
    ranks.all_reduce(0, x, y);               // a
    ranks.all_reduce(1, x, mended ? z : y);  // b
}

// expect race argument=devPtr
PLANTED(last_block_of_a_collective_written) {
    Buffer x(4096), y(4096);
    Stream other;
    const Ranks ranks;
    const auto exchange = [&](int rank, void* from, void* to) {
        const uint64_t counts[] = {64, 64}, displacements[] = {0, 256};
        return HcclAlltoAllV(from, counts, displacements, HCCL_DATA_TYPE_FP32, to, counts, displacements,
                             HCCL_DATA_TYPE_FP32, ranks.comms[rank], ranks.streams[rank]);
    };
    MUST(exchange(0, x, y));  // b
    MUST(exchange(1, x.at(2048), y.at(2048)));
    MUST(aclrtMemsetAsync(y.at(mended ? 1280 : 1276), 4, 0, 4, other));  // a
    sync(other);
}

// expect race argument=x
PLANTED(before_the_collective_not_after_it) {
    Buffer x(kX), y(kX), z(kY), a(kX), b(kX);
    const Ranks ranks;
    glu(x, y, ranks.streams[0]);  // b
    if (mended) {
        ranks.all_reduce(0, x, a);
        ranks.all_reduce(1, x, b);
    }
    glu(y, z, ranks.streams[1]);  // a
    if (!mended) {
        ranks.all_reduce(0, x, a);
        ranks.all_reduce(1, x, b);
    }
}

// expect race argument=out
PLANTED(sender_does_not_wait_for_the_receiver) {
    Buffer x(kX), y(kX), z(kX);
    Event e;
    const Ranks ranks;
    ranks.send(0, x);
    ranks.receive(1, y);  // b
    if (mended) order(ranks.streams[1], ranks.streams[0], e);
    glu(z, y, ranks.streams[0]);  // a
}

// expect race argument=src
PLANTED(device_synchronised_under_another_context) {
    Buffer x(kX), y(kY);
    aclrtContext first = nullptr, second = nullptr;
    MUST(aclrtGetCurrentContext(&first));
    MUST(aclrtCreateContext(&second, 0));
    MUST(aclrtSetCurrentContext(first));
    {
        Stream s;
        glu(x, y, s);  // b
        if (!mended) MUST(aclrtSetCurrentContext(second));
        MUST(aclrtSynchronizeDevice());
        read(y);  // a
        MUST(aclrtSetCurrentContext(first));
    }
    MUST(aclrtDestroyContext(second));
}

// expect portability
PLANTED(asynchronous_copy_on_the_host_without_limits) {
    lift_limits();
    Pinned from(kX), to(kX);
    Stream s;
    if (mended)
        MUST(aclrtMemcpy(to, kX, from, kX, ACL_MEMCPY_HOST_TO_HOST));
    else
        MUST(aclrtMemcpyAsync(to, kX, from, kX, ACL_MEMCPY_HOST_TO_HOST, s));  // a
    sync(s);
}

// expect portability error-ignored
PLANTED(asynchronous_copy_on_the_host) {
    Pinned a(64), b(64);
    Stream s;
    if (mended)
        MUST(aclrtMemcpy(a, 64, b, 64, ACL_MEMCPY_HOST_TO_HOST));
    else
        aclrtMemcpyAsync(a, 64, b, 64, ACL_MEMCPY_HOST_TO_HOST, s);  // a
}

// expect race argument=src
PLANTED(waits_asked_for_where_nobody_waits) {
    Buffer x(kX), y(kY);
    Event e(Kind::flagged);
    Stream s, other;
    glu(x, y, s);  // b
    record(e, s);
    if (mended) wait(other, e);
    aclrtEventWaitStatus status = ACL_EVENT_WAIT_STATUS_NOT_READY;
    while (status != ACL_EVENT_WAIT_STATUS_COMPLETE) MUST(aclrtQueryEventWaitStatus(e, &status));
    read(y);  // a
}

// expect race argument=x
PLANTED(event_reset_between) {
    Buffer x(kX), y(kX), z(kY);
    Event e;
    Stream s1, s2;
    glu(x, y, s1);  // b
    record(e, s1);
    if (!mended) MUST(aclrtResetEvent(e, s1));
    wait(s2, e);
    glu(y, z, s2);  // a
}

// expect race
PLANTED(bits_depend_on_the_order) {
    Buffer x(kX), y(kY);
    Stream s1, s2;
    const std::vector<float> ones(kX / 4, 1);
    MUST(aclrtMemcpy(x, kX, ones.data(), kX, ACL_MEMCPY_HOST_TO_DEVICE));
    glu(x, y, s1);
    if (mended) sync(s1);
    MUST(aclrtMemsetAsync(x, kX, 0, kX, s2));
    sync(s2);
    if (mended) glu(x, y, s2);
    sync(s1);
    sync(s2);
    read(y);
}

int main(int count, char** words) {
    const auto program = programs().find(count > 1 ? words[1] : "");
    if (program == programs().end()) return 98;
    mended = count > 2;
    const World world;
    program->second();
}
