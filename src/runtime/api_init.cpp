// acl: initialisation, messages.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "acl/acl.h"
#include "base/config.h"
#include "base/json.h"
#include "base/lock.h"
#include "runtime/api.h"
#include "runtime/foreign.h"

using namespace gradus;

namespace {

constinit uint64_t inits = 0;  // behind the process lock

Result<std::string> read_file(const char* path) {
    const std::unique_ptr<FILE, decltype(&std::fclose)> file(std::fopen(path, "rbe"), &std::fclose);
    std::string text;
    if (file) {
        char part[4096];
        while (const size_t n = std::fread(part, 1, sizeof part, file.get())) text.append(part, n);
    }
    if (!file || std::ferror(file.get()) != 0)
        return Status(ACL_ERROR_INVALID_FILE, concat("configPath: cannot read '", path, "': ", std::strerror(errno)));
    return text;
}

// Nothing in such a file means anything here, but a broken one is an error as it would be on the device.
Status check_config_file(const char* path) {
    auto text = read_file(path);
    if (!text.ok()) return text.status();
    if (const auto offset = find_json_error(*text))
        return {ACL_ERROR_PARSE_FILE, concat("configPath: '", path, "' is not JSON at byte ", *offset)};
    return {};
}

}  // namespace

extern "C" {

aclError aclInit(const char* configPath) {
    return guarded(__func__, kAcl, [&]() -> Status {
        GRADUS_TRY(check_no_foreign_cann(ACL_ERROR_INTERNAL_ERROR));
        {
            const Lock lock = hold();
            if (inits > 0) {
                ++inits;
                return {ACL_ERROR_REPEAT_INITIALIZE, "initialised already; counted, and harmless"};
            }
        }
        if (auto settings = config(); !settings.ok()) return settings.status();
        if (configPath != nullptr && *configPath != '\0') GRADUS_TRY(check_config_file(configPath));
        const Lock lock = hold();
        ++inits;
        return {};
    });
}

aclError aclFinalize(void) {
    return guarded(__func__, kAcl, []() -> Status {
        const Lock lock = hold();
        if (inits == 0) return {ACL_ERROR_REPEAT_FINALIZE, "not initialised, or finalised already"};
        inits = 0;
        observe([](Observer& o) { o.on_finalize(); });
        return {};
    });
}

aclError aclFinalizeReference(uint64_t* refCount) {
    return guarded(__func__, kAcl, [&]() -> Status {
        const Lock lock = hold();
        if (refCount != nullptr) *refCount = inits;
        if (inits == 0) return {ACL_ERROR_REPEAT_FINALIZE, "not initialised, or finalised already"};
        --inits;
        if (inits == 0) observe([](Observer& o) { o.on_finalize(); });
        if (refCount != nullptr) *refCount = inits;
        return {};
    });
}

const char* aclGetRecentErrMsg(void) {
    return guarded_value<const char*>(__func__, kAcl, nullptr, []() -> Result<const char*> { return take_messages(); });
}

// There is one level; what a program asks for by another number is that one.
aclError aclrtGetLastError(aclrtLastErrLevel) {
    return guarded_value(__func__, kAcl, 0, []() -> Result<int> { return last_error(true); });
}
aclError aclrtPeekAtLastError(aclrtLastErrLevel) {
    return guarded_value(__func__, kAcl, 0, []() -> Result<int> { return last_error(false); });
}

}  // extern "C"
