// All-reduce on two processes: time and bytes a second beside a copy of the same bytes on one core and, where it was
// built with MPI (mpicxx -DWITH_MPI, started by mpirun), beside MPI_Allreduce, in turn.
//   all_reduce [repetitions]
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#ifdef WITH_MPI
#include <mpi.h>
#endif

#include "../examples/device.h"
#include "hccl/hccl.h"

namespace {

template <typename F>
double microseconds(int repetitions, const F& f) {  // the median
    std::vector<double> times;
    for (int i = 0; i < repetitions; ++i) {
        const auto start = std::chrono::steady_clock::now();
        f();
        times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    }
    std::nth_element(times.begin(), times.begin() + static_cast<long>(times.size() / 2), times.end());
    return times[times.size() / 2];
}

void measure(int rank, HcclComm comm, aclrtStream stream, int repetitions) {
    constexpr size_t kMost = size_t{64} << 20;
    void *from = nullptr, *to = nullptr;
    CHECK(aclrtMalloc(&from, kMost, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMalloc(&to, kMost, ACL_MEM_MALLOC_HUGE_FIRST));
    std::memset(from, 0, kMost), std::memset(to, 0, kMost);
    if (rank == 0)
        std::printf("%10s %6s %12s %12s %12s %12s\n", "bytes", "type", "hccl us", "GB/s", "copy us", "MPI us");
    for (size_t bytes = 4 << 10; bytes <= kMost; bytes *= 4)
        for (const HcclDataType type : {HCCL_DATA_TYPE_FP32, HCCL_DATA_TYPE_BFP16}) {
            const int times = std::max(
                5, static_cast<int>(std::min<size_t>(static_cast<size_t>(repetitions), (size_t{1} << 30) / bytes)));
            const uint64_t count = bytes / (type == HCCL_DATA_TYPE_FP32 ? 4 : 2);
            const auto reduce = [&] {
                CHECK(HcclAllReduce(from, to, count, type, HCCL_REDUCE_SUM, comm, stream));
                CHECK(aclrtSynchronizeStream(stream));
            };
            reduce();
            const double hccl = microseconds(times, reduce);
            double copy = 0, mpi = 0;
            if (rank == 0) copy = microseconds(times, [&] { std::memcpy(to, from, bytes); });
            CHECK(HcclBarrier(comm, stream));
            CHECK(aclrtSynchronizeStream(stream));
#ifdef WITH_MPI
            if (type == HCCL_DATA_TYPE_FP32)
                mpi = microseconds(times, [&] {
                    MPI_Allreduce(from, to, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
                });
#endif
            if (rank == 0)
                std::printf("%10zu %6s %12.1f %12.2f %12.1f %12.1f\n", bytes,
                            type == HCCL_DATA_TYPE_FP32 ? "f32" : "bf16", hccl,
                            static_cast<double>(bytes) / hccl * 1e-3, copy, mpi);
        }
}

int rank_main(int rank, HcclRootInfo& info, int repetitions) {
    HcclComm comm = nullptr;
    aclrtStream stream = nullptr;
    CHECK(HcclCommInitRootInfo(2, &info, static_cast<uint32_t>(rank), &comm));
    CHECK(aclrtCreateStream(&stream));
    measure(rank, comm, stream, repetitions);
    CHECK(HcclCommDestroy(comm));
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    HcclRootInfo info;
#ifdef WITH_MPI
    int rank = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CHECK(aclrtSetDevice(0));
    if (rank == 0) CHECK(HcclGetRootInfo(&info));
    MPI_Bcast(&info, sizeof info, MPI_CHAR, 0, MPI_COMM_WORLD);
    const int code = rank_main(rank, info, argc > 1 ? std::atoi(argv[1]) : 200);
    MPI_Finalize();
    return code;
#else
    int pipes[2];
    if (pipe(pipes) != 0) return 1;
    const int repetitions = argc > 1 ? std::atoi(argv[1]) : 200;
    const pid_t child = fork();
    CHECK(aclrtSetDevice(0));
    if (child == 0) {
        char* at = info.internal;
        for (ssize_t n; at < info.internal + sizeof info &&
                        (n = read(pipes[0], at, static_cast<size_t>(info.internal + sizeof info - at))) > 0;)
            at += n;
        return rank_main(1, info, repetitions);
    }
    CHECK(HcclGetRootInfo(&info));
    if (write(pipes[1], &info, sizeof info) != sizeof info) return 1;
    const int code = rank_main(0, info, repetitions);
    int status = 0;
    waitpid(child, &status, 0);
    return code != 0 ? code : status;
#endif
}
