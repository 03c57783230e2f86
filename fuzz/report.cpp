#include "fuzz/report.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace gradus::fuzz {
namespace {

// Fixed, because a signal may come at any time.
char current[4096] = "before the first case";
uint8_t bytes[4096];
size_t size = 0;
int patience = 0;

// Never destroyed: they are printed at exit.
std::mutex& mutex() {
    static std::mutex& one = *new std::mutex;
    return one;
}
std::map<std::string, int64_t>& counts() {
    static auto& all = *new std::map<std::string, int64_t>;
    return all;
}

void write_text(const char* text) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
}

void write_case() {
    write_text("\nfuzz: case: ");
    write_text(current);
    write_text("\n");
    if (size == 0) return;
    write_text("fuzz: bytes: ");
    for (size_t i = 0; i < size; ++i) {
        constexpr char kDigits[] = "0123456789abcdef";
        const char digits[] = {kDigits[bytes[i] >> 4], kDigits[bytes[i] & 15], '\0'};
        write_text(digits);
    }
    write_text("\n");
}

void tell_and_end(int signal) {
    write_text(signal == SIGALRM ? "\nfuzz: oracle hang: the case has not come to its end"
                                 : "\nfuzz: oracle crash: a signal");
    write_case();
    std::signal(signal == SIGALRM ? SIGABRT : signal, SIG_DFL);
    raise(signal == SIGALRM ? SIGABRT : signal);
}

}  // namespace

void set_case(const std::string& words) {
    std::snprintf(current, sizeof current, "%s", words.c_str());
    static const bool show = std::getenv("GRADUS_FUZZ_SHOW") != nullptr;
    if (show) std::fprintf(stderr, "%s\n", current);
}

void count(const char* what, int64_t by) {
    const std::scoped_lock lock(mutex());
    counts()[what] += by;
}

int64_t counted(const char* what) {
    const std::scoped_lock lock(mutex());
    const auto found = counts().find(what);
    return found == counts().end() ? 0 : found->second;
}

void print_counts() {
    const std::scoped_lock lock(mutex());
    for (const auto& [what, n] : counts()) std::fprintf(stderr, "%12lld %s\n", static_cast<long long>(n), what.c_str());
}

void fail(const char* oracle, const std::string& what) {
    std::fprintf(stderr, "\nfuzz: oracle %s: %s", oracle, what.c_str());
    write_case();
    if (patience > 0) std::signal(SIGABRT, SIG_DFL);  // ours has nothing to add; another engine's keeps the case
    std::abort();
}

bool planted(const char* oracle) {
    static const char* const wanted = std::getenv("GRADUS_FUZZ_PLANT");
    return wanted != nullptr && std::strcmp(wanted, oracle) == 0;
}

void watch(int seconds) {
    patience = seconds;
    for (const int signal : {SIGALRM, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP})
        std::signal(signal, tell_and_end);
}

void begin_case(const uint8_t* data, size_t count) {
    size = std::min(count, sizeof bytes);
    std::copy_n(data, size, bytes);
    alarm(static_cast<unsigned>(patience));
}

}  // namespace gradus::fuzz
