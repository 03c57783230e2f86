#include "base/last_words.h"

#include <signal.h>

#include <array>
#include <cstddef>

namespace gradus {
namespace {

// The signals that end a process that does nothing about them.
constexpr int kFatal[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTERM, SIGINT, SIGHUP, SIGQUIT};

constinit std::array<void (*)(), 2> words{};
constinit size_t speakers = 0;

void say_and_die(int number) {
    for (size_t i = 0; i < speakers; ++i) words[i]();
    signal(number, SIG_DFL);  // it is not yet, where another handler has called this one
    raise(number);
}

void watch(int number) {
    struct sigaction old;
    if (sigaction(number, nullptr, &old) != 0 || (old.sa_flags & SA_SIGINFO) != 0 || old.sa_handler != SIG_DFL) return;
    struct sigaction ours {};
    ours.sa_handler = say_and_die;
    ours.sa_flags = static_cast<int>(SA_ONSTACK | SA_RESETHAND | SA_NODEFER);
    sigaction(number, &ours, nullptr);
}

}  // namespace

void before_fatal_signals(void (*say)()) noexcept {
    words[speakers++] = say;
    for (const int number : kFatal) watch(number);
}

}  // namespace gradus
