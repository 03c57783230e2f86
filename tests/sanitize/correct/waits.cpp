// The host waits, asks, or is told.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "correct.h"

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
