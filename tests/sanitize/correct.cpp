// Programs without a mistake, of the kinds that a careless sanitizer would accuse.
//   correct NAME
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "world.h"

#define CORRECT(name) PROGRAM(name)

CORRECT(polling_the_stream) {
    Buffer x(kX), y(kY);
    Stream s;
    glu(x, y, s);
    aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
    while (status != ACL_STREAM_STATUS_COMPLETE) MUST(aclrtStreamQuery(s, &status));
    read(y);
}

CORRECT(polling_the_event) {
    Buffer x(kX), y(kY);
    Event e;
    Stream s;
    glu(x, y, s);
    record(e, s);
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    while (status != ACL_EVENT_RECORDED_STATUS_COMPLETE) MUST(aclrtQueryEventStatus(e, &status));
    read(y);
}

CORRECT(polling_the_time) {
    Buffer x(kX), y(kY);
    Event begin, end;
    Stream s;
    record(begin, s);
    glu(x, y, s);
    record(end, s);
    float ms = 0;
    while (aclrtEventElapsedTime(&ms, begin, end) != 0) usleep(100);
    read(y);
}

CORRECT(told_by_a_report) {
    Buffer x(kX), y(kY);
    Stream s;
    MUST(aclrtSubscribeReport(pthread_self(), s));
    glu(x, y, s);
    MUST(aclrtLaunchCallback([](void*) {}, nullptr, ACL_CALLBACK_NO_BLOCK, s));
    MUST(aclrtProcessReport(-1));
    read(y);
    MUST(aclrtUnSubscribeReport(pthread_self(), s));
}

// On a thread of the program's own, which may call what it likes: CANN's sample of asynchronous inference does this.
CORRECT(report_copies_the_result) {
    static void* result = nullptr;
    Buffer x(kX), y(kY);
    Stream s;
    result = y;
    MUST(aclrtSubscribeReport(pthread_self(), s));
    glu(x, y, s);
    MUST(aclrtLaunchCallback([](void*) { read(result); }, nullptr, ACL_CALLBACK_BLOCK, s));
    MUST(aclrtProcessReport(-1));
    sync(s);
    MUST(aclrtUnSubscribeReport(pthread_self(), s));
}

static std::atomic<bool> told{false};
CORRECT(host_function_asks) {
    Stream s;
    MUST(aclrtLaunchHostFunc(
        s,
        [](void*) {
            int32_t device = 0;
            aclrtContext context = nullptr;
            (void)aclrtGetDevice(&device);
            (void)aclrtGetCurrentContext(&context);
            told = true;
        },
        nullptr));
    sync(s);
    if (!told) std::abort();
}

CORRECT(told_by_a_callback) {
    Buffer x(kX), y(kY);
    Stream s;
    glu(x, y, s);
    MUST(aclrtLaunchHostFunc(
        s, [](void*) { told = true; }, nullptr));
    while (!told) usleep(100);
    read(y);
}

CORRECT(callback_waits_for_another_stream) {
    Buffer x(kX), y(kX), z(kY);
    Stream s1, s2;
    // what is behind the callback is behind whatever the program does before it lets the callback go
    MUST(aclrtLaunchHostFunc(
        s2,
        [](void*) {
            while (!told) usleep(100);
        },
        nullptr));
    glu(y, z, s2);
    glu(x, y, s1);
    sync(s1);
    told = true;
    sync(s2);
}

CORRECT(blocking_callback_waits_for_another_stream) {
    Buffer x(kX), y(kX), z(kY);
    Stream s1, s2;
    std::atomic<uint64_t> id = 0;
    std::thread thread([&] {
        MUST(aclrtSetDevice(0));
        id = pthread_self();
        while (aclrtProcessReport(10) != 0) {
        }
        MUST(aclrtResetDevice(0));
    });
    while (id == 0) std::this_thread::yield();
    MUST(aclrtSubscribeReport(id, s2));
    MUST(aclrtLaunchCallback(
        [](void*) {
            while (!told) usleep(100);
        },
        nullptr, ACL_CALLBACK_BLOCK, s2));
    glu(y, z, s2);
    glu(x, y, s1);
    sync(s1);
    told = true;
    sync(s2);
    thread.join();
    MUST(aclrtUnSubscribeReport(id, s2));
}

CORRECT(synchronised_by_another_thread) {
    Buffer x(kX), y(kY);
    Stream s;
    glu(x, y, s);
    std::thread([&] { sync(s); }).join();
    read(y);
}

CORRECT(stream_destroyed_instead) {
    Buffer x(kX), y(kY);
    {
        Stream s;
        glu(x, y, s);
    }
    read(y);
}

CORRECT(device_reset_instead) {
    Buffer x(kX), y(kY);
    aclrtStream s = nullptr;
    MUST(aclrtCreateStream(&s));
    glu(x, y, s);
    MUST(aclrtResetDevice(0));
    MUST(aclrtSetDevice(0));
    read(y);
}

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

// As a daemon begins: it closes whatever it did not open, and opens files of its own.
CORRECT(files_closed) {
    Buffer x(kX), y(kY);
    Stream s;
    for (int file = 3; file < 256; ++file) close(file);
    std::FILE* own[16];
    for (std::FILE*& file : own) file = std::tmpfile();
    glu(x, y, s);
    sync(s);
    if (std::getenv("GRADUS_TEST_MISTAKE") != nullptr) {
        glu(x, y, s);
        read(y);  // too early
    }
    for (std::FILE* file : own) {
        std::fseek(file, 0, SEEK_END);
        if (std::ftell(file) != 0) std::abort();
        std::fclose(file);
    }
}

// Nobody can record it any more, so the stream goes on.
CORRECT(awaited_event_is_destroyed) {
    Buffer x(kX);
    Stream s;
    aclrtEvent e = nullptr;
    MUST(aclrtCreateEventWithFlag(&e, ACL_EVENT_SYNC));
    wait(s, e);
    MUST(aclrtMemsetAsync(x, kX, 0, kX, s));
    MUST(aclrtDestroyEvent(e));
    sync(s);
}

// A record that is dropped counts as reached.
CORRECT(recording_stream_is_destroyed_by_force) {
    Event e;
    Stream s;
    static std::atomic<bool> go = false;
    aclrtStream recording = nullptr;
    MUST(aclrtCreateStream(&recording));
    MUST(aclrtLaunchHostFunc(
        recording,
        [](void*) {  // not for ever: with GRADUS_SCHEDULE=now nobody could say go
            for (int i = 0; i < 20 && !go; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
        },
        nullptr));
    record(e, recording);
    wait(s, e);
    MUST(aclrtDestroyStreamForce(recording));
    sync(s);
    go = true;
}

CORRECT(double_buffering) {
    Buffer x(kX), y0(kX), y1(kX), z(kY);
    Event made[2], used[2];
    Stream producer, consumer;
    void* const y[2] = {y0, y1};
    for (int step = 0; step < 6; ++step) {
        const int i = step % 2;
        if (step >= 2) wait(producer, used[i]);
        glu(x, y[i], producer);
        order(producer, consumer, made[i]);
        glu(y[i], z, consumer);
        record(used[i], consumer);
    }
    sync(consumer);
    read(z);
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

CORRECT(many_readers) {
    Buffer x(kX), y(kY), z(kY);
    Stream s1, s2;
    glu(x, y, s1);
    glu(x, z, s2);
}

CORRECT(order_through_three_streams) {
    Buffer x(kX), y(kX), z(kY);
    Event e1, e2;
    Stream s1, s2, s3;
    glu(x, y, s1);
    order(s1, s2, e1);
    order(s2, s3, e2);
    glu(y, z, s3);
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

CORRECT(order_through_a_collective) {
    Buffer x(kX), y(kX), z(kY), a(kX), b(kX);
    const Ranks ranks;
    for (int round = 0; round < 3; ++round) {
        glu(x, y, ranks.streams[0]);
        if (round == 1) {  // whoever comes first
            ranks.all_reduce(0, x, a);
            ranks.all_reduce(1, x, b);
        } else {
            ranks.all_reduce(1, x, b);
            ranks.all_reduce(0, x, a);
        }
        glu(y, z, ranks.streams[1]);
        glu(a, z, ranks.streams[1]);  // the other's result
        ranks.all_reduce(0, x, a);
        ranks.all_reduce(1, x, b);
    }
}

CORRECT(order_through_a_message) {
    Buffer x(kX), y(kX), z(kX);
    const Ranks ranks;
    ranks.receive(1, z);
    glu(x, y, ranks.streams[0]);
    ranks.send(0, x);
    glu(y, z, ranks.streams[1]);
}

CORRECT(two_ranks_exchange) {
    Buffer x(kX), y(kX), a(kX), b(kX), z(kX);
    const Ranks ranks;
    glu(x, a, ranks.streams[0]);
    glu(x, b, ranks.streams[1]);
    void *const own[] = {a, b}, *const others[] = {y, z};
    for (int r = 0; r < 2; ++r) {
        HcclSendRecvItem items[] = {{HCCL_SEND, own[r], kX / 4, HCCL_DATA_TYPE_FP32, static_cast<uint32_t>(1 - r)},
                                    {HCCL_RECV, others[r], kX / 4, HCCL_DATA_TYPE_FP32, static_cast<uint32_t>(1 - r)}};
        MUST(HcclBatchSendRecv(items, 2, ranks.comms[r], ranks.streams[r]));
    }
    glu(b, x, ranks.streams[0]);
    glu(a, x, ranks.streams[0]);
}

// Between the blocks of a collective lies what is the program's own.
CORRECT(gaps_of_a_collective) {
    Buffer a(4096), b(4096), c(4096), d(4096);
    const Ranks ranks;
    const uint64_t counts[] = {64, 64}, displacements[] = {0, 256};
    void *const from[] = {a, b}, *const to[] = {c, d};
    for (int r = 0; r < 2; ++r)
        MUST(HcclAlltoAllV(from[r], counts, displacements, HCCL_DATA_TYPE_FP32, to[r], counts, displacements,
                           HCCL_DATA_TYPE_FP32, ranks.comms[r], ranks.streams[r]));
    const Stream other;
    MUST(aclrtMemsetAsync(c.at(256), 768, 0, 768, other));
    MUST(aclrtMemsetAsync(b.at(256), 768, 0, 768, other));
    sync(other);
}

CORRECT(wait_for_a_destroyed_event) {
    Buffer x(kX), y(kX), z(kY);
    Stream s1, s2;
    glu(x, y, s1);
    {
        Event e;
        order(s1, s2, e);
    }
    glu(y, z, s2);
}

CORRECT(recorded_by_one_thread_waited_for_by_another) {
    Buffer x(kX), y(kX), z(kY);
    Event e;
    Stream s1, s2;
    glu(x, y, s1);
    record(e, s1);
    std::thread([&] {
        MUST(aclrtSetDevice(0));
        wait(s2, e);
        glu(y, z, s2);
        MUST(aclrtResetDevice(0));
    }).join();
}

CORRECT(flagged_wait_before_the_record) {
    Buffer x(kX), y(kX), z(kY);
    Event e(Kind::flagged);
    Stream s1, s2;
    wait(s2, e);
    glu(y, z, s2);
    glu(x, y, s1);
    record(e, s1);
    sync(s2);
    read(z);
}

CORRECT(two_contexts) {
    Buffer x(kX), y(kY);
    aclrtContext first = nullptr, second = nullptr;
    MUST(aclrtGetCurrentContext(&first));
    MUST(aclrtCreateContext(&second, 0));
    {
        Stream s;
        glu(x, y, s);
        MUST(aclrtSynchronizeDevice());
    }
    read(y);
    MUST(aclrtSetCurrentContext(first));
    MUST(aclrtSynchronizeDevice());
    MUST(aclrtDestroyContext(second));
}

CORRECT(stream_of_another_context_synchronised) {
    Buffer x(kX), y(kY);
    aclrtContext first = nullptr, second = nullptr;
    MUST(aclrtGetCurrentContext(&first));
    {
        Stream s;
        glu(x, y, s);
        MUST(aclrtCreateContext(&second, 0));
        aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
        MUST(aclrtStreamQuery(s, &status));
        sync(s);
        MUST(aclrtSetCurrentContext(first));
    }
    read(y);
    MUST(aclrtDestroyContext(second));
}

// CANN's guide: an event may be recorded, or waited for, by streams of its own device alone, and synchronised and asked
// by anybody.
CORRECT(event_of_another_device_synchronised) {
    Buffer x(kX), y(kY);
    Event e;
    Stream s;
    glu(x, y, s);
    record(e, s);
    MUST(aclrtSetDevice(1));
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    while (status != ACL_EVENT_RECORDED_STATUS_COMPLETE) MUST(aclrtQueryEventStatus(e, &status));
    MUST(aclrtSynchronizeEvent(e));
    read(y);
    MUST(aclrtResetDevice(1));
    MUST(aclrtSetDevice(0));
    MUST(aclrtResetDevice(0));
}

CORRECT(event_of_another_context) {
    Buffer x(kX), y(kX), z(kY);
    aclrtContext first = nullptr, second = nullptr;
    MUST(aclrtGetCurrentContext(&first));
    MUST(aclrtCreateContext(&second, 0));
    MUST(aclrtSetCurrentContext(first));
    Event e;
    {
        Stream s1;
        glu(x, y, s1);
        record(e, s1);
        MUST(aclrtSetCurrentContext(second));
        {
            Stream s2;
            wait(s2, e);
            glu(y, z, s2);
            sync(s2);
        }
        read(z);
        MUST(aclrtSetCurrentContext(first));
    }
    MUST(aclrtDestroyContext(second));
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

CORRECT(timeout_tried_again) {
    Buffer x(kX), y(kY);
    Stream s;
    glu(x, y, s);
    while (aclrtSynchronizeStreamWithTimeout(s, 1) != 0) {
    }
    read(y);
}

CORRECT(timeout_then_synchronised) {
    const auto slow = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); };
    Buffer x(kX), y(kY);
    Stream s;
    MUST(aclrtLaunchHostFunc(s, slow, nullptr));
    glu(x, y, s);
    Event e;
    record(e, s);
    if (aclrtSynchronizeEventWithTimeout(e, 1) != 0) MUST(aclrtSynchronizeEvent(e));
    read(y);
    MUST(aclrtLaunchHostFunc(s, slow, nullptr));
    if (aclrtSynchronizeStreamWithTimeout(s, 1) != 0) sync(s);
}

// A thread that asks for callbacks again and again, before there is a subscription, and when nothing is due.
CORRECT(reports_asked_for_in_a_loop) {
    static std::atomic<bool> stop = false, called = false;
    static std::atomic<uint64_t> id = 0;
    Buffer x(kX), y(kY);
    Stream s;
    std::thread thread([] {
        MUST(aclrtSetDevice(0));
        (void)aclrtProcessReport(1);
        id = pthread_self();
        while (!stop) (void)aclrtProcessReport(10);
        MUST(aclrtResetDevice(0));
    });
    while (id == 0) std::this_thread::yield();
    MUST(aclrtSubscribeReport(id, s));
    glu(x, y, s);
    MUST(aclrtLaunchCallback([](void*) { called = true; }, nullptr, ACL_CALLBACK_BLOCK, s));
    sync(s);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    stop = true;
    thread.join();
    MUST(aclrtUnSubscribeReport(id, s));
    if (!called) std::abort();
    read(y);
}

CORRECT(fork_with_a_child_that_works) {
    Buffer x(kX), y(kY);
    Stream s;
    glu(x, y, s);
    sync(s);
    const pid_t child = fork();
    if (child == 0) {
        const float seven = 7;
        MUST(aclrtMemcpy(x, kX, &seven, 4, ACL_MEMCPY_HOST_TO_DEVICE));
        glu(x, y, s);
        sync(s);
        std::_Exit(read(x, kX)[0] == 7 ? 0 : 1);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) std::abort();
    if (read(x, kX)[0] != 0) std::abort();  // the child's memory is its own
}

// What is left of the parent's is none of its leaks.
CORRECT(fork_with_a_child_that_exits) {
    Buffer x(kX), y(kY);
    Stream s;
    glu(x, y, s);
    sync(s);
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        aclTensor* const t = tensor(x, kWidth);
        glu(x, y, s);
        sync(s);
        aclDestroyTensor(t);
        std::exit(0);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) std::abort();
}

// An object of the program's own, made before everything, that waits and frees when it goes.
static struct Engine {
    ~Engine() {
        if (stream == nullptr) return;
        MUST(aclrtDestroyStream(stream));
        delete x;
        delete y;
        MUST(aclrtResetDevice(0));
    }
    aclrtStream stream = nullptr;
    Buffer *x = nullptr, *y = nullptr;
} engine;
CORRECT(static_object_waits) {
    MUST(aclrtCreateStream(&engine.stream));
    engine.x = new Buffer(kX);
    engine.y = new Buffer(kY);
    MUST(aclrtLaunchHostFunc(
        engine.stream, [](void*) {}, nullptr));
    glu(*engine.x, *engine.y, engine.stream);
    std::exit(0);
}

// Questions, whose answer is a code.
CORRECT(asked_whether_it_is_set) {
    int64_t value = 0;
    (void)aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value);
    std::thread([] {
        int32_t device = 0;
        aclrtContext context = nullptr;
        (void)aclrtGetCurrentContext(&context);
        if (aclrtGetDevice(&device) != ACL_ERROR_RT_CONTEXT_NULL) std::abort();
        MUST(aclrtSetDevice(0));
        MUST(aclrtResetDevice(0));
    }).join();
}

static Buffer* late_x = nullptr;
CORRECT(freed_after_finalising) {
    late_x = new Buffer(kX);
    aclFinalize();
    std::atexit([] { delete late_x; });
}

CORRECT(quick_exit) {
    Buffer x(kX), y(kY);
    Stream s;
    glu(x, y, s);
    sync(s);
    MUST(aclrtDestroyStream(s.s));
    MUST(aclrtFree(x.p));
    MUST(aclrtFree(y.p));
    std::quick_exit(0);
}

// Silent but for the note that --leak-check full gives.
CORRECT(freed_after_finalising_unused) { const Buffer x(kX, false); }

static sigjmp_buf back;
CORRECT(own_handler) {
    // installed after the library's, for a page of the program's own
    struct sigaction own {};
    own.sa_handler = [](int) { siglongjmp(back, 1); };
    sigaction(SIGSEGV, &own, nullptr);
    Buffer x(kX);
    void* const page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (sigsetjmp(back, 1) == 0) {
        *static_cast<volatile char*>(page) = 1;
        std::abort();
    }
    munmap(page, 4096);
}

// What a program sends itself comes as without the sanitizer: it is ignored, or ends the process.
CORRECT(faults_sent_in_a_fork) {
    Buffer x(kX);
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_IGN);
        const Buffer y(kX);
        raise(SIGSEGV);
        signal(SIGSEGV, SIG_DFL);
        const Buffer z(kX);
        raise(SIGSEGV);
        std::_Exit(0);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status) || WTERMSIG(status) != SIGSEGV) std::abort();
}

// For test_command.py, under another name than the programs that must come to their end.
static void end_by_a_signal(const char* way) {
    Buffer x(kX), y(kY);
    Stream s;
    glu(x, y, s);
    read(y);  // too early
    if (std::strcmp(way, "abort") == 0) std::abort();
    if (std::strcmp(way, "terminate") == 0) raise(SIGTERM);
    if (std::strcmp(way, "crash") == 0) *reinterpret_cast<volatile int*>(8) = 1;
    if (std::strcmp(way, "crash in the allocator") == 0) {
        char* const block = static_cast<char*>(std::malloc(1 << 20));
        const volatile size_t inside = 16;
        std::free(block + inside);
    }
}

int main(int count, char** words) {
    if (count > 2 && std::strcmp(words[1], "end") == 0) {
        const World world;
        end_by_a_signal(words[2]);
    }
    const auto program = programs().find(count > 1 ? words[1] : "");
    if (program == programs().end()) return 98;
    const World world;
    program->second();
}
