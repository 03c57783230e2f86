// What queued work still uses or waits for is freed, touched, or never comes.
#include <chrono>
#include <cstdlib>
#include <thread>

#include "planted.h"

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

// expect host-touches-inflight argument=src access=write bytes=5000
PLANTED(pinned_source_overwritten) {
    Buffer x(8192);
    Pinned host(8192);
    Stream s;
    MUST(aclrtMemcpyAsync(x, 8192, host, 8192, ACL_MEMCPY_HOST_TO_DEVICE, s));  // b
    if (mended) sync(s);
    static_cast<volatile char*>(host.p)[5000] = 1;  // a
}

// expect host-touches-inflight argument=src access=write bytes=5000
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

// expect host-touches-inflight argument=dst access=read bytes=100
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
