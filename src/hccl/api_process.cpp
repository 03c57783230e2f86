// Hccl: what belongs to no communicator: errors in words, settings, groups of calls.
#include "hccl/api.h"

namespace gradus::hccl {
namespace {

constinit int32_t deterministic = -1;  // behind the process lock; −1: as the environment has it

}  // namespace
}  // namespace gradus::hccl

using namespace gradus;        // NOLINT(google-build-using-namespace)
using namespace gradus::hccl;  // NOLINT(google-build-using-namespace)

extern "C" {

const char* HcclGetErrorString(HcclResult code) {
    switch (code) {
        case HCCL_SUCCESS:
            return "no error";
        case HCCL_E_PARA:
            return "an argument is wrong";
        case HCCL_E_PTR:
            return "a pointer is NULL";
        case HCCL_E_MEMORY:
            return "memory could not be had or used";
        case HCCL_E_INTERNAL:
            return "an error inside the library";
        case HCCL_E_NOT_SUPPORT:
            return "not supported";
        case HCCL_E_NOT_FOUND:
            return "not found";
        case HCCL_E_UNAVAIL:
            return "not available";
        case HCCL_E_SYSCALL:
            return "a system call failed";
        case HCCL_E_TIMEOUT:
            return "a rank did not come in time";
        case HCCL_E_OPEN_FILE_FAILURE:
            return "a file could not be opened";
        case HCCL_E_TCP_CONNECT:
            return "no connection by TCP";
        case HCCL_E_ROCE_CONNECT:
            return "no connection by RoCE";
        case HCCL_E_TCP_TRANSFER:
            return "a transfer by TCP failed";
        case HCCL_E_ROCE_TRANSFER:
            return "a transfer by RoCE failed";
        case HCCL_E_RUNTIME:
            return "a call of the runtime failed";
        case HCCL_E_DRV:
            return "a call of the driver failed";
        case HCCL_E_PROFILING:
            return "a call of the profiler failed";
        case HCCL_E_CCE:
            return "a call of CCE failed";
        case HCCL_E_NETWORK:
            return "a call of the network failed";
        case HCCL_E_AGAIN:
            return "still in use, try again";
        case HCCL_E_REMOTE:
            return "another rank has failed";
        case HCCL_E_SUSPENDING:
            return "the communicator is being suspended";
        case HCCL_E_OPRETRY_FAIL:
            return "a repeated operation failed";
        case HCCL_E_OOM:
            return "out of memory";
        case HCCL_E_IN_STATUS:
            return "the communicator is not in a state for this";
        default:
            return "an unknown error";
    }
}

HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue configValue) {
    return guarded_hccl(__func__, [&]() -> Status {
        if (config != HCCL_DETERMINISTIC)
            return {HCCL_E_PARA, concat("config: ", static_cast<int>(config), ", expected HCCL_DETERMINISTIC")};
        if (configValue.value < 0 || configValue.value > 2)
            return {HCCL_E_PARA, concat("configValue: ", configValue.value, ", expected 0, 1 or 2")};
        const Lock lock = hold();
        deterministic = configValue.value;
        return {};
    });
}

HcclResult HcclGetConfig(HcclConfig config, HcclConfigValue* configValue) {
    return guarded_hccl(__func__, [&]() -> Status {
        GRADUS_TRY(not_null(kHccl, "configValue", configValue));
        if (config != HCCL_DETERMINISTIC)
            return {HCCL_E_PARA, concat("config: ", static_cast<int>(config), ", expected HCCL_DETERMINISTIC")};
        const auto preset = hccl_deterministic();
        const Lock lock = hold();
        if (deterministic < 0 && !preset.ok()) return {HCCL_E_PARA, preset.status().message()};
        configValue->value = deterministic < 0 ? *preset : deterministic;
        return {};
    });
}

uint32_t HcclGetCommConfigCapability(void) { return 12; }  // all up to the name of the buffer, which is number 11

HcclResult HcclGroupStart(void) { return guarded_hccl(__func__, begin_group); }
HcclResult HcclGroupEnd(void) { return guarded_hccl(__func__, end_group); }

HcclResult HcclGroupStatusGet(bool* isGroupEnabled) {
    return guarded_hccl(__func__, [&]() -> Status {
        GRADUS_TRY(not_null(kHccl, "isGroupEnabled", isGroupEnabled));
        *isGroupEnabled = in_group();
        return {};
    });
}

}  // extern "C"
