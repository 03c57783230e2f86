// The text of a race: both accesses, the memory, what order is known, and the calls that are missing.
#include "runtime/memory.h"
#include "sanitize/sanitizer.h"

namespace gradus::sanitize {
namespace {

const char* task_word(TaskKind kind) {
    return kind == TaskKind::launch ? "launch"
           : kind == TaskKind::copy ? "copy"
           : kind == TaskKind::fill ? "fill"
                                    : "collective";
}

std::string who(const Asked& task) {
    if (task.stream == 0) return std::string(task.function) + ", by the host";
    return std::string(task.function) + ", " + task_word(task.kind) + " " + number(task.ticket) + " on stream " +
           number(task.stream);
}

std::string does(const Access& access) {
    return std::string(access.writes ? access.reads ? "reads and writes " : "writes " : "reads ") + access.argument;
}

const char* kind_of(const Access& earlier, const Access& later) {
    if (!later.writes) return "read after write";
    return earlier.writes ? "write after write" : "write after read";
}

// Where two stacks are told apart: behind the functions that both calls go through, such as a program's own launch().
std::pair<std::string, std::string> places(const std::vector<Frame>& a, const std::vector<Frame>& b) {
    size_t i = 0;
    while (i < a.size() && i < b.size() && place(a[i]) == place(b[i])) ++i;
    if (i >= a.size() || i >= b.size()) i = 0;
    const auto at = [i](const std::vector<Frame>& frames) {
        return frames.empty() ? std::string("its call") : place(frames[i]);
    };
    return {at(a), at(b)};
}

}  // namespace

std::string Sanitizer::name(const Memory& memory) const { return "A" + number(memory.info.id); }

Part Sanitizer::part_of(const Memory& memory) const {
    return {name(memory) + ": " + memory.allocated_by + " " + number(memory.info.size), memory.allocated};
}

std::string Sanitizer::bytes_of(const Access& access, const Memory* memory) const {
    const TensorView::Extent extent = access.view.extent();
    const int64_t base = memory != nullptr ? access.address - memory->info.address : 0;
    return number(static_cast<uint64_t>(base + extent.begin)) + "–" +
           number(static_cast<uint64_t>(base + extent.end - 1));
}

std::string Sanitizer::bytes_words(const Access& access, const Memory* memory) const {
    return (access.declared != Reads::all ? "declared bytes " : "bytes ") + bytes_of(access, memory) +
           (memory != nullptr ? " of " + name(*memory) : "");
}

void Sanitizer::tell_race(const Race& race) {
    if (!options_.racecheck) return;
    const Memory* const memory = shadow_.by_id(race.allocation);
    const Asked &earlier = race.earlier.task, &later = race.later;
    Finding finding{
        "race",
        race.certain ? Level::error : Level::warning,
        kind_of(race.earlier.access, race.access),
        {{who(later) + ", " + does(race.access) + ": " + bytes_words(race.access, memory), later.site},
         {who(earlier) + ", " + does(race.earlier.access) + ": " + bytes_words(race.earlier.access, memory) +
              (race.together ? "; both at the same time" : "; nothing orders the two") +
              (race.certain ? "" : ", and their strides are too tangled to tell whether they share a byte"),
          earlier.site}},
        ""};
    if (memory != nullptr) finding.parts.push_back(part_of(*memory));

    const auto [here, there] = places(findings_.stacks.frames(later.site), findings_.stacks.frames(earlier.site));
    const std::string from = "stream " + number(earlier.stream), to = "stream " + number(later.stream);
    if (later.stream == 0) {
        finding.fix = "before " + here + " aclrtSynchronizeStream(" + from + ")";
    } else if (race.together) {
        finding.fix = "give each rank memory of its own: all of them work at the same time";
    } else {
        const Order::Edge edge = order_.edge(later.stream, earlier.stream);
        if (edge.ticket != 0)
            finding.parts.push_back({"known: " + to + " is behind " + from + " up to task " + number(edge.ticket) +
                                         " (" + edge.function + ")",
                                     edge.site});
        finding.fix = "after " + there + " aclrtRecordEvent(e, " + from + "), before " + here +
                      " aclrtStreamWaitEvent(" + to + ", e)";
    }
    finding.keys = {{"function", later.function},
                    {"argument", race.access.argument},
                    {"stream", later.stream == 0 ? "host" : number(later.stream)},
                    {"task", number(later.ticket)},
                    {"other_function", earlier.function},
                    {"other_argument", race.earlier.access.argument},
                    {"other_stream", number(earlier.stream)},
                    {"other_task", number(earlier.ticket)},
                    {"bytes", bytes_of(race.access, memory)}};
    if (race.access.declared != Reads::all || race.earlier.access.declared != Reads::all)
        finding.keys.emplace_back("declared", "yes");
    report(finding);
}

}  // namespace gradus::sanitize
