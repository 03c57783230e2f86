#include "inject.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <thread>

namespace gradus::faults {
namespace {

struct Plan {
    bool armed;
    Kind kind;
    int64_t nth;
    bool and_all_after;
    int64_t requests, thrown;
};
constinit thread_local Plan plan{};
constinit std::atomic<int64_t> live = 0, tried[3] = {};

bool refused(Kind kind) noexcept {
    if (!plan.armed || plan.kind != kind) return false;
    ++plan.requests;
    return plan.requests == plan.nth || (plan.and_all_after && plan.requests > plan.nth);
}

// malloc, so that a sanitizer still sees every block.
void* allocate(size_t size, size_t alignment) noexcept {
    constexpr size_t kMost = size_t{1} << 40;  // of a sanitizer's malloc, which ends the program beyond it
    if (refused(Kind::memory) || size > kMost) return nullptr;
    void* block = nullptr;
    if (alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__)
        block = std::malloc(size > 0 ? size : 1);
    else if (posix_memalign(&block, alignment, size) != 0)
        block = nullptr;
    if (block != nullptr) live.fetch_add(1, std::memory_order_relaxed);
    return block;
}

void* allocate_or_throw(size_t size, size_t alignment) {
    void* const block = allocate(size, alignment);
    if (block != nullptr) return block;
    ++plan.thrown;
    throw std::bad_alloc();
}

void give_back(void* block) noexcept {
    if (block == nullptr) return;
    live.fetch_sub(1, std::memory_order_relaxed);
    std::free(block);
}

constinit char where[256] = "before the first call\n";

void say_and_end(int signal) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, where, std::strlen(where));
    std::signal(signal, SIG_DFL);
    raise(signal);
}

}  // namespace

Refusing::Refusing(Kind kind, int64_t nth, bool and_all_after) noexcept {
    plan = {true, kind, nth, and_all_after, 0, 0};
}
Refusing::~Refusing() {
    plan.armed = false;
    if (plan.requests >= plan.nth) ++tried[static_cast<size_t>(plan.kind)];
}
int64_t Refusing::requests() const noexcept { return plan.requests; }
int64_t Refusing::thrown() const noexcept { return plan.thrown; }

int64_t points(Kind kind) noexcept { return tried[static_cast<size_t>(kind)]; }

int64_t live_blocks() noexcept { return live.load(std::memory_order_relaxed); }

bool settles_at(int64_t blocks) noexcept {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    while (live_blocks() > blocks) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::yield();
    }
    return true;
}

void say_where(const char* function, const char* what, int64_t nth, bool and_all_after) noexcept {
    std::snprintf(where, sizeof where, "in %s, %s request %lld%s refused\n", function, what,
                  static_cast<long long>(nth), and_all_after ? " and all after" : "");
    alarm(20);  // of the test, which has thousands of calls
}

void report_where_at_the_end() noexcept {
    std::set_terminate([] { std::abort(); });
    for (const int signal : {SIGABRT, SIGALRM}) std::signal(signal, say_and_end);
#if !defined(__SANITIZE_ADDRESS__)  // which tells more
    std::signal(SIGSEGV, say_and_end);
#endif
}

}  // namespace gradus::faults

using namespace gradus::faults;  // NOLINT(google-build-using-namespace)

constexpr size_t kUsual = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

void* operator new(size_t size) { return allocate_or_throw(size, kUsual); }
void* operator new[](size_t size) { return allocate_or_throw(size, kUsual); }
void* operator new(size_t size, std::align_val_t to) { return allocate_or_throw(size, static_cast<size_t>(to)); }
void* operator new[](size_t size, std::align_val_t to) { return allocate_or_throw(size, static_cast<size_t>(to)); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return allocate(size, kUsual); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return allocate(size, kUsual); }
void* operator new(size_t size, std::align_val_t to, const std::nothrow_t&) noexcept {
    return allocate(size, static_cast<size_t>(to));
}
void* operator new[](size_t size, std::align_val_t to, const std::nothrow_t&) noexcept {
    return allocate(size, static_cast<size_t>(to));
}
void operator delete(void* block) noexcept { give_back(block); }
void operator delete[](void* block) noexcept { give_back(block); }
void operator delete(void* block, size_t) noexcept { give_back(block); }
void operator delete[](void* block, size_t) noexcept { give_back(block); }
void operator delete(void* block, std::align_val_t) noexcept { give_back(block); }
void operator delete[](void* block, std::align_val_t) noexcept { give_back(block); }
void operator delete(void* block, size_t, std::align_val_t) noexcept { give_back(block); }
void operator delete[](void* block, size_t, std::align_val_t) noexcept { give_back(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { give_back(block); }
void operator delete[](void* block, const std::nothrow_t&) noexcept { give_back(block); }

// What is not refused goes on to who would have had it: a sanitizer, which must know of mappings and threads, or libc.
template <typename F>
static F next(const char* name) noexcept {
    return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

extern "C" {
#pragma GCC visibility push(default)  // for the library

void* mmap(void* address, size_t size, int protection, int flags, int file, off_t offset) noexcept {
    static const auto real = next<decltype(&mmap)>("mmap");
    if (!refused(Kind::mapping)) return real(address, size, protection, flags, file, offset);
    errno = ENOMEM;
    return MAP_FAILED;
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) noexcept {
    static const auto real = next<decltype(&pthread_create)>("pthread_create");
    return refused(Kind::thread) ? EAGAIN : real(thread, attributes, body, argument);
}

#pragma GCC visibility pop
}  // extern "C"
