// Every id that the sanitizer reports, with a program that has the mistake and its repair. docs/sanitizer.md holds the
// same text, which a test compares.
#include <fmt/core.h>

#include "cli/sanitize/sanitize.h"

namespace gradus::cli {
namespace {

struct Explained {
    const char* id;
    const char* level;
    const char* what;
    const char* wrong;
    const char* repair;
};

constexpr Explained kExplained[] = {
    {"race", "error",
     "Two accesses to a common byte, at least one of them a write, and nothing says which comes first.",
     "aclnnSwiGlu(workspace, size, executor, stream1);              // writes y\n"
     "aclnnSwiGluGrad(workspace2, size2, executor2, stream2);       // reads y\n"
     "aclrtMemcpy(host, n, y, n, ACL_MEMCPY_DEVICE_TO_HOST);        // and so does the host",
     "aclrtRecordEvent(event, stream1) and aclrtStreamWaitEvent(stream2, event) between the two launches; "
     "aclrtSynchronizeStream before the copy."},
    {"free-in-use", "error", "Device memory is freed while queued work still uses it.",
     "aclnnSwiGlu(workspace, size, executor, stream);\n"
     "aclrtFree(workspace);",
     "aclrtSynchronizeStream(stream) before the free."},
    {"host-free-in-use", "error", "Pinned memory is freed, or unregistered, while a queued copy still uses it.",
     "aclrtMemcpyAsync(x, n, pinned, n, ACL_MEMCPY_HOST_TO_DEVICE, stream);\n"
     "aclrtFreeHost(pinned);",
     "aclrtSynchronizeStream(stream) before the free."},
    {"use-after-free", "error", "A tensor, a copy or the host itself uses memory that is freed.",
     "aclTensor* x = aclCreateTensor(..., address);\n"
     "aclrtFree(address);\n"
     "aclnnSwiGluGetWorkspaceSize(x, -1, y, &size, &executor);\n"
     "aclnnSwiGlu(workspace, size, executor, stream);",
     "Free after the last use, and make tensors of the memory that is there."},
    {"address-reused", "error",
     "A tensor was made for memory that is freed by now, and other memory happens to have its address.",
     "aclTensor* x = aclCreateTensor(..., first);\n"
     "aclrtFree(first);\n"
     "aclrtMalloc(&second, n, policy);                               // second == first\n"
     "aclnnSwiGluGetWorkspaceSize(x, -1, y, &size, &executor);       // then launched",
     "A new tensor for the new memory."},
    {"stale-address", "error", "A repeatable executor is launched again with an address that was freed meanwhile.",
     "aclnnSwiGlu(workspace, size, executor, stream);                // the first time\n"
     "aclrtFree(x);\n"
     "aclrtMalloc(&x, n, policy);\n"
     "aclnnSwiGlu(workspace, size, executor, stream);",
     "aclSetInputTensorAddr(executor, 0, tensor, x) before the second launch."},
    {"host-touches-device", "error", "The host reads or writes device memory through its address.",
     "aclrtMalloc((void**)&x, n, policy);\n"
     "x[0] = 1.0f;",
     "aclrtMemcpy from and to host memory."},
    {"host-touches-inflight", "error",
     "The host writes pinned memory that a copy in flight reads, or touches what one writes.",
     "aclrtMemcpyAsync(x, n, pinned, n, ACL_MEMCPY_HOST_TO_DEVICE, stream);\n"
     "memset(pinned, 0, n);",
     "aclrtSynchronizeStream(stream), or an event behind the copy, before the host touches it."},
    {"uninitialised", "error", "An operator reads bytes that nobody has written.",
     "aclrtMalloc(&x, n, policy);\n"
     "aclnnSwiGlu(workspace, size, executor, stream);                // reads x",
     "Copy or fill all of it first. Under the sanitizer fresh memory holds 0xFF, which is NaN."},
    {"uninitialised-copy", "warning", "Bytes that nobody has written are copied to the host.",
     "aclrtMalloc(&y, n, policy);\n"
     "aclrtMemcpy(host, n, y, n, ACL_MEMCPY_DEVICE_TO_HOST);",
     "Copy what the operator wrote: another buffer, or fewer bytes."},
    {"beyond-size", "warning",
     "An access leaves the size that was asked for, inside the bytes that the allocator adds to it.",
     "aclrtMalloc(&y, rows * columns * sizeof(uint16_t), policy);\n"
     "aclrtMemcpy(host, n, y, rows * columns * sizeof(float), ACL_MEMCPY_DEVICE_TO_HOST);",
     "The size of the type that is there."},
    {"out-of-footprint", "error", "A tensor or a copy leaves its allocation, or lies in none.",
     "float* x = (float*)malloc(n);\n"
     "aclTensor* tensor = aclCreateTensor(shape, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, shape, 2, x);",
     "Memory of aclrtMalloc, and shapes, strides and offsets that stay inside it."},
    {"overlap", "error", "An output shares bytes with another tensor of the same call, or with the workspace.",
     "aclTensor* y = aclCreateTensor(..., x);                        // the first half of x\n"
     "aclnnSwiGlu(workspace, size, executor, stream);",
     "Memory of its own for the output, unless the operator allows exactly that input in its place."},
    {"bad-handle", "error", "A handle that is not alive: destroyed, of another kind, or not a handle at all.",
     "aclrtDestroyStream(&stream);", "aclrtDestroyStream(stream)."},
    {"executor-reused", "error", "An executor is launched twice, and is not repeatable.",
     "aclnnSwiGlu(workspace, size, executor, stream);\n"
     "aclnnSwiGlu(workspace, size, executor, stream);",
     "aclSetAclOpExecutorRepeatable(executor) before the first launch, or phase one again."},
    {"destroyed-between-phases", "error", "A tensor is destroyed after phase one and before phase two.",
     "aclnnSwiGluGetWorkspaceSize(x, -1, y, &size, &executor);\n"
     "aclDestroyTensor(x);\n"
     "aclnnSwiGlu(workspace, size, executor, stream);",
     "Destroy it after phase two: from then on it is not needed."},
    {"workspace-size", "error", "The workspace is smaller than phase one asked for.",
     "aclnnSwiGluGetWorkspaceSize(x, -1, y, &size, &executor);\n"
     "aclnnSwiGlu(workspace, 1024, executor, stream);",
     "A workspace of `size` bytes."},
    {"bad-free", "error",
     "A free of memory that is freed already, of host memory by aclrtFree or the other way round, or of an address "
     "inside an allocation.",
     "aclrtFree(x);\n"
     "aclrtFree(x);",
     "Once, with the address that the allocation gave, by the function of its kind."},
    {"context", "error", "A thread without a device, or a stream of another context than the thread's current one.",
     "aclrtCreateStream(&stream);                                    // on device 0\n"
     "aclrtSetDevice(1);\n"
     "aclnnSwiGlu(workspace, size, executor, stream);",
     "aclrtSetDevice, or aclrtSetCurrentContext, on the thread that calls."},
    {"api-error", "error", "A call failed for another reason; the message says which.",
     "aclnnSwiGluGetWorkspaceSize(x, 7, y, &size, &executor);        // x has no dimension 7",
     "As the message says. `--report-api-errors no` where failing is intended."},
    {"error-ignored", "warning",
     "A call failed, nobody read the message or tried again, and the program went on to its end as if nothing had "
     "been.",
     "aclnnSwiGluGetWorkspaceSize(x, 7, y, &size, &executor);\n"
     "aclnnSwiGlu(workspace, size, executor, stream);",
     "Look at the code; aclGetRecentErrMsg tells what was wrong."},
    {"not-waited-for", "error", "The process ends while there is work that nobody has waited for.",
     "aclnnSwiGlu(workspace, size, executor, stream);\n"
     "return 0;",
     "aclrtSynchronizeStream(stream), or aclrtDestroyStream(stream), before the end."},
    {"deadlock", "error", "The program waits for a stream that waits for a record nobody asks for.",
     "aclrtStreamWaitEvent(stream, event);                           // made by aclrtCreateEventWithFlag\n"
     "aclrtSynchronizeStream(stream);",
     "aclrtRecordEvent(event, other) first. A program with one thread is ended, because it would wait for ever."},
    {"leak", "warning", "Memory, streams, events, contexts, tensors, arrays, lists or executors are left at the end.",
     "aclTensor* x = aclCreateTensor(...);\n"
     "return 0;",
     "Its destroy function. A line for each kind; `--leak-check full` tells each."},
    {"portability", "warning",
     "It works here and not on the device: a copy from host to host on a stream, a call of the interface in a "
     "callback.",
     "aclrtLaunchHostFunc(stream, [](void*) { aclrtMemset(x, n, 0, n); }, nullptr);",
     "Let the callback wake a thread of the program, and call there."},
    {"unused", "note", "Device memory that was never read or written. Told with `--leak-check full`.",
     "aclrtMalloc(&x, n, policy);\n"
     "aclrtFree(x);",
     "Leave it out."},
};

std::string markdown(const Explained& one) {
    return fmt::format("### {}\n\n{}: {}\n\n```c\n{}\n```\n\nRepair: {}\n", one.id, one.level, one.what, one.wrong,
                       one.repair);
}

}  // namespace

std::string explain_finding(const std::string& id) {
    std::string text;
    for (const Explained& one : kExplained) {
        if (id != one.id && id != "all") continue;
        if (!text.empty()) text += '\n';
        text += markdown(one);
    }
    return text;
}

}  // namespace gradus::cli
