// Ranks as processes: the ways to start, ranks that are killed.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include "gradus/gradus.h"
#include "ranks.h"
#include "testing/runtime.h"

namespace gradus::testing {
namespace {

TEST_F(Processes, RootInfoInAFile) {
    for (const char* transport : transports()) {
        if (std::string(transport) == "local") continue;
        const Variable forced("GRADUS_HCCL_TRANSPORT", transport);
        for (const uint32_t ranks : {2u, 5u}) {
            const Path path;
            EXPECT_EQ(in_processes(ranks,
                                   [&](uint32_t rank) {
                                       return whole_program(rank, ranks, [&](HcclComm* comm) {
                                           return init_by_file(path.name, ranks, rank, comm);
                                       });
                                   }),
                      std::vector<int>(ranks, 0))
                << transport;
        }
    }
}

// Two machines are two addresses of the loopback network, and servers of different names.
TEST_F(Processes, RankTable) {
    for (const bool two : {false, true}) {
        if (two && !gloo_is_there()) continue;
        const Path path;
        const std::string port = std::to_string(20000 + getpid() % 20000);
        const auto device = [&](int rank, const char* ip) {
            return "{\"device_id\":\"" + std::to_string(rank) + "\",\"device_ip\":\"" + ip + "\",\"device_port\":\"" +
                   port + "\",\"rank_id\":\"" + std::to_string(rank) + "\"}";
        };
        std::string servers =
            "{\"server_id\":\"a\",\"device\":[" + device(0, "127.0.0.1") + "," + device(1, "127.0.0.1");
        servers += two ? "]},{\"server_id\":\"b\",\"device\":[" : ",";
        servers += device(2, two ? "127.0.0.2" : "127.0.0.1") + "]}";
        std::ofstream(path.name) << "{\"status\":\"completed\",\"version\":\"1.0\",\"server_count\":\"" << (two ? 2 : 1)
                                 << "\",\"server_list\":[" << servers << "]}";
        EXPECT_EQ(in_processes(3,
                               [&](uint32_t rank) {
                                   return whole_program(rank, 3, [&](HcclComm* comm) {
                                       return HcclCommInitClusterInfo(path.name.c_str(), rank, comm);
                                   });
                               }),
                  std::vector<int>(3, 0))
            << (two ? "two servers" : "one server");
    }
    EXPECT_EQ(
        in_processes(1,
                     [](uint32_t rank) {
                         HcclComm comm = nullptr;
                         EXPECT_RANK(aclrtSetDevice(0) == 0);
                         EXPECT_RANK(HcclCommInitClusterInfo("/nonexistent", 0, &comm) == HCCL_E_OPEN_FILE_FAILURE);
                         const Path bad;
                         std::ofstream(bad.name)
                             << "{\"server_list\":[{\"server_id\":\"a\",\"device\":[{\"rank_id\":\"1\"}]}]}";
                         EXPECT_RANK(HcclCommInitClusterInfo(bad.name.c_str(), 0, &comm) == HCCL_E_PARA);
                         EXPECT_RANK(take_message().find("without a gap") != std::string::npos);
                         return 0;
                     }),
        std::vector<int>(1, 0));
}

// HCCL_IF_IP opens the door to other machines: here by TCP on the loopback network.
TEST_F(Processes, ThroughTcp) {
    if (!gloo_is_there()) GTEST_SKIP() << "built without Gloo";
    const Path path;
    EXPECT_EQ(in_processes(2,
                           [&](uint32_t rank) {
                               setenv("HCCL_IF_IP", rank == 0 ? "127.0.0.1" : "127.0.0.3", 1);
                               setenv("GRADUS_HCCL_TRANSPORT", "gloo", 1);
                               setenv("HCCL_IF_BASE_PORT", std::to_string(21000 + getppid() % 20000).c_str(), 1);
                               return whole_program(
                                   rank, 2, [&](HcclComm* comm) { return init_by_file(path.name, 2, rank, comm); });
                           }),
              (std::vector<int>{0, 0}));
}

// The first whose time is over, in whose process the ranks meet, tells the others who is missing before it ends.
TEST_F(Processes, ARankNeverComes) {
    const Path path;
    EXPECT_EQ(in_processes(2,
                           [&](uint32_t rank) {
                               setenv("HCCL_CONNECT_TIMEOUT", rank == 0 ? "3" : "40", 1);
                               HcclComm comm = nullptr;
                               EXPECT_RANK(aclrtSetDevice(0) == 0);
                               EXPECT_RANK(init_by_file(path.name, 4, rank, &comm) == HCCL_E_TIMEOUT);
                               const std::string message = take_message();
                               EXPECT_RANK(message.find("waited 3 s (HCCL_CONNECT_TIMEOUT); missing: rank 2, 3") !=
                                           std::string::npos);
                               return 0;
                           }),
              (std::vector<int>{0, 0}));
}

// In the middle of sums, without a word. The others know within a second or two, and say who.
TEST_F(Processes, ARankIsKilled) {
    for (const char* transport : transports()) {
        if (std::string(transport) == "local") continue;
        const Variable forced("GRADUS_HCCL_TRANSPORT", transport);
        for (const uint32_t victim : {0u, 2u}) {  // the one with the meeting point, and another
            const Path path;
            std::vector<int> expected(3, 0);
            expected[victim] = -SIGKILL;
            EXPECT_EQ(in_processes(3,
                                   [&](uint32_t rank) {
                                       aclrtStream stream = nullptr;
                                       HcclComm comm = nullptr;
                                       EXPECT_RANK(aclrtSetDevice(0) == 0 && aclrtCreateStream(&stream) == 0);
                                       EXPECT_RANK(init_by_file(path.name, 3, rank, &comm) == 0);
                                       if (const int failed = sums(comm, stream, rank, 3); failed != 0) return failed;
                                       if (rank == victim) kill(getpid(), SIGKILL);
                                       const auto start = std::chrono::steady_clock::now();
                                       EXPECT_RANK(HcclBarrier(comm, stream) == 0 ||
                                                   take_message().find("gone") != std::string::npos);
                                       const int code = aclrtSynchronizeStream(stream);
                                       HcclResult error = HCCL_SUCCESS;
                                       EXPECT_RANK(HcclGetCommAsyncError(comm, &error) == 0);
                                       EXPECT_RANK(error == HCCL_E_REMOTE);
                                       EXPECT_RANK(code == 0 || take_message().find("gone") != std::string::npos);
                                       EXPECT_RANK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
                                       EXPECT_RANK(HcclCommDestroy(comm) == 0);
                                       return 0;
                                   }),
                      expected)
                << transport << ", rank " << victim << " killed";
        }
    }
}

// While megabytes are under way, and not between two calls.
TEST_F(Processes, ARankIsKilledInTheMiddle) {
    for (const char* transport : transports()) {
        if (std::string(transport) == "local") continue;
        const Variable forced("GRADUS_HCCL_TRANSPORT", transport);
        for (const uint32_t victim : {0u, 2u}) {
            const Path path;
            std::vector<int> expected(3, 0);
            expected[victim] = -SIGKILL;
            const auto program = [&](uint32_t rank) {
                constexpr size_t kCount = 1 << 20;
                aclrtStream stream = nullptr;
                HcclComm comm = nullptr;
                void* x = nullptr;
                EXPECT_RANK(aclrtSetDevice(0) == 0 && aclrtCreateStream(&stream) == 0);
                EXPECT_RANK(aclrtMalloc(&x, 4 * kCount, ACL_MEM_MALLOC_HUGE_FIRST) == 0);
                EXPECT_RANK(init_by_file(path.name, 3, rank, &comm) == 0);
                const auto sum = [&] {
                    const int code = HcclAllReduce(x, x, kCount, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream);
                    return code != 0 ? code : aclrtSynchronizeStream(stream);
                };
                EXPECT_RANK(sum() == 0);
                if (rank == victim) std::thread([] { usleep(20000), kill(getpid(), SIGKILL); }).detach();
                while (sum() == 0) {
                }
                EXPECT_RANK(take_message().find("gone") != std::string::npos);
                HcclResult error = HCCL_SUCCESS;
                EXPECT_RANK(HcclGetCommAsyncError(comm, &error) == 0 && error == HCCL_E_REMOTE);
                EXPECT_RANK(HcclCommDestroy(comm) == 0);
                return 0;
            };
            EXPECT_EQ(in_processes(3, program), expected) << transport << ", rank " << victim << " killed";
        }
    }
}

// Of one long message, who sends it or who receives it.
TEST_F(Processes, ARankIsKilledHalfWay) {
    for (const char* transport : transports()) {
        if (std::string(transport) == "local") continue;
        const Variable forced("GRADUS_HCCL_TRANSPORT", transport);
        for (const uint32_t victim : {0u, 1u}) {
            const Path path;
            std::vector<int> expected(2, 0);
            expected[victim] = -SIGKILL;
            const auto program = [&](uint32_t rank) {
                constexpr size_t kBytes = size_t{1} << 28;
                aclrtStream stream = nullptr;
                HcclComm comm = nullptr;
                void* x = nullptr;
                EXPECT_RANK(aclrtSetDevice(0) == 0 && aclrtCreateStream(&stream) == 0);
                EXPECT_RANK(aclrtMalloc(&x, kBytes, ACL_MEM_MALLOC_HUGE_FIRST) == 0);
                EXPECT_RANK(aclrtMemset(x, kBytes, static_cast<int>(rank) + 1, kBytes) == 0);
                EXPECT_RANK(init_by_file(path.name, 2, rank, &comm) == 0);
                if (rank == victim) std::thread([] { usleep(20000), kill(getpid(), SIGKILL); }).detach();
                const auto start = std::chrono::steady_clock::now();
                while ((rank == 0 ? HcclSend(x, kBytes, HCCL_DATA_TYPE_INT8, 1, comm, stream)
                                  : HcclRecv(x, kBytes, HCCL_DATA_TYPE_INT8, 0, comm, stream)) == 0 &&
                       aclrtSynchronizeStream(stream) == 0) {
                }
                EXPECT_RANK(take_message().find("gone") != std::string::npos);
                EXPECT_RANK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
                HcclResult error = HCCL_SUCCESS;
                EXPECT_RANK(HcclGetCommAsyncError(comm, &error) == 0 && error == HCCL_E_REMOTE);
                EXPECT_RANK(HcclCommDestroy(comm) == 0);
                return 0;
            };
            EXPECT_EQ(in_processes(2, program), expected) << transport << ", rank " << victim << " killed";
        }
    }
}

// Processes of one machine share its CPUs, unless the program has said how many threads it wants.
TEST_F(Processes, ShareTheCpus) {
    const int cpus = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
    for (const bool asked : {false, true}) {
        const Path path;
        const auto program = [&](uint32_t rank) {
            if (asked) setenv("GRADUS_NUM_THREADS", std::to_string(cpus + 1).c_str(), 1);
            const int before = std::atoi(gradusGetOption("num_threads"));
            HcclComm comm = nullptr;
            EXPECT_RANK(aclrtSetDevice(0) == 0);
            EXPECT_RANK(init_by_file(path.name, 2, rank, &comm) == 0);
            const int after = std::atoi(gradusGetOption("num_threads"));
            EXPECT_RANK(after == (asked ? cpus + 1 : std::max(1, before / 2)));
            EXPECT_RANK(HcclCommDestroy(comm) == 0);
            return 0;
        };
        EXPECT_EQ(in_processes(2, program), (std::vector<int>{0, 0})) << (asked ? "asked" : "");
    }
}

// A child has none of its parent's communicators, does not keep them alive, and may make its own.
TEST_F(Processes, AfterAFork) {
    for (const char* transport : transports()) {
        EXPECT_EQ(in_processes(1,
                               [&](uint32_t rank) {
                                   World w(2, transport);
                                   Buffer x(64);
                                   const pid_t child = fork();
                                   if (child == 0) {
                                       const int refused = HcclBarrier(w.comms[0], w.streams[0]);
                                       const int destroyed = HcclCommDestroy(w.comms[1]);
                                       World own(2, transport);
                                       for (uint32_t r = 0; r < 2; ++r) HcclBarrier(own.comms[r], own.streams[r]);
                                       const bool works = own.synchronize() == std::vector<int>{0, 0};
                                       _exit(refused == HCCL_E_UNAVAIL && destroyed == 0 && works ? 0 : 1);
                                   }
                                   EXPECT_RANK(child > 0);
                                   int status = -1;
                                   EXPECT_RANK(waitpid(child, &status, 0) == child && status == 0);
                                   for (uint32_t r = 0; r < 2; ++r)
                                       EXPECT_RANK(HcclBarrier(w.comms[r], w.streams[r]) == 0);
                                   for (const int code : w.synchronize()) EXPECT_RANK(code == 0);
                                   return ::testing::Test::HasFailure() ? 1 : 0;
                               }),
                  std::vector<int>{0})
            << transport;
    }
}

}  // namespace
}  // namespace gradus::testing
