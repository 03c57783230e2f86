// aclrt: memory and copies.
#include <optional>

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

// A block that nothing is left to write down in is exhausted memory like any other.
constexpr BoundaryCodes kAllocating{ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_MEMORY_ALLOCATION, ACL_ERROR_INTERNAL_ERROR};

Status allocate(void** address, size_t size, aclrtMemMallocPolicy policy, bool padded,
                std::optional<int> device = std::nullopt) {
    GRADUS_TRY(not_null(kAcl, "devPtr", static_cast<const void*>(address)));
    GRADUS_TRY(check_size(size));
    auto context = current_context();
    if (!context.ok()) return context.status();
    const int owner = device.value_or(context->context->device());
    return store(allocate_device(size, padded, is_huge_only(policy), owner), address);
}

// The device that a configuration names, if it does.
Result<std::optional<int>> device_of(const aclrtMallocConfig* config) {
    std::optional<int> device;
    if (config == nullptr || config->numAttrs == 0) return device;
    GRADUS_TRY(not_null(kAcl, "cfg->attrs", config->attrs));
    for (size_t i = 0; i < config->numAttrs; ++i) {
        const aclrtMallocAttribute& attribute = config->attrs[i];
        if (attribute.attr != ACL_RT_MEM_ATTR_DEVICE_ID) continue;
        GRADUS_TRY(check_device("cfg: deviceId", attribute.value.deviceId));
        device = static_cast<int>(attribute.value.deviceId);
    }
    return device;
}

}  // namespace

extern "C" {

aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
    return guarded(__func__, kAllocating, [&] { return allocate(devPtr, size, policy, true); });
}

aclError aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
    return guarded(__func__, kAllocating, [&] { return allocate(devPtr, size, policy, false); });
}

aclError aclrtMallocWithCfg(void** devPtr, size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig* cfg) {
    return guarded(__func__, kAllocating, [&]() -> Status {
        auto device = device_of(cfg);
        if (!device.ok()) return device.status();
        return allocate(devPtr, size, policy, true, *device);
    });
}

aclError aclrtFree(void* devPtr) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "devPtr", devPtr));
        return release(devPtr, MemoryKind::device);
    });
}

aclError aclrtMallocHost(void** hostPtr, size_t size) {
    return guarded(__func__, kAllocating, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "hostPtr", static_cast<const void*>(hostPtr)));
        GRADUS_TRY(check_size(size));
        if (auto context = current_context(); !context.ok()) return context.status();
        return store(allocate_host(size), hostPtr);
    });
}

aclError aclrtFreeHost(void* hostPtr) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "hostPtr", hostPtr));
        return release(hostPtr, MemoryKind::host);
    });
}

aclError aclrtHostRegister(void* ptr, uint64_t size, aclrtHostRegisterType type, void** devPtr) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "ptr", ptr));
        GRADUS_TRY(not_null(kAcl, "devPtr", static_cast<const void*>(devPtr)));
        GRADUS_TRY(check_size(size));
        if (type != ACL_HOST_REGISTER_MAPPED)
            return {ACL_ERROR_INVALID_PARAM, concat("type: ", static_cast<int>(type), ", expected 0")};
        if (auto context = current_context(); !context.ok()) return context.status();
        GRADUS_TRY(register_host(ptr, size));
        *devPtr = ptr;
        return {};
    });
}

aclError aclrtHostUnregister(void* ptr) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "ptr", ptr));
        return release(ptr, MemoryKind::registered);
    });
}

aclError aclrtPointerGetAttributes(const void* ptr, aclrtPtrAttributes* attributes) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "ptr", ptr));
        GRADUS_TRY(not_null(kAcl, "attributes", attributes));
        *attributes = {};
        const auto allocation = find_allocation(ptr);
        attributes->location.type = !allocation                                ? ACL_MEM_LOCATION_TYPE_UNREGISTERED
                                    : allocation->kind() == MemoryKind::device ? ACL_MEM_LOCATION_TYPE_DEVICE
                                                                               : ACL_MEM_LOCATION_TYPE_HOST;
        if (!allocation) return {};
        if (allocation->kind() == MemoryKind::device)
            attributes->location.id = static_cast<uint32_t>(allocation->device());
        attributes->pageSize = static_cast<uint32_t>(allocation->page());
        return {};
    });
}

aclError aclrtGetMemInfo(aclrtMemAttr, size_t* freeSize, size_t* totalSize) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "freeSize", freeSize));
        GRADUS_TRY(not_null(kAcl, "totalSize", totalSize));
        if (auto context = current_context(); !context.ok()) return context.status();
        const MemoryInfo info = memory_info();
        *freeSize = info.free;
        *totalSize = info.total;
        return {};
    });
}

aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind) {
    return guarded(__func__, kAcl, [&] { return copy(dst, destMax, src, count, kind, {}); });
}

aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream) {
    return guarded(__func__, kAcl, [&] { return copy(dst, destMax, src, count, kind, {true, stream}); });
}

aclError aclrtMemcpy2d(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                       aclrtMemcpyKind kind) {
    return guarded(__func__, kAcl, [&] { return copy_2d(dst, src, {width, height, dpitch, spitch}, kind, {}); });
}

aclError aclrtMemcpy2dAsync(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                            aclrtMemcpyKind kind, aclrtStream stream) {
    return guarded(__func__, kAcl, [&] {
        return copy_2d(dst, src, {width, height, dpitch, spitch}, kind, {true, stream});
    });
}

aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
    return guarded(__func__, kAcl, [&] { return fill(devPtr, maxCount, value, count, {}); });
}

aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream) {
    return guarded(__func__, kAcl, [&] { return fill(devPtr, maxCount, value, count, {true, stream}); });
}

}  // extern "C"
