// Calls that failed: what kind of mistake it was, and whether anybody looked. Calls that will never return.
#include <dirent.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>
#include <ctime>
#include <fstream>

#include "acl/acl_base.h"
#include "base/lock.h"
#include "runtime/memory.h"
#include "runtime/thread.h"
#include "sanitize/here.h"

namespace gradus::sanitize {
namespace {

// Answers, not mistakes.
bool is_answer(int code) {
    return code == ACL_ERROR_REPEAT_INITIALIZE || code == ACL_ERROR_REPEAT_FINALIZE ||
           code == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT || code == ACL_ERROR_RT_EVENT_SYNC_TIMEOUT ||
           code == ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID;
}

// Answers that need no second look either: a thread that asks again and again whether there is a callback for it, or
// whether it has a device; an option that was never set.
bool is_plain_answer(std::string_view function, int code) {
    return code == ACL_ERROR_REPEAT_INITIALIZE || code == ACL_ERROR_REPEAT_FINALIZE ||
           code == ACL_ERROR_RT_SYSPARAMOPT_NOT_SET ||
           (code == ACL_ERROR_RT_CONTEXT_NULL &&
            (function == "aclrtGetDevice" || function == "aclrtGetCurrentContext")) ||
           (function == "aclrtProcessReport" &&
            (code == ACL_ERROR_RT_REPORT_TIMEOUT || code == ACL_ERROR_RT_THREAD_SUBSCRIBE));
}

bool contains(const Status& status, const char* text) {
    return status.message().view().find(text) != std::string_view::npos;
}

uint64_t thread() { return static_cast<uint64_t>(gettid()); }

// Whether a live handle lies at the address: its address was given instead of itself.
bool holds_handle(const void* address) {
    uint64_t value = 0;
    const iovec to{&value, sizeof value};
    const iovec from{const_cast<void*>(address), sizeof value};  // NOLINT: it is read only
    if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != sizeof value) return false;
    return value >> 56 == 0x5A;
}

const char* type_of(HandleKind kind) {
    switch (kind) {
        case HandleKind::context:
            return "context";
        case HandleKind::stream:
            return "stream";
        case HandleKind::event:
            return "event";
        case HandleKind::tensor:
            return "tensor";
        case HandleKind::executor:
            return "executor";
        default:
            return "object";
    }
}

// Threads of the program: ours have names.
int program_threads() {
    int count = 0;
    DIR* const folder = opendir("/proc/self/task");
    if (folder == nullptr) return 2;
    while (const dirent* entry = readdir(folder)) {
        if (entry->d_name[0] == '.') continue;
        std::ifstream file(std::string("/proc/self/task/") + entry->d_name + "/comm");
        std::string name;
        std::getline(file, name);
        if (name.rfind("gradus-", 0) != 0) ++count;
    }
    closedir(folder);
    return count;
}

}  // namespace

bool reads_errors(std::string_view function) {
    return function == "aclGetRecentErrMsg" || function == "aclrtGetLastError" || function == "aclrtPeekAtLastError";
}

// The stack of the call without its innermost frame: a second try is another line of the same function.
Site Sanitizer::callers() {
    const RawStack& all = calls.innermost().stack;
    RawStack rest;
    for (size_t i = 1; i < all.count; ++i) rest.pc[rest.count++] = all.pc[i];
    return findings_.stacks.keep(rest);
}

// With the lock.
void Sanitizer::judge_return(const char* function, const Status& status) {
    const std::string name = std::string(function) + (calls.innermost().phase_one ? "GetWorkspaceSize" : "");
    if (reads_errors(name)) std::erase_if(failures_, [](const auto& f) { return std::get<0>(f.first) == thread(); });
    const auto key = std::tuple(thread(), name, callers());
    if (status.ok()) {
        failures_.erase(key);
    } else {
        const Here& here = calls.innermost();
        const bool explained = findings_.reported != here.findings;  // the code follows from what was told
        const bool plain = is_plain_answer(name, status.code());
        if (options_.api_errors && options_.memcheck && !explained && !plain && !is_answer(status.code()))
            report(classify(name.c_str(), status));
        if (!plain) failures_[key] = {name, std::string(status.message().view()), site(), here.expired};
    }
    some_failed_ = !failures_.empty();
}

// A wait that expired has been made good by one that did not.
void Sanitizer::forgive(uint64_t stream) {
    const std::string_view function = current_function();
    const bool waits = function.starts_with("aclrtSynchronize") || function.starts_with("aclrtStreamQuery");
    if (!waits || stream == 0) return;
    std::erase_if(failures_, [stream](const auto& failure) { return failure.second.expired == stream; });
    some_failed_ = !failures_.empty();
}

Finding Sanitizer::classify(const char* function, const Status& status) {
    const Here& here = calls.innermost();
    if (here.handle != nullptr) return tell_handle(function, here);
    if (here.freed != nullptr) return tell_bad_free(function, here, status);
    const bool context = status.code() == ACL_ERROR_RT_CONTEXT_NULL || status.code() == ACL_ERROR_RT_STREAM_CONTEXT ||
                         contains(status, "another context") || contains(status, "no current context");
    const char* const id = context                                               ? "context"
                           : contains(status, "workspaceSize")                   ? "workspace-size"
                           : contains(status, "outside every device allocation") ? "out-of-footprint"
                           : contains(status, "leave")                           ? "out-of-footprint"
                           : contains(status, "storageDims")                     ? "out-of-footprint"
                           : contains(status, "not the address of live memory")  ? "out-of-footprint"
                           : contains(status, "overlaps")                        ? "overlap"
                           : contains(status, "both host memory")                ? "portability"
                                                                                 : "api-error";
    const bool portability = std::strcmp(id, "portability") == 0;
    const bool lacking = status.code() == ACL_ERROR_RT_FEATURE_NOT_SUPPORT;  // here; the device may have it
    Finding finding{id,
                    portability || lacking ? Level::warning : Level::error,
                    portability ? "an asynchronous copy from host to host" : "",
                    {{std::string(function) + " answers " + std::to_string(status.code()) + ": " +
                          std::string(status.message().view()),
                      site()}},
                    "",
                    {{"function", function}, {"code", std::to_string(status.code())}}};
    const std::string_view message = status.message().view();
    if (const size_t colon = message.find(':'); colon != std::string_view::npos && colon < 40)
        finding.keys.emplace_back("argument", std::string(message.substr(0, colon)));
    if (context) tell_makers(finding, here.elsewhere);
    return finding;
}

// Which thread calls, and where what it uses, and the first of the streams and of the contexts, were made.
void Sanitizer::tell_makers(Finding& finding, const void* used) const {
    constexpr size_t kMost = 4;
    finding.parts[0].text += " (thread " + std::to_string(thread()) + ")";
    finding.keys.emplace_back("thread", std::to_string(thread()));
    std::map<std::pair<bool, uint64_t>, const Handle*> makers;
    for (const auto& [handle, made] : handles_)
        if (handle == used || made.kind == HandleKind::stream || made.kind == HandleKind::context)
            makers[{handle != used, made.since}] = &made;
    for (const auto& [when, made] : makers)
        if (finding.parts.size() <= kMost)
            finding.parts.push_back(
                {std::string(when.first ? "a " : "the ") + type_of(made->kind) + " was made by " + made->function,
                 made->site});
    finding.fix = "aclrtSetDevice, or aclrtSetCurrentContext with the stream's context, on this thread";
}

// What is refused is told as a refusal.
void Sanitizer::on_other_context(const void* handle, Elsewhere how) {
    if (calls.depth == 0) return;
    calls.innermost().elsewhere = handle;
    if (how == Elsewhere::refused || calls.in_host_function > 0 || !options_.memcheck || !options_.api_errors) return;
    const bool event = how == Elsewhere::other_device;
    const std::string code = std::to_string(ACL_ERROR_RT_CONTEXT_NULL);
    const std::string why = event ? "the event and the stream belong to different devices, which the device refuses"
                                  : "the calling thread has no device; the device answers " + code;
    Finding finding{"context", Level::error,
                    "",        {{std::string(current_function()) + ": " + why, site()}},
                    "",        {{"function", current_function()}}};
    tell_makers(finding, handle);
    if (!event) finding.keys.emplace_back("code", code);
    if (event) finding.fix = "an event that was made on the stream's device";
    report(finding);
}

Finding Sanitizer::tell_handle(const char* function, const Here& here) {
    Finding finding{"bad-handle", Level::error, "", {}, "", {{"function", function}}};
    finding.keys.emplace_back("argument", type_of(here.unknown));
    const auto gone = destroyed_.find(here.handle);
    const auto executor = executors_.find(here.handle);
    if (gone != destroyed_.end() && executor != executors_.end() && executor->second.launched != 0) {
        finding.id = "executor-reused";
        finding.parts = {{std::string(function) + ": the executor was launched before", site()},
                         {"the launch before", executor->second.launched},
                         {"phase one", executor->second.site}};
        finding.fix = "aclSetAclOpExecutorRepeatable before the first launch, or phase one again";
    } else if (gone != destroyed_.end()) {
        finding.parts = {{std::string(function) + ": the " + type_of(gone->second.kind) + " is destroyed", site()},
                         {std::string(gone->second.function) + " destroyed it", gone->second.site}};
    } else if (const auto other = handles_.find(here.handle); other != handles_.end()) {
        finding.parts = {{std::string(function) + ": expected a live " + type_of(here.unknown) + ", this is a live " +
                              type_of(other->second.kind),
                          site()},
                         {std::string(other->second.function) + " made it", other->second.site}};
    } else {
        finding.parts = {{std::string(function) + ": not a live " + type_of(here.unknown), site()}};
        if (holds_handle(here.handle)) {
            finding.parts[0].text += "; a handle lies at that address: the address of the handle was given";
            finding.fix = "give the handle itself, without &";
        }
    }
    return finding;
}

Finding Sanitizer::tell_bad_free(const char* function, const Here& here, const Status& status) {
    Finding finding{"bad-free", Level::error, "", {}, "", {{"function", function}}};
    const Memory* const memory = shadow_.find(here.freed);
    const Memory* const freed = shadow_.find_freed(here.freed);
    if (memory != nullptr && memory->info.address != here.freed) {
        finding.kind = "interior pointer";
        const auto offset = static_cast<const std::byte*>(here.freed) - memory->info.address;
        finding.parts = {{std::string(function) + ": byte " + std::to_string(offset) + " of " + name(*memory) +
                              ", not its beginning",
                          site()},
                         part_of(*memory)};
    } else if (memory != nullptr) {
        finding.kind = "wrong kind";
        finding.parts = {{std::string(function) + ": " + std::string(status.message().view()), site()},
                         part_of(*memory)};
    } else if (freed != nullptr && freed->info.address == here.freed) {
        finding.kind = "freed twice";
        finding.parts = {{std::string(function) + ": " + name(*freed) + " is freed already", site()},
                         {std::string(freed->freed_by) + " freed it", freed->freed},
                         part_of(*freed)};
    } else {
        finding.kind = "not allocated here";
        finding.parts = {{std::string(function) + ": not memory of aclrtMalloc or aclrtMallocHost", site()}};
    }
    finding.keys.emplace_back("kind_of_free", finding.kind);
    return finding;
}

void Sanitizer::tell_ignored(const Failure& failure, const std::string& how) {
    report({"error-ignored",
            Level::warning,
            "",
            {{failure.function + " failed (" + failure.message + "), and " + how, failure.site}},
            "look at the code that it returns",
            {{"function", failure.function}}});
}

// One that no thread of the program can end is certain; another thread, or a callback on one of ours, may yet ask for
// the record.
void Sanitizer::on_wait(uint64_t stream, uint64_t record) {
    judge_end_of_stream(stream);
    const Order::Stuck stuck = order_.stuck(stream, record);
    if (stuck.wait == nullptr || !options_.racecheck) return;
    if (program_threads() == 1 && !order_.some_callback()) {
        tell_deadlock(stuck, {current_function(), site(), "waits for ever"});
        findings_.summarise();
        _exit(1);
    }
    struct Watch {
        Sanitizer* sanitizer;
        uint64_t stream, record, ticket;
        Waiter waiter;
    };
    auto* const watch =
        new Watch{this, stream, record, stuck.wait->ticket, {current_function(), site(), "has waited for 5 seconds"}};
    const auto body = [](void* argument) {
        const std::unique_ptr<Watch> w(static_cast<Watch*>(argument));
        const timespec pause{5, 0};
        nanosleep(&pause, nullptr);
        const Lock lock = hold();
        const Order::Stuck still = w->sanitizer->order_.stuck(w->stream, w->record);
        if (still.wait != nullptr && still.wait->ticket == w->ticket) w->sanitizer->tell_deadlock(still, w->waiter);
    };
    if (!start_thread("gradus-watch", body, watch)) delete watch;
}

void Sanitizer::tell_deadlock(const Order::Stuck& stuck, const Waiter& waiter) {
    const std::string stream = std::to_string(stuck.wait->stream);
    report({"deadlock",
            Level::error,
            stuck.circle ? "circle" : "",
            {{std::string(waiter.function) + " " + waiter.how, waiter.site},
             {"stream " + stream + " waits for a record that " +
                  (stuck.circle ? "waits for this stream in turn, " : "nobody asks for, ") + stuck.wait->function,
              stuck.wait->site}},
            stuck.circle ? "let one of the streams of the circle record before it waits"
                         : "aclrtRecordEvent before the program waits",
            {{"function", waiter.function}, {"stream", stream}}});
}

}  // namespace gradus::sanitize
