// Programs that tests call by name: what they find depends on the schedule, or what they cost is measured.
//   various NAME
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <thread>

#include "world.h"

static bool complete(aclrtStream stream) {
    aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
    MUST(aclrtStreamQuery(stream, &status));
    return status == ACL_STREAM_STATUS_COMPLETE;
}

// Right only where everything has run by the time of the query.
PROGRAM(polled_once) {
    Buffer x(kX), y(kX), z(kY);
    Stream s;
    glu(x, y, s);
    glu(y, z, s);
    complete(s);
    read(z);
    sync(s);
}

// The callback may have told the program that y is there. It has not.
PROGRAM(reads_what_a_callback_tells_of) {
    Buffer x(kX), y(kY);
    Stream s;
    glu(x, y, s);
    MUST(aclrtLaunchHostFunc(
        s, [](void*) {}, nullptr));
    read(y);
    sync(s);
}

// The callback may have waited for the program to read. It has not.
PROGRAM(reads_what_is_behind_a_callback) {
    Buffer x(kX), y(kY);
    Stream s;
    MUST(aclrtLaunchHostFunc(
        s, [](void*) {}, nullptr));
    glu(x, y, s);
    read(y);
    sync(s);
}

// How long work lies there that nobody waits for, in milliseconds.
PROGRAM(left_alone) {
    Stream s;
    static std::atomic<bool> ran = false;
    const auto begin = std::chrono::steady_clock::now();
    MUST(aclrtLaunchHostFunc(
        s, [](void*) { ran = true; }, nullptr));
    while (!ran) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    std::printf("%.3f\n", took.count());
}

PROGRAM(left_in_a_loop) {
    Buffer x(kX);
    for (int i = 0; i < 3; ++i) tensor(x, kWidth);
    for (int i = 0; i < 2; ++i) const Buffer unused(kX, false);
}

// What a workspace holds after the run: bytes that are not 0xFF, among those that were asked for.
PROGRAM(workspace_afterwards) {
    lift_limits();
    Buffer x(2 * kX), mask(kX), y(kX), workspace(1 << 20);
    Stream s;
    const Prepared made = prepare_softmax(x, mask, y);
    MUST(aclnnScaledMaskedSoftmax(workspace, made.size, made.executor, s));
    for (const aclTensor* tensor : made.tensors) aclDestroyTensor(tensor);
    sync(s);
    std::vector<unsigned char> bytes(made.size);
    MUST(aclrtMemcpy(bytes.data(), made.size, workspace, made.size, ACL_MEMCPY_DEVICE_TO_HOST));
    std::printf("%zu %td\n", bytes.size(), std::count_if(bytes.begin(), bytes.end(), [](int b) { return b != 0xFF; }));
}

// How many MiB are freed before an address comes again.
PROGRAM(addresses_come_again) {
    constexpr size_t kMiB = size_t{1} << 20, kEach = 4 * kMiB, kMost = 1000;
    std::map<void*, bool> seen;
    while (seen.size() < kMost) {
        const Buffer buffer(kEach - 32, false);
        if (!seen.emplace(buffer.p, true).second) break;
    }
    std::printf("%zu\n", seen.size() * kEach / kMiB);
}

PROGRAM(copies_only_what_is_complete) {
    Buffer x(kX), y(kX), z(kY);
    Stream s;
    glu(x, y, s);
    glu(y, z, s);
    if (complete(s)) read(z);
    sync(s);
}

PROGRAM(copies_only_what_is_late) {
    Buffer x(kX), y(kX), z(kY);
    Stream s;
    glu(x, y, s);
    glu(y, z, s);
    const bool late = !complete(s);
    sync(s);
    if (late) read(z);
}

// Nanoseconds of all threads for one of `count`, the best of twenty times: others on the machine only make it longer.
template <typename F>
static double nanoseconds(int count, const F& f) {
    const auto now = [] {
        timespec t{};
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
    };
    double best = 1e18;
    for (int time = 0; time < 20; ++time) {
        const double begin = now();
        for (int i = 0; i < count; ++i) f();
        best = std::min(best, (now() - begin) / count);
    }
    return best;
}

// Tensors, both phases, a synchronise: as little work as there can be.
PROGRAM(tiny_calls) {
    Buffer x(kX), y(kY);
    Stream s;
    std::printf("%.0f\n", nanoseconds(1000, [&] {
                    glu(x, y, s);
                    sync(s);
                }));
}

// Numbers on the host, converted one by one.
PROGRAM(conversions) {
    float sum = 0;
    std::printf("%.0f\n", nanoseconds(100000, [&] { sum += aclFloat16ToFloat(aclFloatToFloat16(sum)); }));
}

// x: [512, 4096], about a millisecond.
PROGRAM(large_calls) {
    constexpr int64_t kRowsHere = 512, kColumns = 4096;
    Buffer x(kRowsHere * kColumns * 4), y(kRowsHere * kColumns * 2);
    Stream s;
    const auto make = [](void* address, int64_t columns) {
        const int64_t size[] = {kRowsHere, columns}, stride[] = {columns, 1}, all[] = {kRowsHere * columns};
        return aclCreateTensor(size, 2, ACL_FLOAT, stride, 0, ACL_FORMAT_ND, all, 1, address);
    };
    std::printf("%.0f\n", nanoseconds(5, [&] {
                    glu(make(x, kColumns), make(y, kColumns / 2), s);
                    sync(s);
                }));
}

PROGRAM(tiny_calls_after_many_frees) {
    for (int i = 0; i < 10000; ++i) const Buffer freed(64, false);
    tiny_calls();
}

// Every second element of [300, 300] to every second of [300, 150].
static void measure_strided(bool written) {
    lift_limits();
    constexpr int64_t kSide = 300;
    Buffer x(2 * kSide * kSide * 4), y(kSide * kSide * 4, written), workspace(1 << 22);
    Stream s;
    const auto make = [](void* address, int64_t columns) {
        const int64_t size[] = {kSide, columns}, stride[] = {2 * columns, 2}, all[] = {2 * kSide * columns};
        return aclCreateTensor(size, 2, ACL_FLOAT, stride, 0, ACL_FORMAT_ND, all, 1, address);
    };
    std::printf("%.0f\n", nanoseconds(5, [&] {
                    glu(make(x, kSide), make(y, kSide / 2), s, workspace);
                    sync(s);
                }));
}
PROGRAM(strided_calls) { measure_strided(true); }
PROGRAM(strided_calls_into_fresh_memory) { measure_strided(false); }

int main(int count, char** words) {
    const auto program = programs().find(count > 1 ? words[1] : "");
    if (program == programs().end()) return 98;
    const World world;
    program->second();
}
