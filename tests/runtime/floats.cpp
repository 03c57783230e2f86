// Prints a number made of the bits of two operators' results, and of the caller's floating-point mode afterwards. What
// the first words of the command line set must not change it:
//   floats MODE [restore]    MODE: bits of MXCSR or FPCR to set before the first call; restore: put back after it
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_scaled_masked_softmax.h"
#include "aclnnop/aclnn_swi_glu.h"
#include "testing/float_mode.h"

namespace {

using gradus::testing::float_mode;
using gradus::testing::set_float_mode;

constexpr int64_t kRows = 1024, kHalf = 1024;  // above what one thread does alone
aclrtStream stream = nullptr;
uint64_t hash = 14695981039346656037ULL;

void expect(bool fine) {
    if (fine) return;
    std::puts(aclGetRecentErrMsg());
    std::exit(1);
}

void* upload(const void* values, size_t bytes) {
    void* device = nullptr;
    expect(aclrtMalloc(&device, bytes, ACL_MEM_MALLOC_HUGE_FIRST) == 0);
    if (values != nullptr) expect(aclrtMemcpy(device, bytes, values, bytes, ACL_MEMCPY_HOST_TO_DEVICE) == 0);
    return device;
}

aclTensor* tensor(const std::vector<int64_t>& dims, aclDataType type, void* data) {
    return aclCreateTensor(dims.data(), dims.size(), type, nullptr, 0, ACL_FORMAT_ND, dims.data(), dims.size(), data);
}

void add(const void* device, size_t bytes) {
    std::vector<unsigned char> host(bytes);
    expect(aclrtMemcpy(host.data(), bytes, device, bytes, ACL_MEMCPY_DEVICE_TO_HOST) == 0);
    for (unsigned char byte : host) hash = (hash ^ byte) * 1099511628211ULL;
}

// Values whose results are small enough to be flushed to zero where that is on, and inexact ones.
void swi_glu(const std::vector<float>& values) {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    void *x = upload(values.data(), values.size() * 4), *y = upload(nullptr, values.size() * 2);
    aclTensor *in = tensor({kRows, 2 * kHalf}, ACL_FLOAT, x), *out = tensor({kRows, kHalf}, ACL_FLOAT, y);
    expect(aclnnSwiGluGetWorkspaceSize(in, -1, out, &size, &executor) == 0);
    expect(aclnnSwiGlu(nullptr, size, executor, stream) == 0 && aclrtSynchronizeStream(stream) == 0);
    add(y, values.size() * 2);
}

// Small enough to run inside the launch. Its scale is a double that no float is equal to: what phase one makes of it
// depends on the rounding.
void softmax(const std::vector<float>& values) {
    const std::vector<int64_t> dims = {1, 1, 32, 64};
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    void *x = upload(values.data(), 8192), *mask = upload(nullptr, 2048), *y = upload(nullptr, 8192);
    aclTensor *in = tensor(dims, ACL_FLOAT, x), *masked = tensor(dims, ACL_BOOL, mask),
              *out = tensor(dims, ACL_FLOAT, y);
    expect(aclnnScaledMaskedSoftmaxGetWorkspaceSize(in, masked, 0.1, false, out, &size, &executor) == 0);
    void* const workspace = size > 0 ? upload(nullptr, size) : nullptr;
    expect(aclnnScaledMaskedSoftmax(workspace, size, executor, stream) == 0 && aclrtSynchronizeStream(stream) == 0);
    add(y, 8192);
}

}  // namespace

int main(int count, char** words) {
    const uint64_t set = std::strtoull(words[1], nullptr, 16), before = float_mode();
    std::vector<float> values(kRows * 2 * kHalf);
    uint32_t random = 1;
    for (size_t i = 0; i < values.size(); ++i) {
        random = random * 1664525U + 1013904223U;
        values[i] = i % 3 == 0 ? static_cast<float>(static_cast<int>(i % 2000) - 1000) * 0.01F
                               : static_cast<float>(static_cast<int>(random >> 8) % 2000 - 1000) * 1e-20F;
    }
    set_float_mode(before | set);
    expect(aclrtSetDevice(0) == 0 && aclrtCreateStream(&stream) == 0);
    void* const large = upload(values.data(), values.size() * 4);  // the first loop over all threads
    if (count > 2) set_float_mode(before);
    const uint64_t during = float_mode();
    swi_glu(values);
    softmax(values);
    if (float_mode() != during) std::puts("the mode has changed");
    expect(aclrtFree(large) == 0);
    std::printf("%016llx\n", static_cast<unsigned long long>(hash));
}
