// Two uses of the same bytes, and nothing orders them.
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "planted.h"

// expect race argument=src kind=read_after_write
PLANTED(read_too_early) {
    Buffer x(kX), y(kY);
    Stream s;
    glu(x, y, s);  // b
    if (mended) sync(s);
    read(y);  // a
}

// expect race argument=src kind=read_after_write
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

// expect race argument=src kind=read_after_write
PLANTED(other_stream_synchronised) {
    Buffer x(kX), y(kY);
    Stream s, other;
    glu(x, y, s);  // b
    sync(mended ? s : other);
    read(y);  // a
}

// expect race error-ignored argument=src kind=read_after_write
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

// expect race free-in-use argument=src
PLANTED(queued_work_dropped_by_force) {  // the one before under the schedule late: nothing has run by then
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

// expect race argument=x kind=read_after_write
PLANTED(no_event_between) {
    Buffer x(kX), y(kX), z(kY);
    Event e;
    Stream s1, s2;
    glu(x, y, s1);  // b
    if (mended) order(s1, s2, e);
    glu(y, z, s2);  // a
}

// expect race argument=x kind=read_after_write
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

// expect race argument=x kind=read_after_write
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

// expect race argument=x kind=read_after_write
PLANTED(record_on_the_wrong_stream) {
    Buffer x(kX), y(kX), z(kY);
    Event e;
    Stream s1, s2, s3;
    glu(x, y, s1);  // b
    record(e, mended ? s1 : s3);
    wait(s2, e);
    glu(y, z, s2);  // a
}

// expect race argument=devPtr kind=write_after_read
PLANTED(overwritten_while_read) {
    Buffer x(kX), y(kY);
    Event e;
    Stream s1, s2;
    glu(x, y, s1);  // b
    if (mended) order(s1, s2, e);
    MUST(aclrtMemsetAsync(x, kX, 0, kX, s2));  // a
}

// expect race argument=out kind=write_after_write
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

// expect race argument=workspace kind=write_after_write
PLANTED(one_workspace_on_two_streams) {
    lift_limits();
    Buffer x(2 * kX), mask(kX), y(kX), z(kX), one(1 << 20), two(1 << 20);
    Stream s1, s2;
    softmax(x, mask, y, s1, one);                     // b
    softmax(x, mask, z, s2, mended ? two.p : one.p);  // a
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

// expect race argument=out kind=write_after_read
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

// expect race argument=x kind=read_after_write
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

// expect race argument=src kind=read_after_write
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

// expect race argument=x kind=read_after_write
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
