// The end of the process: work that nobody waited for, what is left, errors that nobody looked at, the summary.
#include "base/lock.h"
#include "runtime/memory.h"
#include "sanitize/here.h"
#include "sanitize/teller.h"

namespace gradus::sanitize {

// Queued work is about to be dropped; static objects of the program's come next, and may yet wait for it.
void Sanitizer::on_exit() { leaving_ = true; }

void Sanitizer::judge_end() {
    const Asked* const task = options_.racecheck ? order_.unfinished() : nullptr;
    if (task == nullptr) return;
    report({"not-waited-for",
            Level::error,
            "",
            {{std::string(task->function) + ", task " + std::to_string(task->ticket) + " on stream " +
                  std::to_string(task->stream) + ": the process ends, and nobody has waited for it",
              task->site}},
            "aclrtSynchronizeStream(stream " + std::to_string(task->stream) + ") before the end",
            {{"function", task->function}, {"stream", std::to_string(task->stream)}}});
}

// After the program's own static objects, which may still wait, and free.
void Sanitizer::at_end() {
    tell_touches();
    const Lock lock = hold();
    const bool silent = !teller_wanted() && findings_.none();  // who calls nothing, such as gradus itself
    if (ended_ || silent) return;
    ended_ = true;
    judge_end();
    if (status_ == 0)
        for (const auto& [key, failure] : failures_) tell_ignored(failure, "the program ends as if nothing had been");
    if (options_.leakcheck) tell_leaks();
    findings_.summarise();
}

// Nothing is a leak, or was not waited for, where the program did not come to its end.
void Sanitizer::at_death() {
    const Lock lock = hold();
    if (ended_) return;
    ended_ = true;
    findings_.summarise();
}

void Sanitizer::tell_leak(const char* what, const std::vector<std::pair<std::string, Site>>& left) {
    if (left.empty()) return;
    Finding finding{"leak", Level::warning, what, {}, "", {{"what", what}, {"count", std::to_string(left.size())}}};
    if (options_.full_leaks) {
        finding.keys.emplace_back("object", "");  // several may come from one place
        for (size_t i = 0; i < left.size(); ++i) {
            finding.parts = {{left[i].first + " is left", left[i].second}};
            finding.keys.back().second = std::string(what) + " " + std::to_string(i + 1);
            report(finding);
        }
        return;
    }
    finding.parts = {{std::to_string(left.size()) + " left; the first: " + left.front().first, left.front().second}};
    report(finding);
}

void Sanitizer::tell_leaks() {
    struct Kind {
        HandleKind kind;
        const char* what;
        const char* maker;  // only what the program made itself: devices bring a context, contexts a stream
    };
    constexpr Kind kKinds[] = {{HandleKind::stream, "stream", "aclrtCreateStream"},
                               {HandleKind::event, "event", "aclrtCreateEvent"},
                               {HandleKind::context, "context", "aclrtCreateContext"},
                               {HandleKind::tensor, "tensor", "acl"},
                               {HandleKind::scalar, "scalar", "acl"},
                               {HandleKind::int_array, "int array", "acl"},
                               {HandleKind::float_array, "float array", "acl"},
                               {HandleKind::bool_array, "bool array", "acl"},
                               {HandleKind::tensor_list, "tensor list", "acl"},
                               {HandleKind::scalar_list, "scalar list", "acl"},
                               {HandleKind::executor, "executor", ""},
                               {HandleKind::data_buffer, "data buffer", "acl"},
                               {HandleKind::communicator, "communicator", "Hccl"}};
    std::vector<std::pair<std::string, Site>> device, host;
    for (const auto& [id, memory] : shadow_.live()) {
        if (memory->since < forked_) continue;
        const std::string text =
            name(*memory) + ", " + std::to_string(memory->info.size) + " bytes of " + memory->allocated_by;
        if (memory->info.kind != MemoryKind::registered)
            (memory->info.kind == MemoryKind::device ? device : host).emplace_back(text, memory->allocated);
    }
    tell_leak("memory", device);
    tell_leak("host memory", host);
    for (const Kind& kind : kKinds) {
        std::map<uint64_t, std::pair<std::string, Site>> left;  // in the order they were made
        for (const auto& [handle, made] : handles_)
            if (made.kind == kind.kind && made.made > forked_ &&
                std::string_view(made.function).starts_with(kind.maker))
                left[made.made] = {std::string(kind.what) + " of " + made.function, made.site};
        std::vector<std::pair<std::string, Site>> list;
        list.reserve(left.size());
        for (auto& [since, one] : left) list.push_back(std::move(one));
        tell_leak(kind.what, list);
    }
    if (options_.full_leaks)
        for (const auto& [id, memory] : shadow_.live())
            if (!memory->used && memory->since > forked_ && memory->info.kind == MemoryKind::device)
                tell_unused(*memory);
}

}  // namespace gradus::sanitize
