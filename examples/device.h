// What these programs need: a check of every call, tensors in device memory, phase two, a stream, and how much memory
// it took.
#ifndef GRADUS_EXAMPLES_DEVICE_H
#define GRADUS_EXAMPLES_DEVICE_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"

// Every call returns a code, and the library keeps a sentence about the last one that was not 0.
inline void check(int code, const char* call) {
    if (code == 0) return;
    const char* message = aclGetRecentErrMsg();
    std::fprintf(stderr, "%s returned %d: %s\n", call, code, message != nullptr ? message : "no message");
    std::exit(1);
}
#define CHECK(call) check(call, #call)

// A dense tensor in device memory. T is what the host has for an element: float, uint16_t for bf16, char for bool.
template <typename T>
class Tensor {
  public:
    Tensor(const std::vector<int64_t>& shape, aclDataType type) : count_(1), data_(nullptr) {
        for (int64_t size : shape) count_ *= static_cast<size_t>(size);
        CHECK(aclrtMalloc(&data_, bytes(), ACL_MEM_MALLOC_HUGE_FIRST));
        tensor_ = aclCreateTensor(shape.data(), shape.size(), type, nullptr, 0, ACL_FORMAT_ND, shape.data(),
                                  shape.size(), data_);
        check(tensor_ == nullptr, "aclCreateTensor");
    }
    ~Tensor() {
        aclDestroyTensor(tensor_);
        aclrtFree(data_);
    }
    Tensor(const Tensor&) = delete;
    Tensor& operator=(const Tensor&) = delete;

    aclTensor* get() const { return tensor_; }
    void* data() const { return data_; }
    void write(const T* host) { CHECK(aclrtMemcpy(data_, bytes(), host, bytes(), ACL_MEMCPY_HOST_TO_DEVICE)); }
    void write(const std::vector<T>& host) { write(host.data()); }
    std::vector<T> read() const {
        std::vector<T> host(count_);
        CHECK(aclrtMemcpy(host.data(), bytes(), data_, bytes(), ACL_MEMCPY_DEVICE_TO_HOST));
        return host;
    }

  private:
    size_t bytes() const { return count_ * sizeof(T); }
    size_t count_;
    void* data_;
    aclTensor* tensor_;
};

// bf16 is the upper half of a float; rounded to nearest even.
inline uint16_t to_bf16(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
inline float from_bf16(uint16_t x) {
    const uint32_t bits = static_cast<uint32_t>(x) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

// Phase two of any operator: the workspace that phase one asked for, the launch, and the wait for its end.
typedef aclnnStatus (*Launch)(void*, uint64_t, aclOpExecutor*, aclrtStream);
inline void launch(Launch phase_two, uint64_t size, aclOpExecutor* executor, aclrtStream stream) {
    void* workspace = nullptr;
    if (size > 0) CHECK(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(phase_two(workspace, size, executor, stream));
    CHECK(aclrtSynchronizeStream(stream));
    if (size > 0) CHECK(aclrtFree(workspace));
}

// The frame of a program: device 0 and a stream around what it does.
inline int on_device(int (*run)(aclrtStream)) {
    aclrtStream stream = nullptr;
    CHECK(aclInit(nullptr));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));
    const int result = run(stream);
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return result;
}

// MiB of memory that this process has ever had at once.
inline double peak_memory() {
    std::FILE* file = std::fopen("/proc/self/status", "r");
    char line[256];
    double kilobytes = 0;
    while (file != nullptr && std::fgets(line, sizeof line, file) != nullptr)
        if (std::sscanf(line, "VmHWM: %lf", &kilobytes) == 1) break;
    if (file != nullptr) std::fclose(file);
    return kilobytes / 1024;
}

#endif  // GRADUS_EXAMPLES_DEVICE_H
