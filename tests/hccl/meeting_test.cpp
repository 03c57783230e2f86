// Where ranks of several processes meet: the end of its process, tables that say where it is.
#include <chrono>
#include <cstring>
#include <fstream>

#include "ranks.h"
#include "testing/runtime.h"

namespace gradus::testing {
namespace {

class Meeting : public Processes {};

// Rank 0, in whose process the ranks have met, is done first and ends. Nobody needs it any more, so nothing is wrong.
TEST_F(Meeting, ItsProcessEnds) {
    for (const char* transport : transports()) {
        if (std::string(transport) == "local") continue;
        const Variable forced("GRADUS_HCCL_TRANSPORT", transport);
        const auto program = [](const Path& path, uint32_t rank) {
            aclrtStream stream = nullptr;
            HcclComm comm = nullptr;
            void* x = nullptr;
            EXPECT_RANK(aclrtSetDevice(0) == 0 && aclrtCreateStream(&stream) == 0);
            EXPECT_RANK(aclrtMalloc(&x, 64, ACL_MEM_MALLOC_HUGE_FIRST) == 0);
            EXPECT_RANK(init_by_file(path.name, 3, rank, &comm) == 0);
            EXPECT_RANK(HcclBarrier(comm, stream) == 0 && aclrtSynchronizeStream(stream) == 0);
            if (rank == 0) return HcclCommDestroy(comm) == 0 ? 0 : 1;
            usleep(300000);
            HcclResult error = HCCL_E_RESERVED;
            EXPECT_RANK(HcclGetCommAsyncError(comm, &error) == 0 && error == HCCL_SUCCESS);
            static_cast<char*>(x)[0] = rank == 1 ? 'x' : 'y';
            const int code = rank == 1 ? HcclSend(x, 8, HCCL_DATA_TYPE_INT8, 2, comm, stream)
                                       : HcclRecv(x, 8, HCCL_DATA_TYPE_INT8, 1, comm, stream);
            EXPECT_RANK(code == 0);
            EXPECT_RANK(aclrtSynchronizeStream(stream) == 0);
            EXPECT_RANK(static_cast<char*>(x)[0] == 'x');
            // who needs it knows at once
            if (HcclBarrier(comm, stream) == 0) EXPECT_RANK(aclrtSynchronizeStreamWithTimeout(stream, 20000) == 507000);
            const std::string message = take_message();
            EXPECT_RANK(message.find("rank 0 has destroyed its communicator") != std::string::npos ||
                        (std::fprintf(stderr, "%s\n", message.c_str()), false));
            EXPECT_RANK(HcclGetCommAsyncError(comm, &error) == 0 && error == HCCL_E_REMOTE);
            EXPECT_RANK(HcclCommDestroy(comm) == 0);
            return 0;
        };
        for (int time = 0; time < 5; ++time) {
            const Path path;
            EXPECT_EQ(in_processes(3, [&](uint32_t rank) { return program(path, rank); }), (std::vector<int>{0, 0, 0}))
                << transport;
        }
    }
}

// And at once: others may still be about to say that they have all they need.
TEST_F(Meeting, ItsProcessEndsAtOnce) {
    for (int time = 0; time < 30; ++time) {
        const Path path;
        EXPECT_EQ(in_processes(4,
                               [&](uint32_t rank) {
                                   HcclComm comm = nullptr;
                                   EXPECT_RANK(aclrtSetDevice(0) == 0);
                                   EXPECT_RANK(init_by_file(path.name, 4, rank, &comm) == 0);
                                   EXPECT_RANK(HcclCommDestroy(comm) == 0);
                                   return 0;
                               }),
                  (std::vector<int>{0, 0, 0, 0}));
    }
}

// Who is there and who comes hear the same, long before their time is over; by both kinds of sockets.
TEST_F(Meeting, RanksCountDifferently) {
    for (const bool by_tcp : {false, true}) {
        const Path path;
        const auto program = [&](uint32_t rank) {
            if (by_tcp) setenv("HCCL_IF_IP", "127.0.0.1", 1);
            setenv("HCCL_IF_BASE_PORT", std::to_string(22000 + getppid() % 20000).c_str(), 1);
            EXPECT_RANK(aclrtSetDevice(0) == 0);
            HcclComm comm = nullptr;
            int code;
            if (rank == 0) {
                code = init_by_file(path.name, 2, rank, &comm);
            } else {
                HcclRootInfo info;
                for (int i = 0; i < 10000 && access(path.name.c_str(), R_OK) != 0; ++i) usleep(1000);
                std::ifstream(path.name, std::ios::binary).read(info.internal, sizeof info.internal);
                if (by_tcp) info.internal[186] = '?';  // the name of its machine: so it is another
                code = HcclCommInitRootInfo(3, &info, rank, &comm);
            }
            const std::string message = take_message();
            EXPECT_RANK(code == HCCL_E_PARA || (std::fprintf(stderr, "%d: %s\n", code, message.c_str()), false));
            EXPECT_RANK(message.find("rank 1 counts 3 ranks, others 2") != std::string::npos ||
                        message.find("rank 0 counts 2 ranks, others 3") != std::string::npos);
            return 0;
        };
        EXPECT_EQ(in_processes(2, program), (std::vector<int>{0, 0})) << (by_tcp ? "by TCP" : "");
    }
}

// Who comes when all others have failed and left hears why, at once; and those who have heard may try again.
TEST_F(Meeting, ARankComesWhenAllHaveLeft) {
    const auto wait_for = [](const std::string& name) {
        for (int i = 0; i < 20000 && access(name.c_str(), R_OK) != 0; ++i) usleep(1000);
    };
    const auto note = [](const std::string& name) { std::ofstream(name) << "x"; };
    for (const bool differently : {true, false}) {  // or the first two have waited long enough
        const Path path, zero, one, two;
        const auto program = [&](uint32_t rank) {
            if (!differently && rank < 2) setenv("HCCL_CONNECT_TIMEOUT", "3", 1);
            EXPECT_RANK(aclrtSetDevice(0) == 0);
            if (rank == 2) wait_for(zero.name), wait_for(one.name);
            HcclComm comm = nullptr;
            const auto start = std::chrono::steady_clock::now();
            const int code = init_by_file(path.name, differently && rank == 0 ? 2 : 3, rank, &comm);
            const std::string message = take_message();
            const bool as_told = differently
                                     ? code == HCCL_E_PARA && message.find(" ranks, others ") != std::string::npos
                                     : code == HCCL_E_TIMEOUT && message.find("missing: rank 2") != std::string::npos;
            EXPECT_RANK(as_told || (std::fprintf(stderr, "%d: %s\n", code, message.c_str()), false));
            EXPECT_RANK(std::chrono::steady_clock::now() - start < std::chrono::seconds(rank == 2 ? 5 : 20));
            note((rank == 0 ? zero : rank == 1 ? one : two).name);
            wait_for(two.name);
            setenv("HCCL_CONNECT_TIMEOUT", "20", 1);
            HcclRootInfo info;
            std::ifstream(path.name, std::ios::binary).read(info.internal, sizeof info.internal);
            EXPECT_RANK(HcclCommInitRootInfo(3, &info, rank, &comm) == 0);
            EXPECT_RANK(HcclCommDestroy(comm) == 0);
            return 0;
        };
        EXPECT_EQ(in_processes(3, program), (std::vector<int>{0, 0, 0})) << (differently ? "count" : "time");
    }
}

// A table is of one communicator at a time, for whoever asks again.
TEST_F(Meeting, ARankTableTwice) {
    const Path path;
    std::ofstream(path.name) << R"({"status":"completed","version":"1.0","server_list":[{"server_id":")" << getpid()
                             << R"(","device":[{"rank_id":"0"},{"rank_id":"1"}]}]})";
    EXPECT_EQ(in_processes(2,
                           [&](uint32_t rank) {
                               HcclComm comm = nullptr, again = nullptr;
                               aclrtStream stream = nullptr;
                               EXPECT_RANK(aclrtSetDevice(0) == 0 && aclrtCreateStream(&stream) == 0);
                               EXPECT_RANK(HcclCommInitClusterInfo(path.name.c_str(), rank, &comm) == 0);
                               EXPECT_RANK(HcclCommInitClusterInfo(path.name.c_str(), rank, &again) == HCCL_E_PARA);
                               const std::string message = take_message();
                               EXPECT_RANK(message.find("joined already") != std::string::npos ||
                                           (std::fprintf(stderr, "%s\n", message.c_str()), false));
                               EXPECT_RANK(HcclBarrier(comm, stream) == 0 && aclrtSynchronizeStream(stream) == 0);
                               EXPECT_RANK(HcclCommDestroy(comm) == 0);
                               return 0;
                           }),
              (std::vector<int>{0, 0}));
}

TEST_F(Meeting, RankTablesThatAreWrong) {
    const std::string device0 = R"({"device_id":"0","rank_id":"0"})", device1 = R"({"device_id":"1","rank_id":"1"})";
    const auto table = [](const std::string& rest) { return R"({"status":"completed","version":"1.0",)" + rest + "}"; };
    const auto list = [](const std::string& devices) {
        return R"("server_list":[{"server_id":"a","device":[)" + devices + "]}]";
    };
    const std::pair<std::string, const char*> tables[] = {
        {"", "not JSON"},
        {std::string(200, '['), "not JSON"},
        {table(list(device0)) + "}", "not JSON"},
        {R"({"status":"initializing",)" + list(device0) + "}", "status: 'initializing', expected completed"},
        {std::string((16 << 20) + 1, ' '), "longer than 16 MiB"},
        {table(R"("server_count":"1")"), "server_count: 1, expected 0"},
        {table(R"("server_count":"2",)" + list(device0)), "server_count: 2, expected 1"},
        {table(R"("server_count":"one",)" + list(device0)), "server_count: 'one', expected a number"},
        {table(R"("server_list":[])"), "no device with a rank_id"},
        {table(list(R"({"device_id":"0"})")), "no device with a rank_id"},
        {table(list(R"({"rank_id":"-1"})")), "rank_id: '-1', expected a number"},
        {table(list(device0 + "," + device0)), "rank_id 0 is there twice"},
        {table(list(device1)), "without a gap"},
        {table(R"("server_list":[{"device":[)" + device0 + "]}]"), "its server has no server_id"},
        {table(list(device0 + R"(,{"device_port":"70000","rank_id":"1"})")), "device_port: '70000'"},
        {table(R"("server_list":[{"server_id":"a","device":[)" + device0 + R"(]},{"server_id":"b","device":[)" +
               device1 + "]}]"),
         "rank 0 has no device_ip"},
    };
    for (const auto& [text, words] : tables) {
        const Path path;
        std::ofstream(path.name) << text;
        EXPECT_EQ(in_processes(1,
                               [&](uint32_t rank) {
                                   HcclComm comm = nullptr;
                                   EXPECT_RANK(aclrtSetDevice(0) == 0);
                                   EXPECT_RANK(HcclCommInitClusterInfo(path.name.c_str(), 0, &comm) == HCCL_E_PARA);
                                   const std::string message = take_message();
                                   EXPECT_RANK(message.find(words) != std::string::npos ||
                                               (std::fprintf(stderr, "%s\n", message.c_str()), false));
                                   return 0;
                               }),
                  std::vector<int>{0})
            << text.substr(0, 200);
    }
    EXPECT_EQ(in_processes(1,
                           [&](uint32_t rank) {  // one that never ends
                               HcclComm comm = nullptr;
                               EXPECT_RANK(aclrtSetDevice(0) == 0);
                               EXPECT_RANK(HcclCommInitClusterInfo("/dev/zero", 0, &comm) == HCCL_E_PARA);
                               EXPECT_RANK(take_message().find("longer than 16 MiB") != std::string::npos);
                               return 0;
                           }),
              std::vector<int>{0});
}

}  // namespace
}  // namespace gradus::testing
