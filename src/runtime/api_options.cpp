// Our own few words: version and options.
#include "base/config.h"
#include "gradus/gradus.h"
#include "runtime/api.h"

using namespace gradus;

extern "C" {

const char* gradusVersion(void) {
    return guarded_value<const char*>(__func__, kAcl, nullptr, []() -> Result<const char*> { return GRADUS_VERSION; });
}

aclError gradusSetOption(const char* name, const char* value) {
    return guarded(__func__, kAcl, [&] { return set_option(name, value); });
}

const char* gradusGetOption(const char* name) {
    return guarded_value<const char*>(__func__, kAcl, nullptr,
                                      [&]() -> Result<const char*> { return get_option(name); });
}

}  // extern "C"
