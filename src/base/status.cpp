#include "base/status.h"

#include <cstring>

#include "base/log.h"

namespace gradus {
namespace {

// Of the calling thread. Plain bytes without a destructor: a program's static objects may fail, and read why, after the
// thread's own destructors have run, and registering one would need memory.
struct ThreadErrors {
    static constexpr size_t kMost = 4095;  // a program that never reads its messages must not collect them for ever

    char unread[kMost + 1], handed_out[kMost + 1];
    size_t size;
    int code;
};
constinit thread_local ThreadErrors errors{};

}  // namespace

int report(const char* function, const Status& status) noexcept {
    if (status.ok()) return 0;
    errors.code = status.code();
    const Text line = concat(function, ": ", status.message());
    log(LogLevel::error, line);
    // in front of the older ones, which go when there is no room for them all
    const size_t length = line.view().size();
    size_t older = errors.size == 0 ? 0 : errors.size + 1;  // and a line break
    if (length + older > ThreadErrors::kMost) older = 0;
    if (older > 0) {
        std::memmove(errors.unread + length + 1, errors.unread, older - 1);
        errors.unread[length] = '\n';
    }
    std::memcpy(errors.unread, line.c_str(), length);
    errors.size = length + older;
    errors.unread[errors.size] = '\0';
    return status.code();
}

const char* take_messages() noexcept {
    if (errors.size == 0) return nullptr;
    std::memcpy(errors.handed_out, errors.unread, errors.size + 1);
    errors.size = 0;
    return errors.handed_out;
}

int last_error(bool clear) noexcept { return clear ? std::exchange(errors.code, 0) : errors.code; }

}  // namespace gradus
