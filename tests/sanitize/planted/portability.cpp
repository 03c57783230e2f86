// What works here and not on the device, or need not; with `_in_full` what is told to who asks for it alone.
#include <chrono>
#include <thread>

#include "planted.h"

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

// expect portability kind=alignment argument=src
PLANTED(unaligned_source_in_full) {
    Buffer x(kX);
    Pinned pool(kX + 64);
    Stream s;
    void* const from = static_cast<char*>(pool.p) + (mended ? 64 : 4);
    MUST(aclrtMemcpyAsync(x, kX, from, kX, ACL_MEMCPY_HOST_TO_DEVICE, s));  // a
    sync(s);
}

// expect portability kind=alignment argument=dst
PLANTED(unaligned_destination_in_full) {
    Buffer x(kX), y(kX + 64);
    Stream s;
    MUST(aclrtMemcpyAsync(y.at(mended ? 64 : 32), kX, x, kX, ACL_MEMCPY_DEVICE_TO_DEVICE, s));  // a
    MUST(aclrtMemsetAsync(x.at(4), 4, 0, 4, s));  // copies alone are meant
    sync(s);
}

// expect portability kind=an_asynchronous_copy_that_is_waited_for argument=src
PLANTED(pageable_source_in_full) {
    Buffer x(kX);
    Pinned pinned(kX);
    std::vector<char> pageable(kX);
    Stream s;
    MUST(aclrtMemcpyAsync(x, kX, mended ? pinned.p : pageable.data(), kX, ACL_MEMCPY_HOST_TO_DEVICE, s));  // a
    sync(s);
}

// expect portability kind=an_asynchronous_copy_that_is_waited_for argument=devPtr
PLANTED(pageable_fill_in_full) {
    Pinned pinned(kX);
    std::vector<char> pageable(kX);
    Stream s;
    MUST(aclrtMemsetAsync(mended ? pinned.p : pageable.data(), kX, 0, kX, s));  // a
    sync(s);
}

// expect portability kind=a_synchronous_copy_that_waits function=aclrtMemcpy
PLANTED(copy_beside_queued_work_in_full) {
    Buffer x(kX), y(kY), other(kX);
    Stream s;
    glu(x, y, s);  // b
    if (mended) sync(s);
    read(other);  // a
    sync(s);
}

// expect portability kind=a_synchronous_copy_that_waits function=aclrtMemset
PLANTED(fill_beside_queued_work_in_full) {  // mended: of another device, for which it does not wait
    Buffer x(kX), y(kY), other(kX);
    MUST(aclrtSetDevice(1));
    MUST(aclrtSetDevice(0));
    Stream s;
    glu(x, y, s);  // b
    if (mended) MUST(aclrtSetDevice(1));
    MUST(aclrtMemset(other, kX, 0, kX));  // a
    MUST(aclrtSetDevice(0));
    sync(s);
    MUST(aclrtResetDevice(0));
    MUST(aclrtResetDevice(0));
    MUST(aclrtResetDevice(1));
}

// expect portability kind=a_synchronous_copy_that_waits
PLANTED(copy_beside_a_stream_that_stands_in_full) {  // for one that waits for the program's record nothing waits
    Buffer x(kX), y(kY), other(kX);
    Event gate(Kind::flagged);
    Stream s, recorder;
    if (mended) wait(s, gate);
    glu(x, y, s);  // b
    read(other);   // a
    record(gate, recorder);
    sync(s);
}

// expect portability kind=destroyed_without_a_synchronise function=aclrtDestroyStream
PLANTED(stream_destroyed_in_full) {
    Buffer x(kX), y(kY);
    aclrtStream s = nullptr;
    MUST(aclrtCreateStream(&s));
    glu(x, y, s);  // b
    if (mended) sync(s);
    MUST(aclrtDestroyStream(s));  // a
}

// expect portability kind=destroyed_without_a_synchronise function=aclrtDestroyContext
PLANTED(context_destroyed_in_full) {
    aclrtContext before = nullptr, context = nullptr;
    MUST(aclrtGetCurrentContext(&before));
    MUST(aclrtCreateContext(&context, 0));
    {
        Buffer x(kX);
        MUST(aclrtMemsetAsync(x, kX, 0, kX, nullptr));  // b
        if (mended) sync(nullptr);
        MUST(aclrtDestroyContext(context));  // a
        MUST(aclrtSetCurrentContext(before));
    }
}

// expect portability kind=destroyed_without_a_synchronise function=aclrtResetDevice
PLANTED(device_reset_in_full) {
    MUST(aclrtSetDevice(1));
    {
        Buffer x(kX);
        MUST(aclrtMemsetAsync(x, kX, 0, kX, nullptr));  // b
        if (mended) MUST(aclrtSynchronizeDevice());
        MUST(aclrtResetDevice(1));  // a
        MUST(aclrtSetDevice(0));
    }
    MUST(aclrtResetDevice(0));
}
