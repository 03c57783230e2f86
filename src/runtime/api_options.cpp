// Our own few words: version and options.
#include "base/config.h"
#include "gradus/gradus.h"
#include "runtime/api.h"
#include "runtime/parallel.h"

using namespace gradus;

extern "C" {

const char* gradusVersion(void) {
    return guarded_value<const char*>(__func__, kAcl, nullptr, []() -> Result<const char*> { return GRADUS_VERSION; });
}

aclError gradusSetOption(const char* name, const char* value) {
    return guarded(__func__, kAcl, [&] { return set_option(name, value); });
}

aclError gradusSetThreadOption(const char* name, const char* value) {
    return guarded(__func__, kAcl, [&] { return set_thread_option(name, value); });
}

aclError gradusSetLoop(gradusLoop loop, void* host) {
    return guarded(__func__, kAcl, [&] { return lend_loop(loop, host), Status(); });
}

const char* gradusGetOption(const char* name) {
    return guarded_value<const char*>(__func__, kAcl, nullptr,
                                      [&]() -> Result<const char*> { return get_option(name); });
}

}  // extern "C"
