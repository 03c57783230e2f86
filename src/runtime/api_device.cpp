// aclrt: devices and contexts.
#include "acl/acl_rt.h"
#include "base/config.h"
#include "runtime/api.h"
#include "runtime/context.h"
#include "runtime/foreign.h"

using namespace gradus;

namespace {

constinit SysParams process_params;  // behind the process lock

Result<std::optional<int64_t>*> param(SysParams& params, aclSysParamOpt opt) {
    if (opt < 0 || opt >= kSysParams)
        return Status(ACL_ERROR_INVALID_PARAM,
                      concat("opt: ", static_cast<int>(opt), ", expected 0 to ", kSysParams - 1));
    return &params[static_cast<size_t>(opt)];
}

Status set_param(SysParams& params, aclSysParamOpt opt, int64_t value) {
    auto slot = param(params, opt);
    if (!slot.ok()) return slot.status();
    const Lock lock = hold();
    **slot = value;
    return {};
}

Result<std::optional<int64_t>> get_param(SysParams& params, aclSysParamOpt opt) {
    auto slot = param(params, opt);
    if (!slot.ok()) return slot.status();
    const Lock lock = hold();
    return **slot;
}

Status check_peer(int32_t peer) {
    GRADUS_TRY(check_device("peerDeviceId", peer));
    auto context = current_context();
    if (!context.ok()) return context.status();
    if (context->context->device() != peer) return {};
    return {ACL_ERROR_RT_PARAM_INVALID, concat("peerDeviceId: ", peer, " is the current device, expected another")};
}

}  // namespace

extern "C" {

aclError aclrtSetDevice(int32_t deviceId) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(check_no_foreign_cann(ACL_ERROR_INTERNAL_ERROR));
        return set_device(deviceId);
    });
}

aclError aclrtResetDevice(int32_t deviceId) {
    return guarded(__func__, kAcl, [&] { return reset_device(deviceId, false); });
}

aclError aclrtResetDeviceForce(int32_t deviceId) {
    return guarded(__func__, kAcl, [&] { return reset_device(deviceId, true); });
}

aclError aclrtGetDevice(int32_t* deviceId) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "deviceId", deviceId));
        auto context = current_context();
        if (!context.ok()) return context.status();
        *deviceId = context->context->device();
        return {};
    });
}

aclError aclrtGetDeviceCount(uint32_t* count) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "count", count));
        *count = static_cast<uint32_t>(config_devices());
        return {};
    });
}

aclError aclrtGetRunMode(aclrtRunMode* runMode) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "runMode", runMode));
        *runMode = ACL_HOST;
        return {};
    });
}

const char* aclrtGetSocName(void) {
    return guarded_value<const char*>(__func__, kAcl, nullptr,
                                      []() -> Result<const char*> { return config_or_default().soc_name; });
}

aclError aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion, int32_t* patchVersion) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "majorVersion", majorVersion));
        GRADUS_TRY(not_null(kAcl, "minorVersion", minorVersion));
        GRADUS_TRY(not_null(kAcl, "patchVersion", patchVersion));
        *majorVersion = ACL_MAJOR_VERSION;
        *minorVersion = ACL_MINOR_VERSION;
        *patchVersion = ACL_PATCH_VERSION;
        return {};
    });
}

aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t* value) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "value", value));
        GRADUS_TRY(check_device("deviceId", deviceId));
        switch (attr) {
            case ACL_DEV_ATTR_AICPU_CORE_NUM:
            case ACL_DEV_ATTR_AICORE_CORE_NUM:
            case ACL_DEV_ATTR_VECTOR_CORE_NUM:
                *value = config_or_default().num_threads;
                return {};
        }
        return {ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                concat("attr: ", static_cast<int>(attr), ", expected 1, 101 or 201 (cores of a kind)")};
    });
}

aclError aclrtDeviceCanAccessPeer(int32_t* canAccessPeer, int32_t deviceId, int32_t peerDeviceId) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "canAccessPeer", canAccessPeer));
        GRADUS_TRY(check_device("deviceId", deviceId));
        GRADUS_TRY(check_device("peerDeviceId", peerDeviceId));
        *canAccessPeer = deviceId != peerDeviceId ? 1 : 0;
        return {};
    });
}

aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags) {
    return guarded(__func__, kAcl, [&]() -> Status {
        if (flags != 0) return {ACL_ERROR_RT_PARAM_INVALID, concat("flags: ", flags, ", expected 0")};
        return check_peer(peerDeviceId);
    });
}

aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId) {
    return guarded(__func__, kAcl, [&] { return check_peer(peerDeviceId); });
}

aclError aclrtSynchronizeDevice(void) {
    return guarded(__func__, kAcl, [] { return synchronize_context(-1); });
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(check_timeout(timeout));
        return synchronize_context(timeout);
    });
}

aclError aclrtCreateContext(aclrtContext* context, int32_t deviceId) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "context", context));
        GRADUS_TRY(check_no_foreign_cann(ACL_ERROR_INTERNAL_ERROR));
        return store(create_context(deviceId), context);
    });
}

aclError aclrtDestroyContext(aclrtContext context) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "context", context));
        return destroy_context(context);
    });
}

aclError aclrtSetCurrentContext(aclrtContext context) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "context", context));
        return set_current_context(context);
    });
}

aclError aclrtGetCurrentContext(aclrtContext* context) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "context", context));
        auto current = current_context();
        if (!current.ok()) return current.status();
        *context = current->handle;
        return {};
    });
}

aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
    return guarded(__func__, kAcl, [&]() -> Status {
        auto current = current_context();
        if (!current.ok()) return current.status();
        return set_param(current->context->sys_params, opt, value);
    });
}

aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "value", value));
        auto current = current_context();
        if (!current.ok()) return current.status();
        auto stored = get_param(current->context->sys_params, opt);
        if (!stored.ok()) return stored.status();
        if (!stored->has_value())
            return {ACL_ERROR_RT_SYSPARAMOPT_NOT_SET,
                    concat("opt: ", static_cast<int>(opt), " was never set on this context")};
        *value = **stored;
        return {};
    });
}

aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
    return guarded(__func__, kAcl, [&] { return set_param(process_params, opt, value); });
}

aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(not_null(kAcl, "value", value));
        auto stored = get_param(process_params, opt);
        if (!stored.ok()) return stored.status();
        *value = stored->value_or(0);
        return {};
    });
}

}  // extern "C"
