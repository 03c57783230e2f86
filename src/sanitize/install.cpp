#include "sanitize/install.h"

#include <cstdlib>

#include "acl/acl_base.h"
#include "base/config.h"
#include "base/last_words.h"
#include "base/lock.h"
#include "base/refused.h"
#include "runtime/memory.h"
#include "sanitize/sanitizer.h"
#include "sanitize/teller.h"

namespace gradus::sanitize {
namespace {

// Never destroyed: streams may still work while the process exits.
Sanitizer* const the_one = []() -> Sanitizer* {
    std::string error;
    const std::optional<Options> options = parse_options(environment("GRADUS_SANITIZE"), error);
    if (!error.empty()) refuse_environment({ACL_ERROR_INVALID_PARAM, concat(error)});
    if (!options || !error.empty()) return nullptr;
    auto* const made = new Sanitizer(*options);
    set_memory_policy({.poison = options->initcheck,
                       .two_mappings = options->memcheck,
                       .quarantine = options->memcheck ? options->quarantine : 0});
    after_fork_in_child([] { the_one->after_fork(); });
    on_exit([](int status, void*) { the_one->at_exit(status); }, nullptr);
    at_quick_exit([] {
        the_one->at_exit(-1);
        the_one->at_end();
    });
    before_fatal_signals(wish_for_summary);
    install(*made);
    return made;
}();

// With the library, behind every function and object of the program's: whoever opens it late has made some before,
// which a handler of exit would not wait for.
[[gnu::destructor]] void end() {
    if (the_one != nullptr) the_one->at_end();
}

}  // namespace

Sanitizer* the_sanitizer() noexcept { return the_one; }

}  // namespace gradus::sanitize
