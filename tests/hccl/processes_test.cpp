// Ranks as processes: the ways to start, ranks that are killed.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

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

// A child has none of its parent's communicators, and does not keep them alive.
TEST_F(Processes, AfterAFork) {
    for (const char* transport : {"local", "shared"}) {
        EXPECT_EQ(in_processes(1,
                               [&](uint32_t rank) {
                                   World w(2, transport);
                                   Buffer x(64);
                                   const pid_t child = fork();
                                   if (child == 0) {
                                       const int refused = HcclBarrier(w.comms[0], w.streams[0]);
                                       const int destroyed = HcclCommDestroy(w.comms[1]);
                                       _exit(refused == HCCL_E_UNAVAIL && destroyed == 0 ? 0 : 1);
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
