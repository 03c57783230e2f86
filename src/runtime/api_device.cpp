// aclrt: devices and contexts.
#include "acl/acl_rt.h"
#include "base/config.h"
#include "runtime/api.h"
#include "runtime/context.h"
#include "runtime/foreign.h"

using namespace gradus;

namespace {

SysParams process_params;  // behind the process lock

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

}  // namespace

extern "C" {

aclError aclrtSetDevice(int32_t deviceId) {
    return guarded(__func__, [&]() -> Status {
        GRADUS_TRY(check_no_foreign_cann());
        return set_device(deviceId);
    });
}

aclError aclrtResetDevice(int32_t deviceId) {
    return guarded(__func__, [&] { return reset_device(deviceId, false); });
}

aclError aclrtResetDeviceForce(int32_t deviceId) {
    return guarded(__func__, [&] { return reset_device(deviceId, true); });
}

aclError aclrtGetDevice(int32_t* deviceId) {
    return guarded(__func__, [&]() -> Status {
        GRADUS_TRY(not_null("deviceId", deviceId));
        auto context = current_context();
        if (!context.ok()) return context.status();
        *deviceId = context->context->device();
        return {};
    });
}

aclError aclrtGetDeviceCount(uint32_t* count) {
    return guarded(__func__, [&]() -> Status {
        GRADUS_TRY(not_null("count", count));
        *count = static_cast<uint32_t>(config_devices());
        return {};
    });
}

aclError aclrtGetRunMode(aclrtRunMode* runMode) {
    return guarded(__func__, [&]() -> Status {
        GRADUS_TRY(not_null("runMode", runMode));
        *runMode = ACL_HOST;
        return {};
    });
}

const char* aclrtGetSocName(void) { return config_or_default().soc_name; }

aclError aclrtSynchronizeDevice(void) {
    return guarded(__func__, [] { return synchronize_context(-1); });
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
    return guarded(__func__, [&]() -> Status {
        GRADUS_TRY(check_timeout(timeout));
        return synchronize_context(timeout);
    });
}

aclError aclrtCreateContext(aclrtContext* context, int32_t deviceId) {
    return guarded(__func__, [&]() -> Status {
        GRADUS_TRY(not_null("context", context));
        GRADUS_TRY(check_no_foreign_cann());
        return store(create_context(deviceId), context);
    });
}

aclError aclrtDestroyContext(aclrtContext context) {
    return guarded(__func__, [&]() -> Status {
        GRADUS_TRY(not_null("context", context));
        return destroy_context(context);
    });
}

aclError aclrtSetCurrentContext(aclrtContext context) {
    return guarded(__func__, [&]() -> Status {
        GRADUS_TRY(not_null("context", context));
        return set_current_context(context);
    });
}

aclError aclrtGetCurrentContext(aclrtContext* context) {
    return guarded(__func__, [&]() -> Status {
        GRADUS_TRY(not_null("context", context));
        auto current = current_context();
        if (!current.ok()) return current.status();
        *context = current->handle;
        return {};
    });
}

aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
    return guarded(__func__, [&]() -> Status {
        auto current = current_context();
        if (!current.ok()) return current.status();
        return set_param(current->context->sys_params, opt, value);
    });
}

aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
    return guarded(__func__, [&]() -> Status {
        GRADUS_TRY(not_null("value", value));
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
    return guarded(__func__, [&] { return set_param(process_params, opt, value); });
}

aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
    return guarded(__func__, [&]() -> Status {
        GRADUS_TRY(not_null("value", value));
        auto stored = get_param(process_params, opt);
        if (!stored.ok()) return stored.status();
        *value = stored->value_or(0);
        return {};
    });
}

}  // extern "C"
