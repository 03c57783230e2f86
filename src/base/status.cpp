#include "base/status.h"

#include "base/log.h"

namespace gradus {
namespace {

constexpr size_t kMostBytes = 4096;  // a program that never reads its messages must not collect them for ever

struct ThreadErrors {
    std::string unread, handed_out;
    int code = 0;
};
thread_local ThreadErrors errors;

}  // namespace

int report(const char* function, const Status& status) noexcept {
    if (status.ok()) return 0;
    errors.code = status.code();
    try {
        std::string line = concat(function, ": ", status.message());
        log(LogLevel::error, line);
        if (!errors.unread.empty() && line.size() + errors.unread.size() < kMostBytes) line += "\n" + errors.unread;
        errors.unread = std::move(line);
    } catch (...) {  // no memory for words: the code still arrives
    }
    return status.code();
}

const char* take_messages() noexcept {
    if (errors.unread.empty()) return nullptr;
    errors.handed_out.swap(errors.unread);
    errors.unread.clear();
    return errors.handed_out.c_str();
}

int last_error(bool clear) noexcept { return clear ? std::exchange(errors.code, 0) : errors.code; }

}  // namespace gradus
