// Errors are values: a Status inside, a code and the thread's last message at the C boundary.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace gradus {

// Joins its arguments, strings and integers, into one message.
inline void append(std::string& to, const std::string& text) { to += text; }
inline void append(std::string& to, const char* text) { to += text; }
inline void append(std::string& to, int64_t number) { to += std::to_string(number); }
inline void append(std::string& to, uint64_t number) { to += std::to_string(number); }
inline void append(std::string& to, int number) { to += std::to_string(number); }
inline void append(std::string& to, uint32_t number) { to += std::to_string(number); }

template <typename... Parts>
std::string concat(const Parts&... parts) {
    std::string text;
    (append(text, parts), ...);
    return text;
}

class [[nodiscard]] Status {
  public:
    Status() = default;
    Status(int code, std::string message) : code_(code), message_(std::move(message)) {}

    bool ok() const { return code_ == 0; }
    int code() const { return code_; }
    const std::string& message() const { return message_; }

  private:
    int code_ = 0;
    std::string message_;
};

template <typename T>
class [[nodiscard]] Result {
  public:
    Result(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
    Result(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

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

// The C boundary's end of an error: remembers "function: message" and the code for the calling thread, returns the
// code.
int report(const char* function, const Status& status) noexcept;
inline int report(const char* function, int code, const std::string& message) noexcept {
    return report(function, Status(code, message));
}

// aclGetRecentErrMsg: the messages since the last call, newest first, one a line; nullptr when there are none.
const char* take_messages() noexcept;
int last_error(bool clear) noexcept;

}  // namespace gradus
