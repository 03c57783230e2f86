// Every id that the sanitizer reports, with a program that has the mistake and the same without it. docs/sanitizer.md
// holds the same text, and says what the programs stand in; a test compares the two, and runs every program.
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
    const char* right;
};

constexpr Explained kExplained[] = {
    {"race", "error",
     "Two accesses to a common byte, at least one of them a write, and nothing says which comes first. A warning where "
     "strides are too tangled to tell whether there is a common byte.",
     R"(swi_glu(x, y, stream);
swi_glu(y, z, other);                                   // reads y, which the first may still write
aclrtMemcpy(host, n, z, n, ACL_MEMCPY_DEVICE_TO_HOST);  // and so does the host with z)",
     "An event between the two launches, and a synchronisation before the copy.",
     R"(swi_glu(x, y, stream);
aclrtRecordEvent(event, stream);
aclrtStreamWaitEvent(other, event);
swi_glu(y, z, other);
aclrtSynchronizeStream(other);
aclrtMemcpy(host, n, z, n, ACL_MEMCPY_DEVICE_TO_HOST);)"},
    {"free-in-use", "error", "Device memory is freed while queued work still uses it.",
     R"(swi_glu(x, y, stream);
aclrtFree(x);)",
     "A synchronisation before the free.",
     R"(swi_glu(x, y, stream);
aclrtSynchronizeStream(stream);
aclrtFree(x);)"},
    {"host-free-in-use", "error", "Pinned memory is freed, or unregistered, while a queued copy still uses it.",
     R"(aclrtMemcpyAsync(x, n, host, n, ACL_MEMCPY_HOST_TO_DEVICE, stream);
aclrtFreeHost(host);)",
     "A synchronisation before the free.",
     R"(aclrtMemcpyAsync(x, n, host, n, ACL_MEMCPY_HOST_TO_DEVICE, stream);
aclrtSynchronizeStream(stream);
aclrtFreeHost(host);)"},
    {"use-after-free", "error", "A tensor, a copy or the host itself uses memory that is freed.",
     R"(aclTensor *from = tensor(x, 1024), *to = tensor(y, 512);
aclrtFree(x);
aclnnSwiGluGetWorkspaceSize(from, -1, to, &size, &executor);
aclnnSwiGlu(NULL, size, executor, stream);)",
     "Free after the last use, and make tensors of the memory that is there.",
     R"(aclTensor *from = tensor(x, 1024), *to = tensor(y, 512);
aclnnSwiGluGetWorkspaceSize(from, -1, to, &size, &executor);
aclnnSwiGlu(NULL, size, executor, stream);
aclrtSynchronizeStream(stream);
aclrtFree(x);)"},
    {"address-reused", "error",
     "A tensor was made for memory that is freed by now, and other memory happens to have its address.",
     R"(aclTensor *from = tensor(x, 1024), *to = tensor(y, 512);
aclrtFree(x);
for (void* p = NULL; p != x;) aclrtMalloc(&p, n, policy);  // until the address comes again
aclrtMemset(x, n, 0, n);
aclnnSwiGluGetWorkspaceSize(from, -1, to, &size, &executor);
aclnnSwiGlu(NULL, size, executor, stream);)",
     "A new tensor for the new memory.",
     R"(aclTensor *from, *to = tensor(y, 512);
aclrtFree(x);
for (void* p = NULL; p != x;) aclrtMalloc(&p, n, policy);
aclrtMemset(x, n, 0, n);
from = tensor(x, 1024);
aclnnSwiGluGetWorkspaceSize(from, -1, to, &size, &executor);
aclnnSwiGlu(NULL, size, executor, stream);)"},
    {"stale-address", "error", "A repeatable executor is launched again with an address that was freed meanwhile.",
     R"(aclTensor *from = tensor(x, 1024), *to = tensor(y, 512);
aclnnSwiGluGetWorkspaceSize(from, -1, to, &size, &executor);
aclSetAclOpExecutorRepeatable(executor);
aclnnSwiGlu(NULL, size, executor, stream);
aclrtSynchronizeStream(stream);
aclrtFree(x);
aclnnSwiGlu(NULL, size, executor, stream);)",
     "The new address before the second launch.",
     R"(aclTensor *from = tensor(x, 1024), *to = tensor(y, 512);
aclnnSwiGluGetWorkspaceSize(from, -1, to, &size, &executor);
aclSetAclOpExecutorRepeatable(executor);
aclnnSwiGlu(NULL, size, executor, stream);
aclrtSynchronizeStream(stream);
aclrtFree(x);
aclSetInputTensorAddr(executor, 0, from, z);
aclnnSwiGlu(NULL, size, executor, stream);)"},
    {"host-touches-device", "error", "The host reads or writes device memory through its address.",
     R"(*(float*)x = 1;)", "A copy from host memory, or to it.",
     R"(float one = 1;
aclrtMemcpy(x, n, &one, sizeof one, ACL_MEMCPY_HOST_TO_DEVICE);)"},
    {"host-touches-inflight", "error",
     "The host writes pinned memory that a copy in flight reads, or touches what one writes.",
     R"(aclrtMemcpyAsync(x, n, host, n, ACL_MEMCPY_HOST_TO_DEVICE, stream);
memset(host, 0, n);)",
     "A synchronisation, of the stream or of an event behind the copy, before the host touches it.",
     R"(aclrtMemcpyAsync(x, n, host, n, ACL_MEMCPY_HOST_TO_DEVICE, stream);
aclrtSynchronizeStream(stream);
memset(host, 0, n);)"},
    {"uninitialised", "error",
     "An operator reads bytes that nobody has written. A warning where parts were written, and lengths, masks or "
     "chosen "
     "blocks may leave out the others.",
     R"(void* fresh;
aclrtMalloc(&fresh, n, policy);
swi_glu(fresh, y, stream);)",
     "Copy or fill all of it first. Under the sanitizer fresh memory holds 0xFF, which is NaN.",
     R"(void* fresh;
aclrtMalloc(&fresh, n, policy);
aclrtMemset(fresh, n, 0, n);
swi_glu(fresh, y, stream);)"},
    {"uninitialised-copy", "warning", "Bytes that nobody has written are copied to the host.",
     R"(void* fresh;
aclrtMalloc(&fresh, n, policy);
swi_glu(x, fresh, stream);  // writes the first half
aclrtSynchronizeStream(stream);
aclrtMemcpy(host, n, fresh, n, ACL_MEMCPY_DEVICE_TO_HOST);)",
     "Copy what the operator wrote: fewer bytes, or another buffer.",
     R"(void* fresh;
aclrtMalloc(&fresh, n, policy);
swi_glu(x, fresh, stream);
aclrtSynchronizeStream(stream);
aclrtMemcpy(host, n, fresh, n / 2, ACL_MEMCPY_DEVICE_TO_HOST);)"},
    {"beyond-size", "warning",
     "An access leaves the size that was asked for, inside the bytes that the allocator adds to it.",
     R"(void* halves;
aclrtMalloc(&halves, n / 2, policy);
aclrtMemset(halves, n, 0, n);  // as if they were floats)",
     "The size of the type that is there.",
     R"(void* halves;
aclrtMalloc(&halves, n / 2, policy);
aclrtMemset(halves, n / 2, 0, n / 2);)"},
    {"out-of-footprint", "error", "A tensor or a copy leaves its allocation, or lies in none.",
     R"(float* plain = (float*)malloc(n);
swi_glu(plain, y, stream);)",
     "Memory of aclrtMalloc, and shapes, strides and offsets that stay inside it.", R"(swi_glu(x, y, stream);)"},
    {"overlap", "error", "An output shares bytes with another tensor of the same call, or with the workspace.",
     R"(swi_glu(x, x, stream);  // into the first half of x)",
     "Memory of its own for the output, unless the operator allows exactly that input in its place.",
     R"(swi_glu(x, y, stream);)"},
    {"bad-handle", "error", "A handle that is not alive: destroyed, of another kind, or not a handle at all.",
     R"(aclrtDestroyStream(&stream);)", "The handle itself, and once.", R"(aclrtDestroyStream(stream);)"},
    {"executor-reused", "error", "An executor is launched twice, and is not repeatable.",
     R"(aclTensor *from = tensor(x, 1024), *to = tensor(y, 512);
aclnnSwiGluGetWorkspaceSize(from, -1, to, &size, &executor);
aclnnSwiGlu(NULL, size, executor, stream);
aclnnSwiGlu(NULL, size, executor, stream);)",
     "aclSetAclOpExecutorRepeatable before the first launch, or phase one again.",
     R"(aclTensor *from = tensor(x, 1024), *to = tensor(y, 512);
aclnnSwiGluGetWorkspaceSize(from, -1, to, &size, &executor);
aclSetAclOpExecutorRepeatable(executor);
aclnnSwiGlu(NULL, size, executor, stream);
aclnnSwiGlu(NULL, size, executor, stream);)"},
    {"destroyed-between-phases", "error", "A tensor is destroyed after phase one and before phase two.",
     R"(aclTensor *from = tensor(x, 1024), *to = tensor(y, 512);
aclnnSwiGluGetWorkspaceSize(from, -1, to, &size, &executor);
aclDestroyTensor(from);
aclnnSwiGlu(NULL, size, executor, stream);)",
     "Destroy it after phase two: from then on it is not needed.",
     R"(aclTensor *from = tensor(x, 1024), *to = tensor(y, 512);
aclnnSwiGluGetWorkspaceSize(from, -1, to, &size, &executor);
aclnnSwiGlu(NULL, size, executor, stream);
aclDestroyTensor(from);)"},
    {"workspace-size", "error", "The workspace is smaller than phase one asked for.",
     R"(int64_t row[] = {1, 1, 32}, gaps[] = {64, 64, 2}, storage[] = {64}, square[] = {1, 1, 32, 32};
aclTensor* from = aclCreateTensor(row, 3, ACL_FLOAT, gaps, 0, ACL_FORMAT_ND, storage, 1, x);
aclTensor* to = aclCreateTensor(square, 4, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, square, 4, y);
aclnnExpSegsumGetWorkspaceSize(from, to, &size, &executor);
aclnnExpSegsum(z, size / 2, executor, stream);)",
     "A workspace of as many bytes.",
     R"(int64_t row[] = {1, 1, 32}, gaps[] = {64, 64, 2}, storage[] = {64}, square[] = {1, 1, 32, 32};
aclTensor* from = aclCreateTensor(row, 3, ACL_FLOAT, gaps, 0, ACL_FORMAT_ND, storage, 1, x);
aclTensor* to = aclCreateTensor(square, 4, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, square, 4, y);
aclnnExpSegsumGetWorkspaceSize(from, to, &size, &executor);
void* workspace;
aclrtMalloc(&workspace, size, policy);
aclnnExpSegsum(workspace, size, executor, stream);)"},
    {"bad-free", "error",
     "A free of memory that is freed already, of host memory by aclrtFree or the other way round, or of an address "
     "inside an allocation.",
     R"(aclrtFree(x);
aclrtFree(x);
aclrtFree(host);)",
     "Once, with the address that the allocation gave, by the function of its kind.",
     R"(aclrtFree(x);
aclrtFreeHost(host);)"},
    {"context", "error",
     "A thread without a device gives work to a stream; a stream of another context than the thread's current one is "
     "given work; an event is recorded on a stream of another device, or waited for by one.",
     R"(aclrtSetDevice(1);  // the stream is one of device 0
swi_glu(x, y, stream);
aclrtSynchronizeStream(stream);)",
     "aclrtSetDevice, or aclrtSetCurrentContext, on the thread that calls.",
     R"(aclrtSetDevice(1);
aclrtSetDevice(0);
swi_glu(x, y, stream);
aclrtSynchronizeStream(stream);)"},
    {"api-error", "error",
     "A call failed for another reason; the message says which. A warning where the device may have what is missing "
     "here.",
     R"(aclTensor *from = tensor(x, 1024), *to = tensor(y, 512);
aclnnSwiGluGetWorkspaceSize(from, 7, to, &size, &executor);  // there is no dimension 7)",
     "As the message says. `--report-api-errors no` where failing is intended.",
     R"(aclTensor *from = tensor(x, 1024), *to = tensor(y, 512);
aclnnSwiGluGetWorkspaceSize(from, -1, to, &size, &executor);)"},
    {"error-ignored", "warning",
     "A call failed, nobody read the message or tried again, and the program went on to its end as if nothing had "
     "been.",
     R"(aclTensor *from = tensor(x, 1024), *to = tensor(y, 511);
aclnnSwiGluGetWorkspaceSize(from, -1, to, &size, &executor);
return 0;)",
     "Look at the code; aclGetRecentErrMsg tells what was wrong. The failure itself is told as what it is.",
     R"(aclTensor *from = tensor(x, 1024), *to = tensor(y, 512);
if (aclnnSwiGluGetWorkspaceSize(from, -1, to, &size, &executor) != 0) {
    puts(aclGetRecentErrMsg());
    return 1;
})"},
    {"not-waited-for", "error", "The process ends while there is work that nobody has waited for.",
     R"(swi_glu(x, y, stream);
return 0;)",
     "aclrtSynchronizeStream, or aclrtDestroyStream, before the end.",
     R"(swi_glu(x, y, stream);
aclrtSynchronizeStream(stream);
return 0;)"},
    {"deadlock", "error", "The program waits for a stream that waits for a record nobody asks for.",
     R"(aclrtEvent gate;
aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC);
aclrtStreamWaitEvent(stream, gate);
aclrtSynchronizeStream(stream);)",
     "The record first. A program with one thread is ended, because it would wait for ever.",
     R"(aclrtEvent gate;
aclrtCreateEventWithFlag(&gate, ACL_EVENT_SYNC);
aclrtStreamWaitEvent(stream, gate);
aclrtRecordEvent(gate, other);
aclrtSynchronizeStream(stream);)"},
    {"leak", "warning",
     "Memory, streams, events, contexts, tensors, arrays, lists, executors or communicators are left at the end.",
     R"(aclTensor* left = tensor(x, 1024);)",
     "Its destroy function. A line for each kind; `--leak-check full` tells each.",
     R"(aclTensor* gone = tensor(x, 1024);
aclDestroyTensor(gone);)"},
    {"portability", "warning",
     "It works here and not on the device: a copy from host to host on a stream, a call for memory, work or waiting in "
     "a function of aclrtLaunchHostFunc. With `--portability full` also what the device need not do as Gradus does, "
     "and what many programs do: an asynchronous copy with memory that aclrtMallocHost did not give out, for which "
     "Gradus waits; one whose addresses are no multiples of 64, which CANN before 8.3 asks for; a copy or fill without "
     "a stream while the device has work queued, for which Gradus waits, too; a stream, context or device that is "
     "destroyed, or reset, before the program has waited for its work.",
     R"(char* upper = (char*)host + n / 2;
aclrtMemcpyAsync(host, n / 2, upper, n / 2, ACL_MEMCPY_HOST_TO_HOST, stream);)",
     "A copy without a stream; let the function wake a thread of the program, and call there. Memory of "
     "aclrtMallocHost at multiples of 64; aclrtSynchronizeStream before anything relies on the work.",
     R"(char* upper = (char*)host + n / 2;
aclrtMemcpy(host, n / 2, upper, n / 2, ACL_MEMCPY_HOST_TO_HOST);)"},
    {"unused", "note", "Device memory that was never read or written. Told with `--leak-check full`.",
     R"(void* fresh;
aclrtMalloc(&fresh, n, policy);
aclrtFree(fresh);)",
     "Leave it out, or use it.",
     R"(void* fresh;
aclrtMalloc(&fresh, n, policy);
aclrtMemset(fresh, n, 0, n);
aclrtFree(fresh);)"},
};

std::string markdown(const Explained& one) {
    return fmt::format("### {}\n\n{}: {}\n\n```c\n{}\n```\n\nRepair: {}\n\n```c\n{}\n```\n", one.id, one.level,
                       one.what, one.wrong, one.repair, one.right);
}

}  // namespace

std::string explain_finding(const std::string& id) {
    std::string text;
    for (const Explained& one : kExplained)
        if (id == one.id || id == "all") text += fmt::format("{}{}", text.empty() ? "" : "\n", markdown(one));
    return text;
}

}  // namespace gradus::cli
