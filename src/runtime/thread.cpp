#include "runtime/thread.h"

#include <pthread.h>
#include <signal.h>

#include <initializer_list>
#include <new>

#include "base/nonblocking.h"
#include "runtime/float_environment.h"

namespace gradus {
namespace {

struct Start {
    void (*body)(void*);
    void* argument;
};

void* run(void* given) {
    const Start start = *static_cast<Start*>(given);
    delete static_cast<Start*>(given);
    const DefaultFloatEnvironment environment;  // a thread inherits its maker's
    start.body(start.argument);
    return nullptr;
}

}  // namespace

bool start_thread(const char* name, void (*body)(void*), void* argument) noexcept {
    const MayBlock once;  // threads are started when they are first wanted, and stay
    auto* const start = new (std::nothrow) Start{body, argument};
    if (start == nullptr) return false;
    sigset_t all, before;
    sigfillset(&all);
    // but for those that a thread brings upon itself, in the program's callbacks say: blocked, they would end the
    // process
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) sigdelset(&all, own);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited as well
    pthread_t thread;
    const bool started = pthread_create(&thread, nullptr, run, start) == 0;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!started) return delete start, false;
    pthread_setname_np(thread, name);
    pthread_detach(thread);
    return true;
}

}  // namespace gradus
