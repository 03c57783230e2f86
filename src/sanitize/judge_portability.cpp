// What works here and need not work on the device. What the interface's own guide does with effect is no mistake; it is
// told to who asks for all (portability=full).
#include <string>

#include "sanitize/here.h"

namespace gradus::sanitize {
namespace {

constexpr uintptr_t kAlignment = 64;  // of the addresses of aclrtMemcpyAsync, before CANN 8.3

Finding portability(const char* kind, const char* function, const std::string& why, Site site, std::string fix) {
    return {"portability",  Level::warning,          kind, {{std::string(function) + " " + why, site}},
            std::move(fix), {{"function", function}}};
}

std::string words_for(const Asked& task) {
    return std::string(task.function) + ", task " + std::to_string(task.ticket) + " on stream " +
           std::to_string(task.stream);
}

}  // namespace

void Sanitizer::tell_callback() {
    report(portability("a call inside a callback", current_function(),
                       "is called by a host function of a stream, which the device forbids", site(),
                       "let the callback wake a thread of the program, and call there"));
}

// Where limits are on, a copy from host to host is refused, and told as a refusal.
void Sanitizer::judge_async_copy(const TaskInfo& task) {
    if (!options_.memcheck || (task.kind != TaskKind::copy && task.kind != TaskKind::fill)) return;
    if (std::string_view(task.path) == "host to host")
        return report(portability("an asynchronous copy from host to host", task.function,
                                  "copies from host to host on a stream, which the device does not do", site(),
                                  "aclrtMemcpy, or memcpy after aclrtSynchronizeStream"));
    if (!options_.full_portability) return;
    for (const Access& access : task.accesses) {
        const uintptr_t past = reinterpret_cast<uintptr_t>(access.address) % kAlignment;
        if (shadow_.find(access.address) == nullptr) {
            Finding finding = portability("an asynchronous copy that is waited for", task.function,
                                          "returns when the copy is over, because " + std::string(access.argument) +
                                              " is not memory of aclrtMallocHost; the device does not promise that",
                                          site(), "memory of aclrtMallocHost, and aclrtSynchronizeStream");
            finding.keys.emplace_back("argument", access.argument);
            report(finding);
        } else if (past != 0 && task.kind == TaskKind::copy) {
            Finding finding = portability("alignment", task.function,
                                          "has " + std::string(access.argument) + " " + std::to_string(past) +
                                              " bytes behind a multiple of 64, which it has to be before CANN 8.3",
                                          site(), "addresses that are multiples of 64, or aclrtMemcpy");
            finding.keys.emplace_back("argument", access.argument);
            report(finding);
        }
    }
}

void Sanitizer::judge_sync_copy(const TaskInfo& task) {
    if (!options_.full_portability || task.device < 0) return;
    const Asked* const queued = order_.unfinished_on(task.device);
    if (queued == nullptr) return;
    Finding finding = portability("a synchronous copy that waits", task.function,
                                  "waits for " + words_for(*queued) + "; on the device it waits for nothing", site(),
                                  "aclrtSynchronizeStream(stream " + std::to_string(queued->stream) +
                                      ") before it, if anything relies on the wait");
    finding.parts.push_back({words_for(*queued), queued->site});
    report(finding);
}

// The calling thread is about to wait for it.
void Sanitizer::judge_end_of_stream(uint64_t stream) {
    const std::string_view function = current_function();
    if (!options_.full_portability || !(function.starts_with("aclrtDestroy") || function.starts_with("aclrtReset")))
        return;
    const Asked* const queued = order_.unfinished_of(stream);
    if (queued == nullptr) return;
    Finding finding = portability("destroyed without a synchronise", current_function(),
                                  "waits for " + words_for(*queued) + ", for which the program has not waited", site(),
                                  "aclrtSynchronizeStream(stream " + std::to_string(stream) +
                                      ") before it, which also tells whether the work went well");
    finding.parts.push_back({words_for(*queued), queued->site});
    report(finding);
}

}  // namespace gradus::sanitize
