// aclrt: memory and copies.
#include "acl/acl_rt.h"
#include "runtime/api.h"
#include "runtime/context.h"
#include "runtime/copy.h"
#include "runtime/memory.h"

using namespace gradus;

namespace {

Status check_size(size_t size) {
    if (size > 0) return {};
    return {ACL_ERROR_INVALID_PARAM, "size: 0, expected at least 1"};
}

// The low byte says which pages, the bits above it which kind of memory: of that there is only one here.
bool is_huge_only(aclrtMemMallocPolicy policy) {
    switch (static_cast<unsigned>(policy) & 0xFFU) {
        case ACL_MEM_MALLOC_HUGE_ONLY:
        case ACL_MEM_MALLOC_HUGE_ONLY_P2P:
        case ACL_MEM_MALLOC_HUGE1G_ONLY:
        case ACL_MEM_MALLOC_HUGE1G_ONLY_P2P:
            return true;
        default:
            return false;
    }
}

Status allocate(void** address, size_t size, aclrtMemMallocPolicy policy, bool padded) {
    GRADUS_TRY(not_null("devPtr", static_cast<const void*>(address)));
    GRADUS_TRY(check_size(size));
    auto context = current_context();
    if (!context.ok()) return context.status();
    return store(allocate_device(size, padded, is_huge_only(policy), context->context->device()), address);
}

}  // namespace

extern "C" {

aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
    return guarded(__func__, [&] { return allocate(devPtr, size, policy, true); });
}

aclError aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
    return guarded(__func__, [&] { return allocate(devPtr, size, policy, false); });
}

aclError aclrtFree(void* devPtr) {
    return guarded(__func__, [&]() -> Status {
        GRADUS_TRY(not_null("devPtr", devPtr));
        return release(devPtr, MemoryKind::device);
    });
}

aclError aclrtMallocHost(void** hostPtr, size_t size) {
    return guarded(__func__, [&]() -> Status {
        GRADUS_TRY(not_null("hostPtr", static_cast<const void*>(hostPtr)));
        GRADUS_TRY(check_size(size));
        if (auto context = current_context(); !context.ok()) return context.status();
        return store(allocate_host(size), hostPtr);
    });
}

aclError aclrtFreeHost(void* hostPtr) {
    return guarded(__func__, [&]() -> Status {
        GRADUS_TRY(not_null("hostPtr", hostPtr));
        return release(hostPtr, MemoryKind::host);
    });
}

aclError aclrtGetMemInfo(aclrtMemAttr, size_t* freeSize, size_t* totalSize) {
    return guarded(__func__, [&]() -> Status {
        GRADUS_TRY(not_null("freeSize", freeSize));
        GRADUS_TRY(not_null("totalSize", totalSize));
        if (auto context = current_context(); !context.ok()) return context.status();
        const MemoryInfo info = memory_info();
        *freeSize = info.free;
        *totalSize = info.total;
        return {};
    });
}

aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind) {
    return guarded(__func__, [&] { return copy(dst, destMax, src, count, kind, {}); });
}

aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream) {
    return guarded(__func__, [&] { return copy(dst, destMax, src, count, kind, {true, stream}); });
}

aclError aclrtMemcpy2d(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                       aclrtMemcpyKind kind) {
    return guarded(__func__, [&] { return copy_2d(dst, src, {width, height, dpitch, spitch}, kind, {}); });
}

aclError aclrtMemcpy2dAsync(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                            aclrtMemcpyKind kind, aclrtStream stream) {
    return guarded(__func__, [&] { return copy_2d(dst, src, {width, height, dpitch, spitch}, kind, {true, stream}); });
}

aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
    return guarded(__func__, [&] { return fill(devPtr, maxCount, value, count, {}); });
}

aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream) {
    return guarded(__func__, [&] { return fill(devPtr, maxCount, value, count, {true, stream}); });
}

}  // extern "C"
