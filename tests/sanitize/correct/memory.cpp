// Memory and what is in it.
#include <malloc.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

#include "correct.h"

CORRECT(pageable_copies) {
    Buffer x(kX);
    Stream s;
    std::vector<char> host(kX);
    MUST(aclrtMemcpyAsync(x, kX, host.data(), kX, ACL_MEMCPY_HOST_TO_DEVICE, s));
    host[0] = 1;
    MUST(aclrtMemcpyAsync(host.data(), kX, x, kX, ACL_MEMCPY_DEVICE_TO_HOST, s));
    if (host[0] != 0) std::abort();
}

CORRECT(memory_that_was_registered) {
    Buffer x(kX);
    std::vector<char> host(kX);
    void* device = nullptr;
    MUST(aclrtHostRegister(host.data(), kX, ACL_HOST_REGISTER_MAPPED, &device));
    MUST(aclrtHostUnregister(host.data()));
    MUST(aclrtMemcpy(x, kX, host.data(), kX, ACL_MEMCPY_HOST_TO_DEVICE));
}

// Without a quarantine: the program's own memory comes to lie where pinned memory was.
CORRECT(address_of_freed_memory_given_out_again) {
    Buffer x(kX);
    void* pinned = nullptr;
    MUST(aclrtMallocHost(&pinned, 8192));
    MUST(aclrtFreeHost(pinned));
    void* const own =
        mmap(pinned, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (own == MAP_FAILED && std::strstr(std::getenv("GRADUS_SANITIZE"), "quarantine=0") == nullptr) return;
    if (own != pinned) std::abort();
    MUST(aclrtMemcpy(x, kX, own, kX, ACL_MEMCPY_HOST_TO_DEVICE));
    munmap(own, 8192);
}

CORRECT(neighbours_in_one_page) {
    Buffer x(8192);
    Pinned pool(8192);
    Stream s;
    char* const chunk = static_cast<char*>(pool.p);
    MUST(aclrtMemcpyAsync(x, 1024, chunk, 1024, ACL_MEMCPY_HOST_TO_DEVICE, s));
    for (int i = 1024; i < 8192; ++i) chunk[i] = 1;
    MUST(aclrtMemcpyAsync(x.at(1024), 4096, chunk + 1024, 4096, ACL_MEMCPY_HOST_TO_DEVICE, s));
    for (int i = 5120; i < 8192; ++i) chunk[i] = 2;
    sync(s);
    std::memset(chunk, 3, 8192);
}

CORRECT(workspace_shared_on_one_stream) {
    lift_limits();
    Buffer x(2 * kX), mask(kX), y(kX), workspace(1 << 20, false);
    Stream s;
    for (int i = 0; i < 3; ++i) softmax(x, mask, y, s, workspace);
    sync(s);
}

CORRECT(repeated_with_new_addresses) {
    Buffer x(kX), other(kX), y(kY), z(kY);
    Stream s;
    aclTensor *tx = tensor(x, kWidth), *ty = tensor(y, kHalf);
    const Prepared made = prepare(tx, ty);
    MUST(aclSetAclOpExecutorRepeatable(made.executor));
    MUST(aclnnSwiGlu(nullptr, made.size, made.executor, s));
    MUST(aclSetInputTensorAddr(made.executor, 0, tx, other));
    MUST(aclSetOutputTensorAddr(made.executor, 0, ty, z));
    MUST(aclnnSwiGlu(nullptr, made.size, made.executor, s));
    sync(s);
    MUST(aclDestroyAclOpExecutor(made.executor));
    aclDestroyTensor(tx);
    aclDestroyTensor(ty);
}

static long resident_kilobytes() {
    std::FILE* const file = std::fopen("/proc/self/status", "r");
    char line[256];
    long kilobytes = 0;
    while (file != nullptr && std::fgets(line, sizeof line, file) != nullptr)
        if (std::sscanf(line, "VmRSS: %ld", &kilobytes) == 1) break;
    if (file != nullptr) std::fclose(file);
    return kilobytes;
}

// What is known of each launch, of its executor, its tensors and its memory goes when they go. GRADUS_TEST_LONG=1: a
// million launches.
CORRECT(does_not_grow) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return;  // it grows itself
#endif
    const int launches = std::getenv("GRADUS_TEST_LONG") != nullptr ? 1000000 : 30000;
    Buffer x(kX), y(kX), z(kX);  // what is freed stays in quarantine for a while
    Pinned host(kY);
    Event e;
    Stream s1, s2;
    long settled = 0;
    for (int i = 0; i < launches; ++i) {
        glu(x, y, s1);
        if (i % 10 == 0) {
            order(s1, s2, e);
            glu(y, z, s2);
            MUST(aclrtMemcpyAsync(host, kY, z, kY, ACL_MEMCPY_DEVICE_TO_HOST, s2));
            sync(s2);
        }
        if (i == launches / 2) settled = resident_kilobytes();
    }
    sync(s1);
    const long grown = resident_kilobytes() - settled;
    if (grown > 4096) {
        std::fprintf(stderr, "%ld KiB more at the end than half way\n", grown);
        std::_Exit(97);
    }
}

// Nor does anything stay of a stream that is gone.
CORRECT(streams_come_and_go) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return;  // it grows itself
#endif
    constexpr int kStreams = 40000;
    // of the heap: the stacks of threads that are about to end come and go
    mallopt(M_ARENA_MAX, 1);
    const auto held = [] {
        const auto heap = mallinfo2();
        return static_cast<long>((heap.uordblks + heap.hblkhd) / 1024);
    };
    Buffer x(kX), y(kY);
    const Stream main;
    long settled = 0;
    for (int i = 0; i <= kStreams; ++i) {
        const Stream s;
        const Event e;
        MUST(aclrtMemsetAsync(x, kX, 0, kX, s));
        order(s, main, e);
        MUST(aclrtMemsetAsync(y, kY, 0, kY, main));
        sync(s);
        if (i % 100 == 0) sync(main);
        if (i == kStreams / 2) settled = held();
    }
    sync(main);
    const long grown = held() - settled;
    if (grown > 2048) {  // 100 bytes a stream
        std::fprintf(stderr, "%ld KiB more at the end than half way\n", grown);
        std::_Exit(97);
    }
}

// Nor must be written what an operator takes and does not use.
CORRECT(argument_that_is_not_read) {
    constexpr int64_t kTokens = 8;
    const auto row = [](void* address) {
        const int64_t size[] = {kTokens};
        return aclCreateTensor(size, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, size, 1, address);
    };
    Buffer max(64), sum(64), predicted(64), loss(64, false), unused(64, false);
    Stream s, other;
    aclTensor* const tensors[] = {row(max), row(sum), row(predicted), row(unused), row(loss)};
    Prepared made;
    MUST(aclnnFusedCrossEntropyLossWithMaxSumGetWorkspaceSize(tensors[0], tensors[1], tensors[2], 0, tensors[3],
                                                              tensors[3], nullptr, tensors[4], nullptr, &made.size,
                                                              &made.executor));
    MUST(aclnnFusedCrossEntropyLossWithMaxSum(nullptr, made.size, made.executor, s));
    MUST(aclrtMemsetAsync(unused, 64, 0, 64, other));
    for (const aclTensor* one : tensors) aclDestroyTensor(one);
    sync(s);
    sync(other);
}

CORRECT(overlapping_copies_initialise) {
    Buffer x(kX, false), y(kY);
    Stream s;
    std::vector<char> host(kX);
    MUST(aclrtMemcpy(x, kX, host.data(), kX / 2 + 64, ACL_MEMCPY_HOST_TO_DEVICE));
    MUST(aclrtMemcpy(x.at(kX / 2 - 64), kX / 2 + 64, host.data(), kX / 2 + 64, ACL_MEMCPY_HOST_TO_DEVICE));
    glu(x, y, s);
    sync(s);
}

CORRECT(interleaved_outputs_and_broadcast_inputs) {
    lift_limits();
    Buffer x(kX), all(2 * kX), one(1 << 20), two(1 << 20);
    Stream s1, s2;
    const int64_t size[] = {kRows, kWidth}, stride[] = {0, 1}, storage[] = {kWidth};
    for (int side = 0; side < 2; ++side)
        glu(aclCreateTensor(size, 2, ACL_FLOAT, stride, 0, ACL_FORMAT_ND, storage, 1, x),
            tensor(all, kHalf, kWidth, side, 2), side == 0 ? s1 : s2, side == 0 ? one : two);
}

CORRECT(copies_carry_what_is_written) {
    Buffer x(kX), copy(kX, false), y(kY);
    Stream s;
    MUST(aclrtMemcpy(copy, kX, x, kX, ACL_MEMCPY_DEVICE_TO_DEVICE));
    glu(copy, y, s);
    sync(s);
}
