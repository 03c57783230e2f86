// Order between streams, contexts, devices and ranks.
#include <atomic>
#include <chrono>
#include <thread>

#include "correct.h"

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

// What nobody has recorded yet is behind the record that the program waits for.
CORRECT(event_synchronised_before_a_flagged_wait) {
    Buffer x(kX), y(kY), z(kY);
    Event made, gate(Kind::flagged);
    Stream s, other;
    glu(x, y, s);
    record(made, s);
    wait(s, gate);
    glu(x, z, s);
    MUST(aclrtSynchronizeEvent(made));
    read(y);
    record(gate, other);
    sync(s);
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
