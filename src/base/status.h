// Errors are values: a Status inside, a code and the thread's last message at the C boundary (base/boundary.h).
#pragma once

#include <optional>
#include <utility>

#include "base/text.h"

namespace gradus {

class [[nodiscard]] Status {
  public:
    Status() noexcept {}  // NOLINT(modernize-use-equals-default): that would write zeros over the whole text
    Status(int code, const Text& message) noexcept : code_(code), message_(message) {}

    bool ok() const { return code_ == 0; }
    int code() const { return code_; }
    const Text& message() const { return message_; }

  private:
    int code_ = 0;
    Text message_;
};

template <typename T>
class [[nodiscard]] Result {
  public:
    Result(T value) : value_(std::move(value)) {}               // NOLINT(google-explicit-constructor)
    Result(const Status& status) noexcept : status_(status) {}  // NOLINT(google-explicit-constructor)

    bool ok() const { return value_.has_value(); }
    const Status& status() const { return status_; }
    T& operator*() { return *value_; }
    const T& operator*() const { return *value_; }
    T* operator->() { return &*value_; }
    const T* operator->() const { return &*value_; }

  private:
    std::optional<T> value_;
    Status status_;
};

#define GRADUS_TRY(expression)                                                                        \
    do {                                                                                              \
        if (::gradus::Status gradus_status = (expression); !gradus_status.ok()) return gradus_status; \
    } while (0)

// Remembers "function: message" and the code for the calling thread, returns the code. Allocates nothing.
int report(const char* function, const Status& status) noexcept;

// aclGetRecentErrMsg: the messages since the last call, newest first, one a line; nullptr when there are none.
const char* take_messages() noexcept;
int last_error(bool clear) noexcept;

}  // namespace gradus
