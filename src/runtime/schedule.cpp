#include "runtime/schedule.h"

#include <charconv>
#include <string_view>

#include "base/config.h"
#include "base/log.h"
#include "runtime/stream.h"

namespace gradus {
namespace {

struct Choice {
    Schedule schedule = Schedule::usual;
    uint64_t state = 0;
};

// At load, before there is a thread.
constinit Choice choice;

bool read_seed(std::string_view text) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), choice.state);
    return error == std::errc() && end == text.data() + text.size();
}

[[maybe_unused]] const bool chosen = [] {
    const std::string_view text = environment("GRADUS_SCHEDULE");
    constexpr std::string_view kRandom = "random:";
    if (text.empty()) {
        if (std::string_view(environment("ASCEND_LAUNCH_BLOCKING")) == "1") choice.schedule = Schedule::now;
    } else if (text == "now") {
        choice.schedule = Schedule::now;
    } else if (text == "late") {
        choice.schedule = Schedule::late;
    } else if (text.starts_with(kRandom) && read_seed(text.substr(kRandom.size()))) {
        choice.schedule = Schedule::random;
    } else {
        log_line(concat("GRADUS_SCHEDULE: value '", text, "', expected now, late or random:SEED"));
    }
    return true;
}();

}  // namespace

Schedule schedule() noexcept { return choice.schedule; }

// splitmix64
uint64_t choose(uint64_t n) noexcept {
    uint64_t z = choice.state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (z ^ z >> 31) % n;
}

// What this stream's front waits for, step by step, until something can run; the program's own functions run on their
// stream's thread, which is let go for them.
bool Stream::run_for(Lock& lock, const Stream& stream) {
    auto* s = const_cast<Stream*>(&stream);    // NOLINT: who waits for a stream may run it
    for (int step = 0; step < 1000; ++step) {  // a longer chain is a circle
        const Task* const front = s->queue_.front();
        if (front == nullptr || s->queue_.running() != nullptr) return false;
        if (front->ready()) {
            if (front->may_take_for_ever()) {
                s->released_ = true;
                s->work_.notify_one();
                return false;
            }
            std::shared_ptr<Stream> keep = s->weak_from_this().lock();
            if (!keep) return false;
            s->run_front(lock);
            lock.unlock();  // `keep` may be the last owner now, and then needs the lock
            keep.reset();
            lock.lock();
            return true;
        }
        s = const_cast<Stream*>(front->waits_for());  // NOLINT
        if (s == nullptr) return false;
    }
    return false;
}

}  // namespace gradus
