// Ranks as processes: the ways to start, ranks that are killed, strangers at the door.
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>

#include "ranks.h"
#include "testing/runtime.h"

namespace gradus::testing {
namespace {

constexpr auto kF32 = HCCL_DATA_TYPE_FP32;
constexpr auto kSum = HCCL_REDUCE_SUM;

// A path of this test's own, gone with it.
struct Path {
    std::string name =
        ::testing::TempDir() + "gradus_hccl_" + std::to_string(getpid()) + "_" + std::to_string(counter++);
    Path() { std::remove(name.c_str()); }
    ~Path() { std::remove(name.c_str()); }
    static inline int counter = 0;
};

class Processes : public ::testing::Test {
  protected:
    void SetUp() override {
#if defined(__SANITIZE_THREAD__)
        GTEST_SKIP() << "the thread sanitizer does not survive a fork between threads";
#endif
    }
};

// Sums of several lengths; leaves communicator and stream as they are.
int sums(HcclComm comm, aclrtStream stream, uint32_t rank, uint32_t ranks) {
    for (const size_t count : {size_t{5}, size_t{30000}, size_t{700001}}) {
        void* x = nullptr;
        EXPECT_RANK(aclrtMalloc(&x, count * 4, ACL_MEM_MALLOC_HUGE_FIRST) == 0);
        auto* const f = static_cast<float*>(x);
        for (size_t i = 0; i < count; ++i) f[i] = static_cast<float>(rank + i % 7);
        EXPECT_RANK(HcclAllReduce(x, x, count, kF32, kSum, comm, stream) == 0);
        EXPECT_RANK(aclrtSynchronizeStream(stream) == 0);
        const float base = static_cast<float>(ranks * (ranks - 1)) / 2;
        for (size_t i = 0; i < count; ++i) EXPECT_RANK(f[i] == base + static_cast<float>(ranks * (i % 7)));
        EXPECT_RANK(aclrtFree(x) == 0);
    }
    return 0;
}

int whole_program(uint32_t rank, uint32_t ranks, const std::function<int(HcclComm*)>& init) {
    aclrtStream stream = nullptr;
    HcclComm comm = nullptr;
    EXPECT_RANK(aclInit(nullptr) == 0 && aclrtSetDevice(0) == 0 && aclrtCreateStream(&stream) == 0);
    EXPECT_RANK(init(&comm) == 0);
    if (const int failed = sums(comm, stream, rank, ranks); failed != 0) return failed;
    EXPECT_RANK(HcclCommDestroy(comm) == 0);
    EXPECT_RANK(aclrtDestroyStream(stream) == 0 && aclrtResetDevice(0) == 0 && aclFinalize() == 0);
    return 0;
}

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

TEST_F(Processes, ARankNeverComes) {
    const Path path;
    EXPECT_EQ(in_processes(2,
                           [&](uint32_t rank) {
                               setenv("HCCL_CONNECT_TIMEOUT", "1", 1);
                               HcclComm comm = nullptr;
                               EXPECT_RANK(aclrtSetDevice(0) == 0);
                               EXPECT_RANK(init_by_file(path.name, 4, rank, &comm) != 0);
                               const std::string message = take_message();
                               EXPECT_RANK(message.find("missing: rank 2, 3") != std::string::npos ||
                                           message.find("is gone") != std::string::npos);
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

// Whoever has not the key is dropped, whatever it sends, and those who have it meet all the same.
TEST_F(Processes, StrangersAtTheDoor) {
    const Path path;
    EXPECT_EQ(in_processes(3,
                           [&](uint32_t rank) {
                               if (rank < 2)
                                   return whole_program(rank, 2, [&](HcclComm* comm) {
                                       if (rank == 1) usleep(300000);  // the strangers first
                                       return init_by_file(path.name, 2, rank, comm);
                                   });
                               HcclRootInfo info;
                               for (int i = 0; i < 10000 && access(path.name.c_str(), R_OK) != 0; ++i) usleep(1000);
                               std::ifstream(path.name, std::ios::binary).read(info.internal, sizeof info.internal);
                               const std::string name(info.internal + 26);  // behind magic, key and port
                               EXPECT_RANK(name.rfind("gradus-hccl-", 0) == 0);
                               sockaddr_un where{};
                               where.sun_family = AF_UNIX;
                               std::memcpy(where.sun_path + 1, name.data(), name.size());
                               const auto size =
                                   static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
                               char nonsense[4096];
                               std::memset(nonsense, 0x5A, sizeof nonsense);
                               char wrong_key[32];
                               std::memcpy(wrong_key, "GRHCCL01", 8), std::memset(wrong_key + 8, 0, 24);
                               for (int i = 0; i < 100; ++i) {
                                   const int s = socket(AF_UNIX, SOCK_STREAM, 0);
                                   EXPECT_RANK(s >= 0);
                                   if (connect(s, reinterpret_cast<sockaddr*>(&where), size) != 0)
                                       return 0;  // it is over
                                   if (i % 4 == 0) static_cast<void>(!send(s, nonsense, sizeof nonsense, MSG_NOSIGNAL));
                                   if (i % 4 == 1) static_cast<void>(!send(s, wrong_key, 32, MSG_NOSIGNAL));
                                   if (i % 4 == 2)
                                       static_cast<void>(!send(s, wrong_key, 7, MSG_NOSIGNAL));  // and no more
                                   char answer;
                                   if (i % 4 < 2) EXPECT_RANK(recv(s, &answer, 1, 0) <= 0);  // dropped without a word
                                   if (i % 4 < 2) close(s);
                               }
                               return 0;
                           }),
              (std::vector<int>{0, 0, 0}));
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
