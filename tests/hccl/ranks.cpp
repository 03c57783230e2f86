#include "ranks.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "testing/runtime.h"

namespace gradus::testing {

Variable::Variable(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
Variable::~Variable() { unsetenv(name_); }

World::World(uint32_t ranks, const char* transport) {
    const Variable forced("GRADUS_HCCL_TRANSPORT", transport);
    std::vector<int32_t> devices;
    for (uint32_t r = 0; r < ranks; ++r) devices.push_back(static_cast<int32_t>(r));
    comms.assign(ranks, nullptr);
    EXPECT_EQ(HcclCommInitAll(ranks, devices.data(), comms.data()), HCCL_SUCCESS) << take_message();
    streams.assign(ranks, nullptr);
    made = true;
    for (uint32_t r = 0; r < ranks; ++r) {
        made &= comms[r] != nullptr && aclrtSetDevice(devices[r]) == 0 && aclrtCreateStream(&streams[r]) == 0;
    }
    EXPECT_TRUE(made) << take_message();
}

World::~World() {
    for (size_t r = 0; r < comms.size(); ++r) {
        if (comms[r] != nullptr) {
            EXPECT_EQ(HcclCommDestroy(comms[r]), HCCL_SUCCESS) << take_message();
        }
        aclrtSetDevice(static_cast<int32_t>(r));
        if (streams[r] != nullptr) aclrtDestroyStream(streams[r]);
        if (r > 0) aclrtResetDeviceForce(static_cast<int32_t>(r));  // 0 has buffers, and the harness's stream
    }
}

std::vector<int> World::synchronize() {
    std::vector<int> codes;
    for (aclrtStream stream : streams) codes.push_back(aclrtSynchronizeStream(stream));
    return codes;
}

Buffer::Buffer(size_t bytes) : bytes_(bytes) {
    aclrtSetDevice(0);
    EXPECT_EQ(aclrtMalloc(&data_, bytes > 0 ? bytes : 1, ACL_MEM_MALLOC_NORMAL_ONLY), 0) << take_message();
    std::memset(data_, 0xEE, bytes);
}
Buffer::Buffer(const std::vector<unsigned char>& bytes) : Buffer(bytes.size()) {
    std::memcpy(data_, bytes.data(), bytes.size());
}
Buffer::~Buffer() {
    if (data_ != nullptr) aclrtFree(data_);
}

std::vector<int> in_processes(uint32_t ranks, const std::function<int(uint32_t rank)>& f, int seconds) {
    std::vector<pid_t> children;
    std::fflush(nullptr);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
        const pid_t child = fork();
        if (child == 0) {
            const int code = f(rank);
            std::fflush(nullptr);
            _exit(code);
        }
        children.push_back(child);
    }
    std::vector<int> codes;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    for (const pid_t child : children) {
        int status = 0;
        while (waitpid(child, &status, WNOHANG) == 0) {
            if (std::chrono::steady_clock::now() > end) {
                kill(child, SIGKILL);
                waitpid(child, &status, 0);
                status = -1;
                break;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
        codes.push_back(status == -1 ? -1000 : WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    }
    return codes;
}

int init_by_file(const std::string& path, uint32_t ranks, uint32_t rank, HcclComm* comm) {
    HcclRootInfo info;
    if (rank == 0) {
        if (const int code = HcclGetRootInfo(&info); code != 0) return code;
        std::ofstream(path + ".new", std::ios::binary).write(info.internal, sizeof info.internal);
        std::rename((path + ".new").c_str(), path.c_str());
    } else {
        for (int i = 0; i < 10000 && access(path.c_str(), R_OK) != 0; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        std::ifstream(path, std::ios::binary).read(info.internal, sizeof info.internal);
    }
    return HcclCommInitRootInfo(ranks, &info, rank, comm);
}

int sums(HcclComm comm, aclrtStream stream, uint32_t rank, uint32_t ranks) {
    for (const size_t count : {size_t{5}, size_t{30000}, size_t{700001}}) {
        void* x = nullptr;
        EXPECT_RANK(aclrtMalloc(&x, count * 4, ACL_MEM_MALLOC_HUGE_FIRST) == 0);
        auto* const f = static_cast<float*>(x);
        for (size_t i = 0; i < count; ++i) f[i] = static_cast<float>(rank + i % 7);
        EXPECT_RANK(HcclAllReduce(x, x, count, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream) == 0);
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

bool gloo_is_there() { return access(GRADUS_GLOO, R_OK) == 0; }

std::vector<const char*> transports() {
    std::vector<const char*> all = {"local", "shared"};
    if (gloo_is_there()) all.push_back("gloo");
    return all;
}

}  // namespace gradus::testing
