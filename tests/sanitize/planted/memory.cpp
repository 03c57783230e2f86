// Memory that was not written, is not there any more, is not large enough, is not the host's, or is not given back.
#include <signal.h>
#include <sys/mman.h>

#include <cstdlib>

#include "planted.h"

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

// expect use-after-free access=read bytes=4
PLANTED(host_reads_freed_memory) {
    Buffer x(kX);
    const auto* const values = static_cast<volatile float*>(x.p);
    if (mended) read(x, 8);
    MUST(aclrtFree(x.p));  // b
    x.p = nullptr;
    if (!mended) (void)values[1];  // a
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

// expect host-touches-device access=read bytes=0
PLANTED(host_reads_device_memory) {
    Buffer x(kX);
    float value = 0;
    if (mended)
        MUST(aclrtMemcpy(&value, 4, x, 4, ACL_MEMCPY_DEVICE_TO_HOST));
    else
        value = *static_cast<volatile float*>(x.p);  // a
    if (value != 0) std::abort();
}

// expect host-touches-device access=write bytes=64
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
// expect host-touches-device access=write
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

// expect uninitialised argument=x bytes=0–1023
PLANTED(input_never_written) {
    Buffer x(kX, mended), y(kY);
    Stream s;
    glu(x, y, s);  // a
    sync(s);
}

// expect uninitialised argument=sendBuf bytes=0–1023
PLANTED(nothing_written_to_send) {
    Buffer a(kX, mended), b(kX), c(kX), d(kX);
    const Ranks ranks;
    ranks.all_reduce(0, a, b);  // a
    ranks.all_reduce(1, c, d);
}

// expect uninitialised argument=x bytes=512–1023
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

// expect bad-free error-ignored kind_of_free=freed_twice
PLANTED(freed_twice) {
    void* p = nullptr;
    MUST(aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtFree(p));         // b
    if (!mended) aclrtFree(p);  // a
}

// expect bad-free error-ignored kind_of_free=wrong_kind
PLANTED(host_memory_freed_as_the_device_s) {
    Pinned host(64);
    if (!mended) aclrtFree(host.p);  // a
}

// expect bad-free kind_of_free=interior_pointer
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

// expect host-touches-device
PLANTED(callback_writes_device_memory) {
    Buffer x(kX);
    static char own[kX];
    Stream s;
    MUST(aclrtLaunchHostFunc(
        s, [](void* data) { *static_cast<volatile char*>(data) = 1; }, mended ? own : x.p));
    sync(s);
}
