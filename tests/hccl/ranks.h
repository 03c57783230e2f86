// Ranks for tests: as threads of one process or as processes, over any of the transports.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "hccl/hccl.h"

namespace gradus::testing {

// An environment variable for a while.
class Variable {
  public:
    Variable(const char* name, const std::string& value);
    ~Variable();
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;

  private:
    const char* name_;
};

// Communicators of one process, rank i on device i, each with a stream; driven by the calling thread alone.
class World {
  public:
    World(uint32_t ranks, const char* transport);
    ~World();
    World(const World&) = delete;
    World& operator=(const World&) = delete;

    bool made = false;
    uint32_t size() const { return static_cast<uint32_t>(comms.size()); }
    std::vector<HcclComm> comms;
    std::vector<aclrtStream> streams;

    // Waits for all streams; the codes.
    std::vector<int> synchronize();
};

// Device memory of bytes, which it gives back.
class Buffer {
  public:
    explicit Buffer(size_t bytes);
    explicit Buffer(const std::vector<unsigned char>& bytes);
    Buffer(Buffer&& other) noexcept : data_(other.data_), bytes_(other.bytes_) { other.data_ = nullptr; }
    Buffer& operator=(Buffer&&) = delete;
    ~Buffer();
    unsigned char* data() const { return static_cast<unsigned char*>(data_); }
    std::vector<unsigned char> read() const { return {data(), data() + bytes_}; }

  private:
    void* data_ = nullptr;
    size_t bytes_;
};

// Runs f(rank) in a process each, and waits for all; the exit codes, −signal for one that was killed, −1000 for one
// that had to be ended after `seconds`.
std::vector<int> in_processes(uint32_t ranks, const std::function<int(uint32_t rank)>& f, int seconds = 60);

// A root info handed over in a file, as plain processes do it: rank 0 makes it.
int init_by_file(const std::string& path, uint32_t ranks, uint32_t rank, HcclComm* comm);

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

#define EXPECT_RANK(condition)                                                             \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            std::fprintf(stderr, "rank %u: line %d: %s: %s\n", rank, __LINE__, #condition, \
                         ::gradus::testing::take_message().c_str());                       \
            return 1;                                                                      \
        }                                                                                  \
    } while (0)

// A rank of a program, for in_processes(): sums of several lengths; leaves communicator and stream as they are.
int sums(HcclComm comm, aclrtStream stream, uint32_t rank, uint32_t ranks);
int whole_program(uint32_t rank, uint32_t ranks, const std::function<int(HcclComm*)>& init);

bool gloo_is_there();
std::vector<const char*> transports();

}  // namespace gradus::testing
