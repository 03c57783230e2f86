// Mistakes with memory: freed while in use, used after it was freed, never written, too short.
#include "base/lock.h"
#include "runtime/memory.h"
#include "sanitize/here.h"

namespace gradus::sanitize {
namespace {

constexpr const char* kSetAddress =
    "aclSetInputTensorAddr or aclSetOutputTensorAddr with the new address before the launch";

bool is_host(const Memory& memory) { return memory.info.kind != MemoryKind::device; }

std::string does(const TaskInfo& task, const Access& access) {
    return std::string(task.function) + (access.writes ? " writes " : " reads ") + access.argument;
}

// Memory that was ours once, and is the program's own now: it was registered, or the system gave its address out again.
bool is_back(const Memory& freed, const void* address) {
    return freed.info.kind == MemoryKind::registered || (!is_quarantined(address) && is_mapped(address, 1));
}

}  // namespace

void Sanitizer::judge_free(MemoryKind kind, uint64_t allocation) {
    const Kept* const user = options_.memcheck ? order_.user_of(allocation) : nullptr;
    const Memory* const memory = shadow_.by_id(allocation);
    if (user == nullptr || memory == nullptr) return;
    report({kind == MemoryKind::device ? "free-in-use" : "host-free-in-use",
            Level::error,
            "",
            {{std::string(current_function()) + " frees " + name(*memory) + ", which queued work still uses", site()},
             {std::string(user->task.function) + ", task " + number(user->task.ticket) + " on stream " +
                  number(user->task.stream) + ", " + (user->access.writes ? "writes " : "reads ") +
                  user->access.argument + ": " + bytes_words(user->access, memory),
              user->task.site},
             part_of(*memory)},
            "aclrtSynchronizeStream(stream " + number(user->task.stream) + ") before the free",
            {{"function", current_function()},
             {"argument", user->access.argument},
             {"stream", number(user->task.stream)},
             {"task", number(user->task.ticket)}}});
}

void Sanitizer::tell_unused(const Memory& memory) {
    report({"unused",
            Level::note,
            "",
            {{name(memory) + " was never read or written", memory.allocated}},
            "",
            {{"object", name(memory)}}});
}

void Sanitizer::judge_memory(const TaskInfo& task, const Access& access) {
    if (access.view.empty()) return;
    const TensorView::Extent extent = access.view.extent();
    Memory* const memory = shadow_.find(access.address + extent.begin);
    const auto find_freed = [&] { return shadow_.find_freed(access.address + extent.begin); };
    if (memory != nullptr) {
        memory->used = true;
        if (!options_.memcheck) return;
        if (task.kind == TaskKind::launch)
            if (const Memory* const freed = find_freed()) judge_reuse(task, access, *memory, *freed);
        const auto end = static_cast<size_t>(access.address - memory->info.address + extent.end);
        if (end > memory->info.size && end <= memory->info.footprint)
            report({"beyond-size",
                    Level::warning,
                    "",
                    {{does(task, access) + " up to byte " + number(end) + " of " + name(*memory) + ", which has " +
                          number(memory->info.size),
                      site()},
                     part_of(*memory)},
                    "allocate what is used, or use what was allocated: the bytes behind it are the allocator's",
                    {{"function", task.function}, {"argument", access.argument}}});
        return;
    }
    const Memory* const freed = options_.memcheck ? find_freed() : nullptr;
    if (freed == nullptr || is_back(*freed, access.address + extent.begin)) return;
    const auto executor = executors_.find(task.executor);
    const bool again = executor != executors_.end() && executor->second.launches > 0;
    report({again ? "stale-address" : "use-after-free",
            Level::error,
            "",
            {{does(task, access) + ": " + name(*freed) + ", which is freed", site()},
             {name(*freed) + " was freed by " + freed->freed_by, freed->freed},
             part_of(*freed)},
            again ? kSetAddress : "free after the last use, or make the tensor of the new address",
            {{"function", task.function}, {"argument", access.argument}}});
}

// The tensor was made for memory that is gone, and other memory lies there now.
void Sanitizer::judge_reuse(const TaskInfo& task, const Access& access, const Memory& memory, const Memory& freed) {
    const auto executor = executors_.find(task.executor);
    if (executor == executors_.end() || access.index >= executor->second.tensors.size()) return;
    const void* const tensor = executor->second.tensors[access.index];
    auto handle = handles_.find(tensor);
    if (handle == handles_.end() && (handle = destroyed_.find(tensor)) == destroyed_.end()) return;
    const auto set = executor->second.address.find(access.index);
    const uint64_t made = set == executor->second.address.end() ? handle->second.since : set->second;
    if (made < freed.since || made > freed.until) return;
    const bool again = executor->second.launches > 0;
    report({again ? "stale-address" : "address-reused",
            Level::error,
            "",
            {{does(task, access) + ": the address was that of " + name(freed) + " when it was given, and " +
                  name(memory) + " has it now",
              site()},
             {name(freed) + " was freed by " + freed.freed_by, freed.freed},
             part_of(freed),
             part_of(memory)},
            again ? kSetAddress : "make a new tensor of the new memory",
            {{"function", task.function}, {"argument", access.argument}}});
}

void Sanitizer::judge_executor(const TaskInfo& task) {
    const auto it = executors_.find(task.executor);
    if (it == executors_.end()) return;
    Executor& executor = it->second;
    for (size_t i = 0; i < executor.tensors.size(); ++i) {
        const auto gone = destroyed_.find(executor.tensors[i]);
        if (executor.tensors[i] == nullptr || gone == destroyed_.end()) continue;
        const char* name = "a tensor";
        for (const Access& access : task.accesses)
            if (access.index == i && std::string_view(access.argument) != "workspace") name = access.argument;
        report({"destroyed-between-phases",
                Level::error,
                "",
                {{std::string(task.function) + ": " + name + " was destroyed after phase one", site()},
                 {std::string(gone->second.function) + " destroyed it", gone->second.site},
                 {"phase one", executor.site}},
                "destroy tensors after phase two",
                {{"function", task.function}, {"argument", name}}});
    }
}

// Which bytes were written, in the order of the calls.
void Sanitizer::book(const TaskInfo& task) {
    if (const auto it = executors_.find(task.executor); it != executors_.end()) {
        ++it->second.launches;
        it->second.launched = site();
    }
    if (!options_.initcheck) return;
    const Access* source = nullptr;
    Memory* from = nullptr;
    for (const Access& access : task.accesses) {
        Memory* const memory = shadow_.find(access.address + access.view.extent().begin);
        if (access.reads && memory != nullptr && !is_host(*memory)) {
            source = &access;
            from = memory;
            if (task.kind == TaskKind::launch || task.kind == TaskKind::collective) judge_read(task, access, *memory);
        }
    }
    for (const Access& access : task.accesses) {
        if (!access.writes || std::string_view(access.argument) == "workspace") continue;
        Memory* const memory = shadow_.find(access.address + access.view.extent().begin);
        const bool device = memory != nullptr && !is_host(*memory);
        if (task.kind == TaskKind::copy && source != nullptr) {
            if (device)
                shadow_.carry_over(*source, *from, access, *memory);
            else
                judge_read(task, *source, *from);
        } else if (device) {
            shadow_.write(access, *memory);
        }
    }
}

void Sanitizer::judge_read(const TaskInfo& task, const Access& access, Memory& memory) {
    const auto gap = shadow_.unwritten(access, memory);
    if (!gap) return;
    const bool copies = task.kind == TaskKind::copy;
    // what was not written may be what is not read; not so where nothing was, of an argument that is read at all
    const bool declared = access.declared != Reads::all;
    const bool perhaps = declared && (access.declared == Reads::perhaps || Shadow::some_written(access, memory));
    report({copies ? "uninitialised-copy" : "uninitialised",
            copies || perhaps ? Level::warning : Level::error,
            "",
            {{does(task, access) + ": " + (declared ? "declared bytes " : "bytes ") + number(gap->first) + "–" +
                  number(gap->second - 1) + " of " + name(memory) + " were never written",
              site()},
             part_of(memory)},
            "",
            {{"function", task.function},
             {"argument", access.argument},
             {"bytes", number(gap->first) + "–" + number(gap->second - 1)}}});
    shadow_.write(access, memory);  // said once
}

// A line for what a copy brought to the host: its place among the copies asked for, its bytes and their hash.
void Sanitizer::hash_copy(const TaskInfo& task, uint64_t place, Site site) {
    if (task.kind != TaskKind::copy) return;
    const Access *from = nullptr, *to = nullptr;
    for (const Access& access : task.accesses) (access.writes ? to : from) = &access;
    if (from == nullptr || to == nullptr) return;
    const Memory* const target = shadow_.find(to->address);
    const Memory* const source = shadow_.find(from->address);
    if ((target != nullptr && !is_host(*target)) || source == nullptr || is_host(*source)) return;
    const std::byte* const base = library_address(to->address);
    uint64_t hash = 0xcbf29ce484222325;
    for (int64_t row = 0; row < to->view.of(0); ++row)
        for (int64_t i = 0; i < to->view.of(1); ++i)
            hash = (hash ^ static_cast<uint64_t>(base[row * to->view.step(0) + i])) * 0x100000001b3;
    const std::string line = std::to_string(place) + " " + std::to_string(to->view.numel()) + " " +
                             std::to_string(hash) + " " + stack_text(findings_.stacks.frames(site)) + "\n";
    copies_.add(line);
}

}  // namespace gradus::sanitize
