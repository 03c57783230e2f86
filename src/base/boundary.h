// The C boundary. Every extern "C" function runs its body in here: whatever happens inside, a code comes out, a message
// stays, and nothing escapes into C.
#pragma once

#include <chrono>
#include <new>

#include "base/log.h"
#include "base/observer.h"
#include "base/status.h"

namespace gradus {

// What a function answers to a NULL that it needs, when memory runs out, and when something happens that should not.
struct BoundaryCodes {
    int null, no_memory, unexpected;
};

inline Status not_null(const BoundaryCodes& codes, const char* argument, const void* pointer) noexcept {
    if (pointer != nullptr) return {};
    return {codes.null, concat(argument, ": NULL")};
}

namespace boundary {

// GRADUS_LOG=trace: a line for every call.
class Trace {
  public:
    explicit Trace(const char* function) noexcept : function_(log_enabled(LogLevel::trace) ? function : nullptr) {
        if (function_ != nullptr) begin_ = std::chrono::steady_clock::now();
    }
    void end(int code) const noexcept {
        if (function_ == nullptr) return;
        const auto took = std::chrono::steady_clock::now() - begin_;
        log(LogLevel::trace, concat(function_, " ", code, " ",
                                    std::chrono::duration_cast<std::chrono::microseconds>(took).count(), " µs"));
    }

  private:
    const char* function_;
    std::chrono::steady_clock::time_point begin_;
};

template <typename F>
auto call(const BoundaryCodes& codes, const F& f) noexcept -> decltype(f()) {
    try {
        return f();
    } catch (const std::bad_alloc&) {
        return Status(codes.no_memory, "out of memory");
    } catch (const std::exception& error) {
        return Status(codes.unexpected, error.what());
    } catch (...) {
        return Status(codes.unexpected, "an unknown exception");
    }
}

}  // namespace boundary

// Runs f, which returns a Status, and reports it under the function's name. `site`: where the function returns to,
// which is told to those who observe.
template <typename F>
int guarded(const char* function, const BoundaryCodes& codes, const F& f,
            const void* site = __builtin_return_address(0)) noexcept {
    const boundary::Trace trace(function);
    const ObservedCall observed_call(function, site);
    const Status status = boundary::call(codes, f);
    const int code = report(function, status);
    observed_call.end(status);
    trace.end(code);
    return code;
}

// For functions that answer with a value instead of a code: f returns a Result, and an error becomes `otherwise`.
template <typename T, typename F>
T guarded_value(const char* function, const BoundaryCodes& codes, T otherwise, const F& f,
                const void* site = __builtin_return_address(0)) noexcept {
    const boundary::Trace trace(function);
    const ObservedCall observed_call(function, site);
    const Result<T> result = boundary::call(codes, f);
    const int code = report(function, result.status());
    observed_call.end(result.status());
    trace.end(code);
    return result.ok() ? *result : otherwise;
}

}  // namespace gradus
